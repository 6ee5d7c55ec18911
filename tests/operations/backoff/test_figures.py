"""Retries and figures: against cases worked out by hand, and against a naive implementation."""

import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.retries import ALGORITHMS, Rule, phases, tiers
from operations.backoff import figures
from operations.backoff.series import MOST_CALLS_OF_A_JOB, GivingUp, check_size, giving_up, outage, series

MINUTE, HOUR, DAY = 60, 3_600, 86_400


class TestSeries:
    def test_fibonacci_counts_from_the_first_failure(self) -> None:
        assert series(Rule("fibonacci", {"unit": 60}), jobs=1, retries=5).jobs == ((60, 120, 240, 420, 720),)

    def test_a_job_ends_at_the_failure_that_is_its_last(self) -> None:
        assert series(Rule("constant", {"base": 10}, max_failures=3), jobs=1, retries=9).jobs == ((10, 20),)
        assert series(Rule("constant", {"base": 10}, give_up_after=25), jobs=1, retries=9).jobs == ((10, 20, 30),)
        assert series(Rule("constant", max_failures=1), jobs=2, retries=9).jobs == ((), ())

    def test_phased_takes_the_places_of_each_records_own_phase(self) -> None:
        found = series(Rule("phased", {"unit": 15}), jobs=3, retries=4, first_id=70)
        line = phases.Line(15, 86_400)
        for number, job in enumerate(found.jobs):
            phase = phases.phase(70 + number)
            assert job == pytest.approx([line.place(k, phase) for k in range(1, 5)])

    def test_progressive_works_through_its_tiers_until_none_covers_it(self) -> None:
        [job] = series(Rule("progressive"), jobs=1, retries=1_000).jobs
        waits = [later - earlier for earlier, later in zip((0, *job), job, strict=False)]
        assert job[:3] == (300, 600, 900)
        assert {tier.every for tier in tiers.TIERS} <= set(waits)
        assert job[-1] == 360 * DAY
        assert sum(at <= DAY for at in job) == 288

    def test_chance_comes_from_the_seed(self) -> None:
        rule = Rule("buckets")
        assert series(rule, jobs=5, retries=5, seed=1) == series(rule, jobs=5, retries=5, seed=1)
        assert series(rule, jobs=5, retries=5, seed=1) != series(rule, jobs=5, retries=5, seed=2)

    @pytest.mark.parametrize("name", sorted(ALGORITHMS))
    def test_retries_increase_and_their_waits_add_up_to_them(self, name: str) -> None:
        found = series(Rule(name), jobs=7, retries=20)
        for number, job in enumerate(found.jobs):
            assert list(job) == sorted(set(job))
            assert sum(waits[number] for waits in found.waits()) == pytest.approx(job[-1])

    @pytest.mark.parametrize(
        ("jobs", "retries", "said"),
        [
            (0, 1, "at least 1 job and 1 retry, not 0 and 1"),
            (1, 0, "not 1 and 0"),
            (-5, 5, "not -5 and 5"),
            (1_000, 201, "1,000 jobs with 201 retries are 201,000 retries in all; at most 200,000"),
        ],
    )
    def test_sizes_that_are_none_or_absurd_are_refused(self, jobs: int, retries: int, said: str) -> None:
        with pytest.raises(ValueError, match=said):
            series(Rule("constant"), jobs=jobs, retries=retries)
        check_size(1_000, 200)


class TestGivingUp:
    def test_never_without_a_limit(self) -> None:
        assert giving_up(Rule("constant")) is None

    def test_at_the_failure_that_the_rule_names(self) -> None:
        assert giving_up(Rule("constant", {"base": 10}, max_failures=3)) == GivingUp(3, 20)
        assert giving_up(Rule("constant", {"base": 10}, give_up_after=25)) == GivingUp(4, 30)
        assert giving_up(Rule("constant", max_failures=1)) == GivingUp(1, 0)

    def test_by_age_when_no_sweep_is_left(self) -> None:
        found = giving_up(Rule("progressive"))
        assert found is not None
        assert found.after == 360 * DAY


