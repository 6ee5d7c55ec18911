"""The arithmetic of *phased*: phases, places, and what a record that is late or early takes."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.retries.phases import GRAIN, LAST_PLACE, PhasePlaces, phase

DAY = 86_400

units = st.floats(0.001, 10**9)
caps = st.floats(1, 2**31)
lines = st.builds(PhasePlaces, units, caps)
phases = st.floats(0, 1, exclude_max=True)
SLACK = 1e-6
"""Relative: what sums of floats may differ by."""


class TestPhase:
    def test_is_the_fractional_part_of_multiples_of_one_number(self):
        for record_id in (0, 1, 2, 99, 12_345):
            assert phase(record_id) == pytest.approx((record_id + 1) * 0.7711360244491307 % 1, abs=1e-9)

    @pytest.mark.parametrize(
        ("count", "stride", "bound"),
        [(2, 1, 3), (100, 1, 3), (377, 1, 3), (1000, 1, 3), *((1000, stride, 8) for stride in range(2, 13))],
    )
    @given(first=st.integers(1, 2**62))
    def test_of_successive_ids_or_of_each_second_to_twelfth_leave_no_wide_gap(self, count, stride, bound, first):
        """A stride: as when one of so many repositories fails, and the sources take turns."""
        first = first if stride == 1 else 1
        placed = sorted(phase(first + i * stride) for i in range(count))
        gaps = [after - before for before, after in pairwise(placed)] + [placed[0] + 1 - placed[-1]]
        assert max(gaps) <= bound / count


class TestLine:
    @given(k=st.integers(1, 300), line=lines)
    def test_starts_in_closed_form_are_the_sums_of_the_delays(self, k, line):
        naive = sum(line.delay(i) for i in range(1, k + 1))
        assert line.start(k) == pytest.approx(naive, rel=1e-9)

    def test_starts_with_the_whole_first_delay(self):
        line = PhasePlaces(1, DAY)
        assert [line.start(k) for k in (0, 1, 2, 3, 4)] == [0, 4, 18, 54, 130]
        assert line.place(0, 0.9) == 0
        assert line.place(1, 0.5) == 4 + 0.5 * 14

    @given(k=st.integers(1, 10**15), u=phases, line=lines)
    def test_no_gap_is_shorter_than_the_one_before_nor_longer_than_the_cap(self, k, u, line):
        assert 0 < line.gap(k, u) <= line.gap(k + 1, u) * (1 + 1e-12)
        assert line.gap(k, u) <= line.cap * (1 + 1e-12)


class TestWaitOnTime:
    @given(u=phases, line=lines)
    def test_leads_along_the_places_one_by_one(self, u, line):
        elapsed = 0.0
        for k in range(1, 60):
            before, elapsed = elapsed, elapsed + line.wait(k, u, elapsed)
            assert elapsed > before
            assert line.start(k) * (1 - SLACK) <= elapsed <= line.start(k + 1) * (1 + SLACK)
            assert elapsed == pytest.approx(line.place(k, u), rel=1e-9)

    @given(u=phases, part=st.floats(0, 0.98), k=st.integers(1, 80), line=lines)
    def test_makes_up_for_the_time_that_the_attempt_took(self, u, part, k, line):
        began = line.place(k - 1, u)
        elapsed = began + part * line.gap(k, u) - (GRAIN if part * line.gap(k, u) > GRAIN else 0)
        at = elapsed + line.wait(k, u, elapsed)
        assert at == pytest.approx(line.place(k, u), rel=1e-9, abs=GRAIN)

    @given(u=phases, k=st.integers(2, 80), line=lines, early=st.floats(0, 1e-6))
    def test_does_not_try_again_at_once_what_began_a_trifle_before_its_place(self, u, k, line, early):
        elapsed = line.place(k - 1, u) - early
        assert line.wait(k, u, elapsed) >= line.gap(k, u) * 0.99


class TestWaitLate:
    @given(u=phases, line=lines, k=st.integers(1, 10**6), elapsed=st.floats(0, 1e10))
    def test_is_strictly_in_the_future_and_never_longer_than_the_cap(self, u, line, k, elapsed):
        assert 0 < line.wait(k, u, elapsed) <= line.cap

    @given(u=phases, unit=st.floats(0.1, 100), cap=st.floats(3600, 1e6), k=st.integers(1, 60), days=st.floats(0.1, 30))
    def test_after_downtime_takes_the_first_place_that_is_still_to_come(self, u, unit, cap, k, days):
        line = PhasePlaces(unit, cap)
        elapsed = line.place(k, u) + days * DAY
        at = elapsed + line.wait(k, u, elapsed)
        following = k + 1
        while line.place(following, u) <= elapsed:
            following += 1
        near = (line.place(following, u), line.place(following + 1, u))
        # the second one only where gaps are equal and the first is within the grain
        assert at == pytest.approx(near[0] if near[0] - elapsed > 2 * GRAIN else at, abs=GRAIN)
        assert at <= near[1]

    def test_ends_its_search_even_thousands_of_years_later(self):
        line = PhasePlaces(0.001, 1)
        assert 0 < line.wait(1, 0.5, 2.5e11) <= 1
        assert line.place(LAST_PLACE, 0.5) > 2.5e11


class TestWaitEarly:
    @given(u=phases, line=lines, k=st.integers(2, 10**6), part=st.floats(0, 1))
    def test_is_no_longer_than_that_of_as_many_failures_on_time(self, u, line, k, part):
        elapsed = part * min(line.place(k - 1, u), 1e10)
        assert 0 < line.wait(k, u, elapsed) <= line.gap(k, u) * (1 + SLACK) + GRAIN

    @given(u=phases, unit=st.floats(0.1, 100), k=st.integers(3, 400), part=st.floats(0, 1))
    def test_leads_to_a_place_of_its_own(self, u, unit, k, part):
        line = PhasePlaces(unit, DAY)
        elapsed = part * line.place(k - 1, u)
        at = elapsed + line.wait(k, u, elapsed)
        nearest = min(abs(line.place(j, u) - at) for j in range(1, k + 2))
        assert nearest <= 2 * GRAIN

    def test_what_comes_from_sweeps_is_not_bunched_at_the_cap(self):
        """A day of tries every five minutes, then the policy is edited: 288 failures, all at the same instant."""
        line = PhasePlaces(15, DAY)
        waits = [line.wait(288, phase(record_id), elapsed=DAY) for record_id in range(100)]
        assert max(waits) <= DAY
        assert len({int(wait // 3600) for wait in waits}) >= 8
