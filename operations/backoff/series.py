"""The retries of jobs that all fail at the same instant, and each time again. Pure: chance comes from a seed.

Instants are in seconds since that common first failure, which stands at the epoch: midnight UTC, so the sweeps of
*progressive* begin there. A retry takes no time itself.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from statistics import median, median_low

from jobs.retries import Failure, Rng, Rule, delay

MOST_RETRIES = 200_000
"""Of a series: about a second's work."""

MOST_FAILURES = 1_000
"""So many failures of one job are looked through for the one after which it gives up."""

HOUR = 3_600
DAY = 86_400


@dataclass(frozen=True)
class Series:
    """The instants of the retries, a tuple a job, in seconds since the common first failure, increasing.

    A job has fewer than `wanted` retries if its rule gave up before.
    """

    rule: Rule
    wanted: int
    jobs: tuple[tuple[float, ...], ...]

    @property
    def longest(self) -> int:
        """How many retries the job with the most of them has."""
        return max(map(len, self.jobs), default=0)

    def waits(self) -> list[list[float]]:
        """The waits before the first retry, before the second and so on: of each, those of the jobs that made it."""
        found: list[list[float]] = [[] for _ in range(self.longest)]
        for job in self.jobs:
            for number, (earlier, later) in enumerate(zip((0.0, *job), job, strict=False)):
                found[number].append(later - earlier)
        return found


def check_size(jobs: int, retries: int, most: int = MOST_RETRIES) -> None:
    """Raises: ValueError for fewer than one of either, or more than `most` retries in all."""
    if jobs < 1 or retries < 1:
        raise ValueError(f"there must be at least 1 job and 1 retry, not {jobs} and {retries}")
    if jobs * retries > most:
        raise ValueError(
            f"{jobs:,} jobs with {retries:,} retries are {jobs * retries:,} retries in all; at most {most:,} are "
            "worked out: ask for fewer jobs, or fewer retries"
        )


def series(rule: Rule, *, jobs: int, retries: int, seed: int = 0, first_id: int = 1) -> Series:
    """The retries of `jobs` records with successive ids from `first_id` on, at most `retries` of each.

    Equal arguments give equal instants. Raises: ValueError as `check_size`.
    """
    check_size(jobs, retries)
    rng = random.Random(seed)  # noqa: S311 - a picture, no secret
    return Series(rule, retries, tuple(tuple(_retries(rule, first_id + n, rng, retries)) for n in range(jobs)))


def _retries(rule: Rule, record_id: int, rng: Rng, most: int) -> Iterator[float]:
    """The instants at which one record is tried again, failing each time, until it gives up or `most` are made."""
    at = 0.0
    for number in range(1, most + 1):
        failure = Failure(number, at, first_at=0.0, inserted_at=0.0, record_id=record_id)
        if rule.gives_up(failure):
            return
        at += delay(rule, failure, rng)
        yield at


JOBS_ASKED = 11
"""So many jobs are followed until they give up: chance and phase make some a little earlier than others."""


@dataclass(frozen=True)
class GivingUp:
    """The failure after which a job is not tried again: its number, and seconds since the first; medians over jobs."""

    failures: int
    after: float


def giving_up(rule: Rule, *, seed: int = 0, first_id: int = 1) -> GivingUp | None:
    """When jobs give up; None: one of the first JOBS_ASKED does not within MOST_FAILURES failures."""
    if rule.max_failures is None and rule.give_up_after is None and not rule.waits_for_sweeps:
        return None
    rng = random.Random(seed)  # noqa: S311 - a picture, no secret
    ends = []
    for record_id in range(first_id, first_id + JOBS_ASKED):
        made = list(_retries(rule, record_id, rng, MOST_FAILURES))
        if len(made) == MOST_FAILURES:
            return None
        ends.append((len(made) + 1, made[-1] if made else 0.0))
    return GivingUp(median_low(count for count, _ in ends), median(after for _, after in ends))


JOBS_OF_AN_OUTAGE = 50
MOST_CALLS_OF_A_JOB = 1_000


def outage(rule: Rule, *, jobs: int, seed: int = 0, first_id: int = 1, until: float = DAY) -> tuple[list[float], float]:
    """The calls that jobs make to a service that is away for `until` seconds, and how far they are known.

    At most JOBS_OF_AN_OUTAGE jobs are followed, each for at most MOST_CALLS_OF_A_JOB calls: where these do not last,
    the second value is when they ran out, in seconds, and not `until`.
    """
    rng = random.Random(seed)  # noqa: S311 - a picture, no secret
    calls: list[float] = []
    known = float(until)
    for number in range(min(jobs, JOBS_OF_AN_OUTAGE)):
        made = list(takewhile(lambda at: at < until, _retries(rule, first_id + number, rng, MOST_CALLS_OF_A_JOB)))
        calls += made
        if len(made) == MOST_CALLS_OF_A_JOB:
            known = min(known, made[-1])
    return calls, known
