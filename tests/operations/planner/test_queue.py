"""The queue in front of a throttle, and what becomes of batches behind it."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedules.plan_queue import FAST, Gate, endings, queued
from tests.operations.planner.plans import plan_for, planned


class TestThePace:
    @pytest.mark.parametrize(
        ("gate", "seconds", "pace"),
        [
            (Gate(), 1.0, FAST),
            (Gate(in_flight=10), 0.5, 20),
            (Gate(in_flight=10, rate=5), 0.5, 5),
            (Gate(in_flight=1, rate=5), 0.5, 2),
            (Gate(in_flight=10, places=4), 0.5, 8),
            (Gate(places=4), 0.0, FAST),
            (Gate(places=200, workers=1), 0.0014, FAST),
            (Gate(places=400, workers=2), 0.0014, 2 * FAST),
            (Gate(in_flight=50, rate=9_000, places=200, workers=1), 0.0014, FAST),
            (Gate(in_flight=0), 1.0, 0),
        ],
    )
    def test_is_the_least_of_rate_flight_and_workers_and_what_these_deliver(
        self, gate: Gate, seconds: float, pace: float
    ) -> None:
        assert gate.pace(seconds) == pace
        assert gate.cost(seconds) == (1 / pace if pace else inf)

    def test_a_burst_goes_through_at_once_only_where_the_rate_is_what_limits(self) -> None:
        assert Gate(in_flight=100, rate=2, burst=10).credit(1) == 5
        assert Gate(in_flight=1, rate=2, burst=10).credit(1) == 0
        assert Gate(in_flight=1).credit(1) == 0


class TestTheQueue:
    def test_what_a_minute_does_not_work_off_is_left_to_the_next(self) -> None:
        assert queued([100, 0, 10, 0, 200]) == [100, 40, 10, 0, 200]

    def test_a_burst_is_gathered_again_while_nothing_comes(self) -> None:
        assert queued([30, 90, 0, 30], credit=20) == [10, 70, 10, 10]

    @given(st.lists(st.floats(0, 1000), min_size=1, max_size=50))
    def test_no_work_is_lost(self, work: list[float]) -> None:
        found = queued([*work, *[0.0] * 2000])
        assert sum(min(60.0, each) for each in found) == pytest.approx(sum(work))

    def test_a_batch_is_through_when_what_lay_there_at_its_last_event_is(self) -> None:
        queue = queued([0, 300, 0, 0])
        assert [each.seconds for each in endings([1], 0, queue, 2)] == [302]
        assert [each.seconds for each in endings([0], 119, queue, 2)] == [60 + 300 + 2]
        assert [each.seconds for each in endings([2], 100, queue, 2)] == [60 + 180 + 2]

    def test_a_batch_is_not_through_before_its_last_event_is(self) -> None:
        assert [each.seconds for each in endings([0], 119, [0, 0], 2)] == [121]

    def test_a_batch_whose_end_is_not_seen_is_not_judged(self) -> None:
        assert [each.trigger for each in endings([0, 1, 2], 60, [0, 0], 1)] == [0]


class TestTheVerdict:
    def test_a_batch_that_its_throttle_lets_through_in_its_window(self) -> None:
        verdict = plan_for(gate=Gate(in_flight=50, rate=1)).verdict
        assert verdict is not None
        assert (verdict.pace, verdict.alone_for, verdict.judged) == (1, 1_000, 167)
        assert verdict.late == ()
        assert verdict.busy == pytest.approx(1_000 / 3_600, rel=0.01)

    def test_a_batch_that_needs_more_than_its_throttle_lets_through(self) -> None:
        verdict = plan_for(events=1_000_000, window_for=60, cron="0 3 * * *", gate=Gate(rate=50, in_flight=99)).verdict
        assert verdict is not None
        assert not verdict.fits_alone
        assert verdict.needed == pytest.approx(16_666.67, rel=1e-4)
        assert (verdict.alone_for, len(verdict.late)) == (20_000, 7)

    @pytest.mark.parametrize("staggered", [True, False])
    def test_is_the_same_for_both_ways_but_for_the_spread_itself(self, staggered: bool) -> None:
        fitting = plan_for(staggered=staggered, gate=Gate(rate=0.5, in_flight=99)).verdict
        tight = plan_for(staggered=staggered, gate=Gate(rate=0.25, in_flight=99)).verdict
        assert fitting is not None
        assert tight is not None
        assert (len(fitting.late), len(tight.late)) == (0, 167)

    def test_a_batch_behind_another_that_shares_its_throttle(self) -> None:
        other = planned(name="flood", cron="0 3 * * *", events=10_000)
        verdict = plan_for(other, gate=Gate(rate=1, in_flight=99)).verdict
        assert verdict is not None
        assert verdict.fits_alone
        late_hours = {each.trigger // 60 % 24 for each in verdict.late}
        assert late_hours == {3, 4, 5}  # 11,000 come in the first hour and 1,000 in each, 3,600 go
        assert all(each.seconds > 3_600 for each in verdict.late)

    def test_what_ranks_behind_does_not_hold_it_up(self) -> None:
        gate = Gate(rate=1, in_flight=99)
        flood = planned(name="flood", cron="0 3 * * *", events=10_000, priority=-1)
        behind = plan_for(flood, gate=gate).verdict
        beside = plan_for(flood, gate=gate, priority=-1).verdict
        assert behind is not None
        assert beside is not None
        assert behind.late == ()
        assert beside.late

    def test_each_schedule_has_its_own_duration(self) -> None:
        slow = planned(name="slow", cron="0 3 * * *", events=100, seconds_each=100, staggered=False)
        verdict = plan_for(slow, gate=Gate(in_flight=1), cron="0 3 * * *", events=1, staggered=False).verdict
        assert verdict is not None
        assert verdict.slowest is not None
        assert verdict.slowest.seconds == pytest.approx(100 * 100 + 1 + 1)

    def test_a_million_short_events_in_a_minute_are_too_many_for_one_worker(self) -> None:
        gate = Gate(places=200, workers=1)
        verdict = plan_for(cron="0 3 * * *", events=1_000_000, window_for=60, seconds_each=0.0014, gate=gate).verdict
        assert verdict is not None
        assert not verdict.fits_alone
        assert len(verdict.late) == 7
