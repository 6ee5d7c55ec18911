"""What *phased* is for: an even load and waits that differ little, held against *buckets* of the same mean base.

All jobs fail at the same instant and at each retry, which takes no time. Figures are counted over the horizon, the
median instant of the last retry.
"""

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from statistics import fmean, median, pstdev

import pytest

from jobs.retries import Failure, Rule, delay

RETRIES = 12
FAILED_AT = 1_770_000_000.0
MINUTE = 60

Instants = list[list[float]]
"""By job: the seconds from its first failure to each retry."""


@dataclass(frozen=True)
class Load:
    """`wait_variation`: the coefficient of variation of waits over jobs, mean over retries.

    `peak`: the most retries within a minute, of all; `later_peak`: without the first three of each job.
    """

    horizon: float
    idle_share: float
    wait_variation: float
    peak: int
    later_peak: int


def simulate(rule: Rule, ids: Iterable[int], seed: int) -> Instants:
    rng = random.Random(seed)
    instants: Instants = []
    for record_id in ids:
        at, row = FAILED_AT, []
        for k in range(1, RETRIES + 1):
            at += delay(rule, Failure(k, at, FAILED_AT, FAILED_AT, record_id), rng)
            row.append(at - FAILED_AT)
        instants.append(row)
    return instants


def load_of(instants: Instants) -> Load:
    horizon = median(row[-1] for row in instants)
    retries = [(k, int(at // MINUTE)) for row in instants for k, at in enumerate(row, start=1)]
    minutes = int(horizon // MINUTE)
    busy = {minute for _, minute in retries if minute < minutes}
    waits = [[row[k] - (row[k - 1] if k else 0) for row in instants] for k in range(RETRIES)]
    return Load(
        horizon,
        1 - len(busy) / minutes,
        fmean(pstdev(of_one_retry) / fmean(of_one_retry) for of_one_retry in waits),
        max(Counter(minute for _, minute in retries).values()),
        max(Counter(minute for k, minute in retries if k > 3).values()),
    )


@cache
def phased(first_id: int, jobs: int, unit: float = 1, stride: int = 1) -> Load:
    ids = range(first_id, first_id + jobs * stride, stride)
    return load_of(simulate(Rule("phased", {"unit": unit}), ids, seed=0))


@cache
def buckets(jobs: int, seed: int, unit: float = 1) -> Load:
    return load_of(simulate(Rule("buckets", {"unit": unit}), range(jobs), seed))


FIRST_IDS = [1, 12_345, 2**40 + 7]
SEEDS = range(3)


def is_better(ours: Load, theirs: Load) -> bool:
    """No more minutes idle, waits that vary less than two thirds as much, no higher a peak after the third retry."""
    return (
        ours.idle_share <= theirs.idle_share
        and ours.wait_variation <= 0.65 * theirs.wait_variation
        and ours.later_peak <= theirs.later_peak
    )


@pytest.mark.parametrize("jobs", [100, 1000])
class TestPhasedBesideBuckets:
    @pytest.mark.parametrize("unit", [1, 15])
    @pytest.mark.parametrize("first_id", FIRST_IDS)
    def test_is_more_even(self, first_id, jobs, unit):
        ours = phased(first_id, jobs, unit)
        assert all(is_better(ours, buckets(jobs, seed, unit)) for seed in SEEDS)
        assert all(ours.peak <= buckets(jobs, seed, unit).peak for seed in SEEDS)

    @pytest.mark.parametrize("stride", [2, 3, 5, 7, 12])
    def test_is_more_even_when_every_so_many_fail(self, stride, jobs):
        """As when one of so many repositories fails, and the sources take turns."""
        assert all(is_better(phased(1, jobs, stride=stride), buckets(jobs, seed)) for seed in SEEDS)

    def test_stays_better_when_buckets_are_stretched_to_the_same_horizon(self, jobs):
        ours = phased(1, jobs)
        stretched = ours.horizon / buckets(jobs, 0).horizon
        for seed in SEEDS:
            theirs = buckets(jobs, seed, stretched)
            assert theirs.horizon == pytest.approx(ours.horizon, rel=0.02)
            assert is_better(ours, theirs)
