"""Retries and figures: against cases worked out by hand, and against a naive implementation."""

import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.retries import ALGORITHMS, Rule
from operations.backoff.study import MOST_CALLS_OF_A_JOB, Study, check_size, giving_up, study
from operations.backoff.waits import row

MINUTE, HOUR, DAY = 60, 3_600, 86_400


def jobs_of(rule: Rule, jobs: int, retries: int) -> tuple[tuple[float, ...], ...]:
    return study("", rule, jobs=jobs, retries=retries).jobs


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_retries_increase_and_their_waits_add_up_to_them(name: str) -> None:
    found = study(name, Rule(name), jobs=7, retries=20)
    for number, job in enumerate(found.jobs):
        assert list(job) == sorted(set(job))
        assert sum(waits[number] for waits in found.waits) == pytest.approx(job[-1])


def test_sizes_that_are_none_or_absurd_are_refused() -> None:
    for jobs, retries, message in (
        (0, 1, "at least 1 job and 1 retry, not 0 and 1"),
        (-5, 0, "not -5 and 0"),
        (1_000, 201, "1,000 jobs with 201 retries are 201,000 retries in all; at most 200,000"),
    ):
        with pytest.raises(ValueError, match=message):
            jobs_of(Rule("constant"), jobs, retries)
    check_size(1_000, 200)


def test_a_job_gives_up_at_the_failure_that_its_rule_names() -> None:
    assert jobs_of(Rule("constant", {"base": 10}, give_up_after=25), 1, 9) == ((10, 20, 30),)
    assert jobs_of(Rule("constant", max_failures=1), 2, 9) == ((), ())
    assert giving_up(Rule("constant")) is None
    assert giving_up(Rule("constant", {"base": 10}, max_failures=3)) == (3, 20)
    assert giving_up(Rule("constant", {"base": 10}, give_up_after=25)) == (4, 30)
    assert giving_up(Rule("constant", max_failures=1)) == (1, 0)
    assert (giving_up(Rule("progressive")) or (0, 0))[1] == 360 * DAY


def test_calls_of_an_outage_are_counted_by_the_hour_however_few_retries_are_shown_and_not_guessed() -> None:
    # at 600, 1200 … 3000 s, then six an hour
    assert study("", Rule("constant", {"base": 600}), jobs=3, retries=1).calls_per_hour == {1: 5, 2: 6, 3: 6, 24: 6}
    often = study("", Rule("constant", {"base": 5}), jobs=1, retries=1)
    assert 5 * MOST_CALLS_OF_A_JOB < 2 * HOUR
    assert often.calls_per_hour == {1: 719, 2: None, 3: None, 24: None}
    assert row(often)[-1] == "too many to count"


instants = st.lists(st.integers(0, 40 * 60 * 4).map(lambda quarter: quarter / 4), max_size=8).map(sorted).map(tuple)


def naive_idle_share(jobs: list[tuple[float, ...]]) -> float:
    last = statistics.median(job[-1] for job in jobs if job)
    minutes = range(int(last // 60) + 1)
    return sum(not any(m * 60 <= at < m * 60 + 60 for job in jobs for at in job) for m in minutes) / len(minutes)


class TestFigures:
    def test_the_horizon_is_the_median_of_the_last_retries_of_those_retried(self) -> None:
        assert Study("", Rule(), ((1, 10), (2, 30), (3, 20), ())).horizon == 20
        assert Study("", Rule(), ((10,), (20,))).horizon == 15
        assert Study("", Rule(), ((),)).horizon == 0

    @given(st.lists(instants, min_size=1, max_size=8).filter(any))
    def test_are_those_of_a_naive_count(self, jobs: list[tuple[float, ...]]) -> None:
        found = Study("", Rule(), tuple(jobs))
        assert found.idle_share == pytest.approx(naive_idle_share(jobs))
        starts = range(0, 40 * 60 + 60, 60)
        assert found.peak == max(sum(start <= at < start + 60 for job in jobs for at in job) for start in starts)

    @given(st.lists(st.floats(0.01, 1e6), min_size=1, max_size=30))
    def test_the_variation_of_waits_is_the_deviation_over_the_mean(self, waits: list[float]) -> None:
        mean = sum(waits) / len(waits)
        deviation = (sum((wait - mean) ** 2 for wait in waits) / len(waits)) ** 0.5
        found = Study("", Rule(), tuple((wait,) for wait in waits))
        assert found.wait_cv == pytest.approx(deviation / mean, abs=1e-9)

    def test_of_buckets_come_from_the_seed(self) -> None:
        rng, jobs = random.Random(7), []
        for _ in range(40):
            at, job = 0.0, []
            for r in range(12):
                at += rng.uniform(r**3, (r + 2) ** 3)
                job.append(at)
            jobs.append(tuple(job))
        found = study("", Rule("buckets"), jobs=40, retries=12, seed=7)
        assert list(found.jobs) == jobs
        assert found.idle_share == pytest.approx(naive_idle_share(jobs))
        assert study("", Rule("buckets"), jobs=40, retries=12, seed=8).jobs != found.jobs


@pytest.mark.parametrize("jobs", [100, pytest.param(1_000, marks=pytest.mark.slow)])
def test_phased_is_evener_than_buckets_by_the_figures_of_its_promise(jobs: int) -> None:
    phased, buckets = (study(name, Rule(name), jobs=jobs) for name in ("phased", "buckets"))
    assert phased.idle_share <= buckets.idle_share
    assert phased.wait_cv <= 0.65 * buckets.wait_cv
    assert phased.peak_after_three <= buckets.peak_after_three
