"""The retries of jobs that all fail at the same instant, and each time again. Pure: chance comes from a seed.

Instants are in seconds since that common first failure, which is at the epoch: midnight UTC, so the sweeps of
*progressive* begin there. A retry takes no time itself. A minute is [60 · n, 60 · (n + 1)) seconds.
"""

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile
from statistics import fmean, median, median_low, pstdev
from typing import Any

from external.durations import span
from jobs.retries import ALGORITHMS, LARGEST, Failure, Rng, Rule, delay

JOBS, RETRIES = 100, 12
MOST_RETRIES = 200_000
"""The most retries of a study: about a second's work."""

MOST_FAILURES = 1_000
"""The failures of one job that are searched for the one after which it gives up."""

MOST_CALLS_OF_A_JOB = 1_000
JOBS_ASKED = 11
"""The jobs that are followed until they give up: chance and phase make some a little earlier than others."""

JOBS_OF_AN_OUTAGE = 50
FIRST_RETRIES = 3
"""Jobs that fail together are tried together at first, whatever the algorithm; the peak is also counted after these."""

MINUTE, HOUR, DAY = 60, 3_600, 86_400
HOURS = (1, 2, 3, 24)


@dataclass(frozen=True)
class Study:
    """A rule under its usual name, and `jobs`: the instants of each job's retries, increasing.

    A job has fewer than `wanted` retries if its rule gave up before. A share is 0 … 1, and every figure is 0 when
    nothing is retried.
    """

    name: str
    rule: Rule
    jobs: tuple[tuple[float, ...], ...]
    wanted: int = RETRIES
    seed: int = 0

    @property
    def parameters(self) -> dict[str, Any]:
        return {**ALGORITHMS[self.rule.algorithm].defaults, **self.rule.parameters}

    @property
    def described_rule(self) -> str:
        """The algorithm unless the study is named after it, its parameters, and the limits of a wait, in one line."""
        parts = [self.rule.algorithm] if self.name != self.rule.algorithm else []
        given = self.parameters.items()
        parts += [f"{key} {value if isinstance(value, str) else f'{value:g} s'}" for key, value in given]
        if not self.rule.waits_for_sweeps and self.rule.max_delay < LARGEST:
            parts.append(f"no wait longer than {span(self.rule.max_delay)}")
        return " · ".join(parts)

    @cached_property
    def waits(self) -> list[list[float]]:
        """The waits before the first retry, before the second and so on: for each, the waits of the jobs
        that made it.
        """
        found: list[list[float]] = [[] for _ in range(max(map(len, self.jobs), default=0))]
        for job in self.jobs:
            for number, (earlier, later) in enumerate(zip((0.0, *job), job, strict=False)):
                found[number].append(later - earlier)
        return found

    @cached_property
    def horizon(self) -> float:
        """The median, over the jobs that are retried at all, of the instant of the last retry, in seconds."""
        return median([job[-1] for job in self.jobs if job] or [0.0])

    @cached_property
    def per_minute(self) -> Counter[int]:
        """The number of retries in each minute that has any."""
        return _per_minute(self.jobs)

    @property
    def peak(self) -> int:
        return max(self.per_minute.values(), default=0)

    @cached_property
    def peak_after_three(self) -> int:
        return max(_per_minute(job[FIRST_RETRIES:] for job in self.jobs).values(), default=0)

    @property
    def idle_share(self) -> float:
        """The share of the minutes up to and including the horizon's in which nothing is retried."""
        last = int(self.horizon // MINUTE)
        return 1 - sum(minute <= last for minute in self.per_minute) / (last + 1) if self.per_minute else 0.0

    @cached_property
    def wait_cv(self) -> float:
        """The coefficient of variation of waits over jobs (population standard deviation / mean), mean over retries."""
        return fmean([pstdev(waits) / mean if (mean := fmean(waits)) else 0.0 for waits in self.waits] or [0.0])

    @cached_property
    def calls_per_hour(self) -> dict[int, float | None]:
        """The calls of a job to a service that is down for a day, by the hour of the outage. None if they are too many
        to count.

        Retries are not limited to those of the study; the rule alone ends them.
        """
        rng, calls, known = _rng(self.seed), list[float](), float(DAY)
        jobs = min(len(self.jobs), JOBS_OF_AN_OUTAGE)
        for record_id in range(1, jobs + 1):
            made = list(takewhile(lambda at: at < DAY, _retries(self.rule, record_id, rng, MOST_CALLS_OF_A_JOB)))
            calls += made
            if len(made) == MOST_CALLS_OF_A_JOB:
                known = min(known, made[-1])
        by_hour = Counter(int(at // HOUR) + 1 for at in calls)
        return {hour: by_hour[hour] / jobs if hour * HOUR <= known else None for hour in HOURS}

    @cached_property
    def gives_up(self) -> tuple[int, float] | None:
        return giving_up(self.rule, self.seed)

    def as_json(self, *, instants: bool) -> dict[str, Any]:
        """The figures, with the instants of each job or with all other figures."""
        found = {
            "horizon_seconds": self.horizon,
            "peak_per_minute": self.peak,
            "idle_share": self.idle_share,
            "wait_cv": self.wait_cv,
        }
        if instants:
            return found | {"retries": [list(job) for job in self.jobs]}
        last = self.gives_up
        return found | {
            "peak_after_three": self.peak_after_three,
            "calls_per_hour": {f"{hour}": calls for hour, calls in self.calls_per_hour.items()},
            "gives_up": {"failures": last[0], "after_seconds": last[1]} if last else None,
        }


def study(name: str, rule: Rule, *, jobs: int = JOBS, retries: int = RETRIES, seed: int = 0) -> Study:
    """The retries of `jobs` records with the ids 1, 2 …, at most `retries` for each. Equal arguments give equal
    instants. Raises: ValueError as `check_size`.
    """
    check_size(jobs, retries)
    rng = _rng(seed)
    made = tuple(tuple(_retries(rule, record_id, rng, retries)) for record_id in range(1, jobs + 1))
    return Study(name, rule, made, retries, seed)


def check_size(jobs: int, retries: int, most: int = MOST_RETRIES) -> None:
    """Raises: ValueError for fewer than one of either, or more than `most` retries in all."""
    if jobs < 1 or retries < 1:
        raise ValueError(f"there must be at least 1 job and 1 retry, not {jobs} and {retries}")
    if jobs * retries > most:
        raise ValueError(
            f"{jobs:,} jobs with {retries:,} retries are {jobs * retries:,} retries in all; at most {most:,} are "
            "worked out: ask for fewer jobs, or fewer retries"
        )


def every_algorithm() -> Iterator[tuple[str, Rule]]:
    """All algorithms with their defaults; each that has jitter is repeated with each kind of jitter."""
    for name, algorithm in sorted(ALGORITHMS.items()):
        yield name, Rule(name)
        for jitter in algorithm.choices.get("jitter", ()):
            if jitter != algorithm.defaults["jitter"]:
                yield f"{name}, {jitter} jitter", Rule(name, {"jitter": jitter})


def apart(rules: Sequence[tuple[str, Rule]]) -> list[tuple[str, Rule]]:
    """The same rules, with a number after the name of a second one that has the name of the first."""
    names = [name for name, _ in rules]
    return [(f"{name} (2)" if name in names[:place] else name, rule) for place, (name, rule) in enumerate(rules)]


def at_equal_load(studies: Sequence[Study]) -> list[Study]:
    """The same algorithms, their waits scaled so that the horizon is that of the sweeps, which cannot be scaled.

    The mean load of a study is its retries over its horizon.
    """
    horizon = next(each.horizon for each in studies if each.rule.waits_for_sweeps)
    return [_scaled(each, horizon / each.horizon) for each in studies]


def _scaled(of: Study, factor: float) -> Study:
    given = {key: value if isinstance(value, str) else value * factor for key, value in of.parameters.items()}
    rule = replace(of.rule, parameters=given, max_delay=of.rule.max_delay * factor)
    return study(of.name, rule, jobs=len(of.jobs), retries=of.wanted, seed=of.seed)


def giving_up(rule: Rule, seed: int = 0) -> tuple[int, float] | None:
    """The failure after which a job is not tried again: its number, and seconds since the first; medians over jobs.

    None if one of the first JOBS_ASKED does not give up within MOST_FAILURES failures.
    """
    if rule.max_failures is None and rule.give_up_after is None and not rule.waits_for_sweeps:
        return None
    rng, ends = _rng(seed), []
    for record_id in range(1, JOBS_ASKED + 1):
        made = list(_retries(rule, record_id, rng, MOST_FAILURES))
        if len(made) == MOST_FAILURES:
            return None
        ends.append((len(made) + 1, made[-1] if made else 0.0))
    return median_low(count for count, _ in ends), median(after for _, after in ends)


def _retries(rule: Rule, record_id: int, rng: Rng, most: int) -> Iterator[float]:
    """The instants at which one record is tried again, failing each time, until it gives up or `most` are made."""
    at = 0.0
    for number in range(1, most + 1):
        failure = Failure(number, at, first_at=0.0, inserted_at=0.0, record_id=record_id)
        if rule.gives_up(failure):
            return
        at += delay(rule, failure, rng)
        yield at


def _per_minute(jobs: Iterable[Sequence[float]]) -> Counter[int]:
    return Counter(int(at // MINUTE) for job in jobs for at in job)


def _rng(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 - a picture, no secret
