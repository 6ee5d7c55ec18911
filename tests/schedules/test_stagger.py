"""Staggered starts: even in each minute and in any tenth of the window, in every prefix, and for good."""

from collections import Counter
from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from schedules.stagger import LAST_DELIVERY_FOR, offsets
from tests.jobs.spread import most_within

HOUR = 3600
DAY = 24 * HOUR

counts = st.integers(1, 3000)
windows = st.integers(1, 3 * 86_400)
ids = st.integers(1, 2**31)


def by_minute(starts: list[float]) -> Counter[int]:
    return Counter(int(start // 60) for start in starts)


class TestTheFullestMinute:
    @given(counts, windows, ids)
    @example(89, 900, 89)  # the golden ratio over the whole window has 2.5 more than the mean
    @example(10_000, HOUR, 3)
    def test_has_a_fifth_more_than_the_mean_at_most_or_two_below_ten(self, count, window_for, schedule_id):
        mean = count / max(1.0, window_for / 60)
        fullest = max(by_minute(offsets(count, window_for, schedule_id)).values())
        assert fullest <= (1.2 * mean if mean >= 10 else mean + 2)

    @given(st.integers(2, 59), ids)
    def test_of_fewer_events_than_minutes_no_long_stretch_is_empty(self, count, schedule_id):
        minutes = sorted(by_minute(offsets(count, HOUR, schedule_id)))
        gaps = [after - before for before, after in pairwise(minutes)]
        assert max([*gaps, minutes[0] + 60 - minutes[-1]]) <= 3.2 * 60 / count + 0.001


class TestAnyTenthOfTheWindow:
    @given(st.integers(1_000, 3_000), st.integers(10, DAY), ids)
    @example(1_000, 61, 1)  # the last second of it, packed as if it was a minute, once had the half of all
    @example(1_000, DAY, 1)
    @example(30_000, DAY, 1)
    def test_wherever_it_begins_has_at_most_15_percent_more_than_the_mean(self, count, window_for, schedule_id):
        starts = sorted(offsets(count, window_for, schedule_id))
        assert most_within(window_for / 10, starts) <= 1.15 * count / 10


class TestStarts:
    @given(counts, windows, ids)
    def test_lie_in_the_window_with_room_for_the_last_delivery(self, count, window_for, schedule_id):
        room = min(LAST_DELIVERY_FOR, window_for / 20)
        starts = offsets(count, window_for, schedule_id)
        assert len(starts) == count
        assert min(starts) >= 0
        assert max(starts) < window_for - room + 0.001

    @given(counts, windows, ids, st.integers(1, 50))
    def test_are_moved_by_no_event_that_is_added(self, count, window_for, schedule_id, more):
        assert offsets(count + more, window_for, schedule_id)[:count] == offsets(count, window_for, schedule_id)

    @given(counts, windows, ids, st.data())
    def test_are_the_same_when_they_are_asked_for_in_chunks(self, count, window_for, schedule_id, data):
        first = data.draw(st.integers(1, count))
        chunks = [*offsets(first - 1, window_for, schedule_id), *offsets(count, window_for, schedule_id, first)]
        assert chunks == offsets(count, window_for, schedule_id)

    def test_within_a_minute_are_spread_as_well(self):
        in_one_minute = sorted(start % 60 for start in offsets(60 * 60, HOUR, 7) if 600 <= start < 660)
        gaps = [after - before for before, after in pairwise([0, *in_one_minute, 60])]
        assert len(in_one_minute) == 60
        assert max(gaps) < 2.8

    def test_of_schedules_with_one_event_each_are_spread_too(self):
        starts = [offsets(1, HOUR, schedule_id)[0] for schedule_id in range(1, 601)]
        assert max(by_minute(starts).values()) <= 12

    def test_without_a_window_are_all_at_the_trigger(self):
        assert offsets(3, 0, 1) == [0, 0, 0]