class TestFiguresByHand:
    def test_the_horizon_is_the_median_of_the_last_retries_of_those_retried(self) -> None:
        assert figures.horizon([(1, 10), (2, 30), (3, 20), ()]) == 20
        assert figures.horizon([(10,), (20,)]) == 15
        assert figures.horizon([()]) == 0

    def test_the_spread_of_a_wait_has_its_quartiles(self) -> None:
        found = figures.spread(2, [4, 1, 3, 2, 5])
        assert (found.number, found.jobs, found.mean, found.least, found.most) == (2, 5, 3, 1, 5)
        assert (found.lower_quartile, found.median, found.upper_quartile) == (2, 3, 4)
        alone = figures.spread(1, [7])
        assert (alone.lower_quartile, alone.median, alone.upper_quartile) == (7, 7, 7)
        assert figures.spread(1, [0, 10]).lower_quartile == 2.5


class TestOutage:
    def test_calls_are_counted_by_the_hour_however_few_retries_are_shown(self) -> None:
        rule = Rule("constant", {"base": 600})
        found = figures.calls_per_hour(series(rule, jobs=3, retries=1))
        # at 600, 1200 … 3000 s, then six an hour
        assert found == {1: 5, 2: 6, 3: 6, 24: 6}

    def test_hours_with_too_many_calls_are_not_guessed(self) -> None:
        calls, known = outage(Rule("constant", {"base": 5}), jobs=1)
        assert (len(calls), known) == (MOST_CALLS_OF_A_JOB, 5 * MOST_CALLS_OF_A_JOB)
        found = figures.calls_per_hour(series(Rule("constant", {"base": 5}), jobs=1, retries=1))
        assert found == {1: 719, 2: None, 3: None, 24: None}
        assert figures.describe_calls(None) == "too many to count"


instants = st.lists(st.integers(0, 40 * 60 * 4).map(lambda quarter: quarter / 4), max_size=8).map(sorted)


def naive_idle_share(jobs: list[list[float]]) -> float:
    last = statistics.median(job[-1] for job in jobs if job)
    idle = total = 0
    minute = 0
    while minute * 60 <= last:
        total += 1
        idle += not any(minute * 60 <= at < minute * 60 + 60 for job in jobs for at in job)
        minute += 1
    return idle / total


class TestAgainstANaiveImplementation:
    @given(st.lists(instants, min_size=1, max_size=8).filter(any))
    def test_of_any_retries(self, jobs: list[list[float]]) -> None:
        assert figures.idle_share(jobs) == pytest.approx(naive_idle_share(jobs))
        busiest = max(
            sum(start <= at < start + 60 for job in jobs for at in job) for start in range(0, 40 * 60 + 60, 60)
        )
        assert figures.peak(jobs) == busiest

    @given(st.lists(st.floats(0.01, 1e6), min_size=2, max_size=30))
    def test_of_any_waits(self, waits: list[float]) -> None:
        found = figures.spread(1, waits)
        quartiles = statistics.quantiles(waits, n=4, method="inclusive")
        assert [found.lower_quartile, found.median, found.upper_quartile] == pytest.approx(quartiles)
        mean = sum(waits) / len(waits)
        deviation = (sum((wait - mean) ** 2 for wait in waits) / len(waits)) ** 0.5
        assert figures.variation(waits) == pytest.approx(deviation / mean, abs=1e-9)

    def test_of_buckets_the_figures_are_those_of_the_retries(self) -> None:
        rng, jobs = random.Random(7), []
        for _ in range(40):
            at, job = 0.0, []
            for r in range(12):
                at += rng.uniform(r**3, (r + 2) ** 3)
                job.append(at)
            jobs.append(job)
        found = series(Rule("buckets"), jobs=40, retries=12, seed=7)
        assert [list(job) for job in found.jobs] == jobs
        assert figures.figures(found).idle_share == pytest.approx(naive_idle_share(jobs))


@pytest.mark.parametrize("jobs", [100, 1_000])
def test_phased_is_evener_than_buckets_by_the_figures_of_its_promise(jobs: int) -> None:
    phased, buckets = (figures.figures(series(Rule(n), jobs=jobs, retries=12)) for n in ("phased", "buckets"))
    assert phased.idle_share <= buckets.idle_share
    assert phased.wait_cv <= 0.65 * buckets.wait_cv
    assert phased.peak_after_three <= buckets.peak_after_three
