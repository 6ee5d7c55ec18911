"""What a series of retries means in figures. Pure.

A minute is one of the minutes since the common first failure, [60 · n, 60 · (n + 1)) seconds. The **horizon** is the
median, over the jobs that are retried at all, of the instant of the last retry.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median, pstdev

from operations.backoff.series import DAY, HOUR, JOBS_OF_AN_OUTAGE, GivingUp, Series, giving_up, outage

MINUTE = 60
FIRST_RETRIES = 3
"""What fails together is tried together at first, whatever the algorithm; the peak is also counted after these."""


@dataclass(frozen=True)
class Spread:
    """The waits, in seconds, before the retry `number` over the jobs that made it."""

    number: int
    jobs: int
    mean: float
    least: float
    lower_quartile: float
    median: float
    upper_quartile: float
    most: float


@dataclass(frozen=True)
class Figures:
    """All figures of a series; a share is 0 … 1, and everything is 0 when nothing is retried.

    `calls_per_hour`: what a job calls in the first, second, third and 24th hour of an outage of a day, mean over jobs;
    None for an hour in which it calls too often to count. `gives_up`: None when not within a thousand failures.
    """

    horizon_seconds: float
    peak_per_minute: int
    peak_after_three: int
    idle_share: float
    wait_cv: float
    calls_per_hour: dict[int, float | None]
    gives_up: GivingUp | None
    spreads: tuple[Spread, ...]


def figures(found: Series, *, seed: int = 0, first_id: int = 1) -> Figures:
    """All figures of a series that was worked out with this seed and first id."""
    return Figures(
        horizon_seconds=horizon(found.jobs),
        peak_per_minute=peak(found.jobs),
        peak_after_three=peak(job[FIRST_RETRIES:] for job in found.jobs),
        idle_share=idle_share(found.jobs),
        wait_cv=wait_cv(found.waits()),
        calls_per_hour=calls_per_hour(found, seed=seed, first_id=first_id),
        gives_up=giving_up(found.rule, seed=seed, first_id=first_id),
        spreads=tuple(spread(number, waits) for number, waits in enumerate(found.waits(), 1)),
    )


Jobs = Iterable[Sequence[float]]


def per_minute(jobs: Jobs) -> Counter[int]:
    """How many retries fall into each minute that has any."""
    return Counter(int(at // MINUTE) for job in jobs for at in job)


def horizon(jobs: Jobs) -> float:
    """In seconds; 0 when nothing is retried."""
    return median([job[-1] for job in jobs if job] or [0.0])


def peak(jobs: Jobs) -> int:
    """The most retries in a minute."""
    return max(per_minute(jobs).values(), default=0)


def idle_share(jobs: Sequence[Sequence[float]]) -> float:
    """The share of the minutes up to that of the horizon, that one included, in which nothing is retried."""
    load = per_minute(jobs)
    if not load:
        return 0.0
    last = int(horizon(jobs) // MINUTE)
    return 1 - sum(minute <= last for minute in load) / (last + 1)


def wait_cv(waits: Iterable[Sequence[float]]) -> float:
    """The coefficient of variation of waits over jobs (population standard deviation / mean), mean over retries."""
    return fmean([variation(each) for each in waits] or [0.0])


def variation(waits: Sequence[float]) -> float:
    """Population standard deviation / mean; 0 when there is no wait at all."""
    mean = fmean(waits)
    return pstdev(waits, mean) / mean if mean else 0.0


def spread(number: int, waits: Sequence[float]) -> Spread:
    """Quartiles by linear interpolation between the sorted waits, their ends included."""
    ordered = sorted(waits)
    lower, middle, upper = (_quantile(ordered, share) for share in (0.25, 0.5, 0.75))
    return Spread(number, len(ordered), fmean(ordered), ordered[0], lower, middle, upper, ordered[-1])


def _quantile(ordered: Sequence[float], share: float) -> float:
    place = (len(ordered) - 1) * share
    lower = int(place)
    upper = min(lower + 1, len(ordered) - 1)
    return ordered[lower] + (ordered[upper] - ordered[lower]) * (place - lower)


SHOWN_HOURS = (1, 2, 3, 24)


def calls_per_hour(found: Series, *, seed: int = 0, first_id: int = 1) -> dict[int, float | None]:
    """Calls of a job to a service that is away, by the hour of the outage: its first, second, third and 24th.

    Retries are not limited to those of the series; the rule alone ends them.
    """
    jobs = min(len(found.jobs), JOBS_OF_AN_OUTAGE)
    calls, known = outage(found.rule, jobs=jobs, seed=seed, first_id=first_id, until=DAY)
    by_hour = Counter(int(at // HOUR) + 1 for at in calls)
    return {hour: by_hour[hour] / jobs if hour * HOUR <= known else None for hour in SHOWN_HOURS}


def describe_calls(calls: float | None) -> str:
    """Calls of a job in an hour, for people."""
    return "too many to count" if calls is None else f"{calls:.1f}"
