"""The table of the progressive schedule, and when the next sweep comes."""

from hypothesis import given
from hypothesis import strategies as st

from jobs.retries import Failure, Rule, delay
from jobs.retries.tiers import DAY, HOUR, OLDEST, TIERS, next_sweep, slot_of

instants = st.integers(0, 4_000_000_000)
ages = st.integers(0, OLDEST - TIERS[-1].every)


class TestNextSweep:
    @given(at=instants, age=ages)
    def test_is_strictly_ahead_on_its_grid_and_covers_the_age_by_then(self, at, age):
        sweep = next_sweep(at, at - age)
        assert sweep is not None
        assert sweep > at
        assert any(sweep % tier.every == 0 and sweep - (at - age) <= tier.max_age for tier in TIERS)
        assert sweep - at <= TIERS[-1].every
        for tier in TIERS:  # no earlier one covers it
            earlier = slot_of(at, tier.every) + tier.every
            assert not (earlier < sweep and earlier - (at - age) <= tier.max_age)

    @given(at=instants, age=ages)
    def test_is_the_wait_of_progressive_whatever_the_count_and_the_cap(self, at, age):
        sweep = next_sweep(at, at - age)
        assert sweep is not None
        for count in (1, 2, 10**6):
            failure = Failure(count, at=at, first_at=at - 1, inserted_at=at - age)
            assert delay(Rule("progressive", max_delay=1), failure) == sweep - at

    def test_a_year_of_failures_takes_the_tiers_one_after_the_other(self):
        inserted_at = 2000.0 * 192 * HOUR
        at, tries = inserted_at, []
        while (sweep := next_sweep(at, inserted_at)) is not None:
            at = sweep
            tries.append(at - inserted_at)
        among = [(0, 1), (1, 7), (7, 14), (14, 30), (30, 180), (180, 360)]
        counted = [sum(1 for age in tries if first * DAY < age <= last * DAY) for first, last in among]
        assert counted == [288, 144, 14, 16, 38, 23]
        assert tries[-1] == OLDEST
