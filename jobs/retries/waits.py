"""The formulas of the algorithms, whose texts and sources `ALGORITHMS` has: pure functions of a failure, parameters,
the cap and rng.

k is the number of failures so far, from 1; r = k − 1 is the `retryCount` of the published formulas, from 0. All waits
are in seconds, all instants in seconds since the epoch. Random numbers come from the caller's generator; no algorithm
keeps a state. Each takes the same time for any k, and none overflows: counts are cut off where their
powers are far above every cap (`jobs.retries.LONGEST`, with a unit of `jobs.retries.SHORTEST`).
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

LARGE_ENOUGH = 90
"""Fib(90) = 2.9 · 10¹⁸ and 2⁸⁹ milliseconds are above any cap; a larger k changes nothing and would cost time."""

MANY = 10**6
"""Failures whose third and fourth powers, 10¹⁸ and 10²⁴, are above any cap and far from an overflow."""


class Rng(Protocol):
    """A source of chance: `random.Random` is one; tests and figures pass a seeded one."""

    def uniform(self, a: float, b: float, /) -> float: ...


RNG: Rng = random.SystemRandom()


@dataclass(frozen=True)
class Failure:
    """The facts from which the next retry is computed. All instants in seconds since the epoch.

    `number`: k, this failure included. `at`: when it happened. `first_at`: the first of the series; None if unknown, so
    the record counts as being on time. `inserted_at`: when the record was put on the backlog; None if unknown,
    so it counts from `first_at`. `record_id` gives *phased* its phase.
    """

    number: int
    at: float = 0.0
    first_at: float | None = None
    inserted_at: float | None = None
    record_id: int = 0

    @property
    def failing_for(self) -> float:
        """Seconds since the first failure; 0 if that is unknown, or in the future (a clock that was wrong)."""
        return 0.0 if self.first_at is None else max(0.0, self.at - self.first_at)

    @property
    def of_a_record_from(self) -> float:
        """The instant at which its record was put on the backlog, if known; never after the failure."""
        known = self.inserted_at if self.inserted_at is not None else self.first_at
        return self.at if known is None else min(known, self.at)


Parameters = Mapping[str, Any]
Wait = Callable[[Failure, Parameters, float, Rng], float]
"""(failure, parameters, cap in seconds, rng) → seconds; `jobs.retries.delay` applies the cap once more."""


def constant(failure: Failure, given: Parameters, cap: float, rng: Rng) -> float:
    return float(given["base"])


def exponential(failure: Failure, given: Parameters, cap: float, rng: Rng) -> float:
    """The seconds of *exponential*. The cap comes before the jitter, so that waits at the cap stay spread."""
    wait = min(float(given["least"] + 2 ** (min(failure.number, LARGE_ENOUGH) - 1) * given["unit"]), cap)
    match given["jitter"]:
        case "full":
            return rng.uniform(0, wait)
        case "equal":
            return wait / 2 + rng.uniform(0, wait / 2)
    return wait


def sidekiq(failure: Failure, given: Parameters, cap: float, rng: Rng) -> float:
    r = min(failure.number, MANY) - 1
    return float(given["unit"]) * (r**4 + 15 + rng.uniform(0, 30 * (r + 1)))


def buckets(failure: Failure, given: Parameters, cap: float, rng: Rng) -> float:
    r = min(failure.number, MANY) - 1
    return float(given["unit"]) * rng.uniform(r**3, (r + 2) ** 3)


def fibonacci(failure: Failure, given: Parameters, cap: float, rng: Rng) -> float:
    """Fib(1) = Fib(2) = 1."""
    previous, current = 0, 1
    for _ in range(min(failure.number, LARGE_ENOUGH) - 1):
        previous, current = current, previous + current
    return float(current * given["unit"])
