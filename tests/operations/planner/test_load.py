"""The load curve: what stands in each minute, however many events there are."""

import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedules import stagger
from schedules.plan_load import EXACT_UP_TO, MINUTE, Profile, add_load, profile_of, triggers
from tests.operations.planner.plans import SATURDAY, plan_for, planned

WEEK = 7 * 24 * 60


def counted(events: int, window_for: int, schedule_id: int, at: list[int], minutes: int) -> list[float]:
    """The same load, event by event."""
    found = [0.0] * minutes
    for trigger in at:
        for place in stagger.offsets(events, window_for, schedule_id):
            minute = trigger + int(place // MINUTE)
            if minute < minutes:
                found[minute] += 1
    return found


def load(profile: Profile, at: list[int], minutes: int) -> list[float]:
    found = [0.0] * minutes
    add_load(found, profile, at)
    return found


class TestTriggers:
    def test_they_are_minutes_after_the_start_which_is_past_itself(self) -> None:
        assert triggers("0 3,9 * * *", "UTC", SATURDAY, 24 * 60) == (180, 540)
        assert triggers("0 0 * * *", "UTC", SATURDAY, WEEK) == tuple(range(1440, WEEK, 1440))

    def test_they_follow_the_clocks_of_their_zone(self) -> None:
        before_the_change = datetime(2026, 10, 24, tzinfo=UTC)
        assert triggers("0 12 * * *", "Europe/Berlin", before_the_change, 2 * 1440) == (600, 1440 + 660)


class TestABatch:
    def test_of_a_million_is_as_many_and_as_flat(self) -> None:
        profile = profile_of(planned(events=1_000_000))
        counts = [count for _, count in profile.counts]
        assert len(counts) == 60
        assert sum(counts) == pytest.approx(1_000_000)
        assert max(counts) == pytest.approx(min(counts[:-1]))
        assert counts[-1] == pytest.approx(counts[0] / 2, rel=0.05)  # the last half minute is for the last delivery
        assert 3_500 < profile.last < 3_600

    @pytest.mark.parametrize("events", [7, 100, 1_000, 10_000])
    def test_has_at_most_one_event_a_minute_more_than_the_mean(self, events: int) -> None:
        assert max(count for _, count in profile_of(planned(events=events)).counts) <= events / 59.5 + 1


class TestLoad:
    @given(
        events=st.integers(1, 300),
        window_for=st.integers(1, 40_000),
        schedule_id=st.integers(0, 1000),
        at=st.lists(st.integers(0, 600), max_size=5),
    )
    def test_is_what_counting_each_event_gives(
        self, events: int, window_for: int, schedule_id: int, at: list[int]
    ) -> None:
        profile = profile_of(planned(events=events, window_for=window_for, id=schedule_id))
        assert load(profile, at, 700) == counted(events, window_for, schedule_id, at, 700)

    @pytest.mark.parametrize("events", [90, 600, EXACT_UP_TO])
    def test_that_is_too_much_to_add_up_is_that_of_the_mean(self, events: int, monkeypatch: pytest.MonkeyPatch) -> None:
        profile = profile_of(planned(events=events, window_for=5_400))
        at = [0, 5, 30, 31, 200]
        exact = load(profile, at, 240)
        monkeypatch.setattr("schedules.plan_load.MOST_ADDITIONS", 0)
        even = load(profile, at, 240)
        assert max(abs(one - other) for one, other in zip(exact, even, strict=True)) <= len(at)
        assert sum(even) == pytest.approx(5 * events - events * 50 / 90, abs=1 + events / 90)

    @pytest.mark.parametrize(
        ("events", "window_for"), [(5_000, 3_600), (1_000_000, 60), (1_000_000, 86_400), (9, 31 * 86_400)]
    )
    def test_of_a_minutely_cron_takes_less_than_a_second(self, events: int, window_for: int) -> None:
        triggers.cache_clear()
        began = time.thread_time()  # of this thread alone: the machine may be busy
        plan = plan_for(planned(name="other"), cron="* * * * *", events=events, window_for=window_for)
        assert time.thread_time() - began < 1
        assert plan.triggers == WEEK - 1


class TestTheCurve:
    def test_tells_its_busiest_minute_and_its_mean(self) -> None:
        plan = plan_for(cron="30 3 * * *", zone="Europe/Berlin", staggered=False)
        assert plan.chosen is plan.bunched
        assert plan.bunched.peak == 1_000
        assert plan.at(plan.bunched.busiest) == datetime(2026, 11, 21, 2, 30, tzinfo=UTC)
        assert plan.bunched.mean == pytest.approx(7_000 / WEEK)

    def test_is_drawn_both_ways_for_a_window_and_one_is_chosen(self) -> None:
        plan = plan_for()
        assert plan.spread is not None
        assert plan.chosen is plan.spread
        assert (plan.bunched.peak, plan.spread.peak) == (1_000, 17)
        assert plan_for(window_for=0).spread is None

    def test_has_what_shares_the_throttle_apart(self) -> None:
        plan = plan_for(planned(name="other", cron="0 3 * * *", staggered=False), staggered=False)
        assert plan.bunched.peak == 2_000
        assert sum(plan.bunched.others) == 7_000
        assert sum(plan.bunched.own) == 167_000
