"""The number of records that a worker claims, and when: pure parts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs import wakeups
from jobs.worker import hints as hints_module
from jobs.worker.hints import LOOK_AGAIN_AFTER_SECONDS, Hints
from jobs.worker.units import AHEAD_SECONDS, MAX_AHEAD, NEW_WEIGHT, Pace


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
        assert pace.mean_seconds == pytest.approx(NEW_WEIGHT + (1 - NEW_WEIGHT) * 0.001)
        assert pace.ahead(10) < quick / 100

    def test_is_nothing_for_what_is_not_known_yet_and_bounded_for_what_takes_no_time(self):
        assert (Pace().ahead(16), after(mean=0.0).ahead(4), after(mean=0.01, ended=1).ahead(4)) == (0, MAX_AHEAD, 20)
        assert after(mean=0.01, ended=1).ahead(1) == 5


class TestHints:
    @pytest.fixture
    def clock(self, monkeypatch) -> list[float]:
        clock = [100.0]
        monkeypatch.setattr(hints_module, "boot_seconds", lambda: clock[0])
        return clock

    def test_what_was_heard_of_is_asked_for_once_and_once_more_when_its_sender_speaks_again(self, clock):
        hints = Hints()
        hints.hear("default")
        assert hints.take("default")
        assert not hints.take("default")
        assert 0 < hints.seconds_until_next() <= wakeups.QUIET_SECONDS + 0.05
        clock[0] += wakeups.QUIET_SECONDS + 0.05
        assert hints.take("default")
        assert not hints.take("default")
        assert hints.seconds_until_next() == float("inf")

    def test_a_token_that_comes_late_does_not_put_off_what_comes_sooner(self, clock):
        hints = Hints()
        hints.again("default", 0.2)
        hints.again("default", 30)
        assert hints.seconds_until_next() == pytest.approx(0.2)
        hints.again("default", 0.1)
        assert hints.seconds_until_next() == pytest.approx(0.1)

    def test_a_queue_without_room_for_a_claim_does_not_keep_the_worker_awake(self, clock):
        hints = Hints()
        hints.again("default", 0.1)
        clock[0] += 1
        assert hints.seconds_until_next() == 0
        assert hints.seconds_until_next() == float("inf")
        hints.again("backups", 0.1)
        clock[0] += 1
        assert hints.take("default")
        assert not hints.take("default")
        assert hints.seconds_until_next() == 0  # a claim of one queue forgets none of another

    def test_room_that_is_heard_of_while_the_claim_is_under_way_leads_to_another_claim(self, clock):
        hints, sent_at = Hints(), clock[0]
        assert not hints.hear_of_room([7], quiet=0)
        hints.blocked("default", frozenset({7, 8}), since=sent_at)
        assert hints.seconds_until_next() == 0
        assert hints.take("default")
        assert hints.hear_of_room([7])
        assert hints.take("default")
        assert hints.seconds_until_next() == pytest.approx(LOOK_AGAIN_AFTER_SECONDS)  # its sender is silent until then

    def test_room_from_before_a_claim_whose_sender_has_been_silent_since_does_so_too(self, clock):
        hints = Hints()
        hints.hear_of_room([7])
        clock[0] += LOOK_AGAIN_AFTER_SECONDS / 2
        hints.blocked("default", frozenset({7}), since=clock[0])
        assert 0 < hints.seconds_until_next() <= LOOK_AGAIN_AFTER_SECONDS
        clock[0] += LOOK_AGAIN_AFTER_SECONDS
        assert hints.take("default")
        hints.blocked("default", frozenset({7}), since=clock[0])
        assert hints.seconds_until_next() == float("inf")
