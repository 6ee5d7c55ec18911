"""How many records a worker claims, and when: pure parts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs import wakeups
from jobs.worker import hints as hints_module
from jobs.worker.hints import Hints
from jobs.worker.units import AHEAD_SECONDS, MAX_AHEAD, Pace


def after(mean: float, ended: int = 100) -> Pace:
    pace = Pace()
    pace.learn(mean * ended, ended)
    return pace


class TestAhead:
    @given(mean=st.floats(1e-7, 10), places=st.integers(1, 500))
    def test_is_never_more_than_the_places_get_through_in_a_moment(self, mean, places):
        assert after(mean).ahead(places) * mean <= places * AHEAD_SECONDS * 1.001

    def test_follows_what_handlers_take_now(self):
        pace = after(mean=0.001)
        quick = pace.ahead(10)
        pace.learn(0.1 + 50 * 1.0, 150)
        assert pace.ahead(10) < quick / 100

    def test_is_nothing_for_what_is_not_known_yet_and_bounded_for_what_takes_no_time(self):
        assert (Pace().ahead(16), after(mean=0.0).ahead(4)) == (0, MAX_AHEAD)


class TestHints:
    @pytest.fixture
    def now(self, monkeypatch):
        clock = [100.0]
        monkeypatch.setattr(hints_module, "boot_seconds", lambda: clock[0])
        return clock

    def test_what_was_heard_of_is_asked_for_once_and_once_more_when_its_sender_speaks_again(self, now):
        hints = Hints()
        hints.hear("default")
        assert hints.take("default")
        assert not hints.take("default")
        assert 0 < hints.seconds_until_next() <= wakeups.QUIET_SECONDS + 0.05
        now[0] += wakeups.QUIET_SECONDS + 0.05
        assert hints.take("default")
        assert not hints.take("default")
        assert hints.seconds_until_next() == float("inf")
