"""The formulas of the algorithms: pure functions of a failure, parameters, the cap and rng.

k is the number of failures so far, from 1; r = k − 1 is the `retryCount` of the published formulas, from 0. All waits
are in seconds, all instants in seconds since the epoch. What is random comes from the generator that the caller hands
in; no algorithm keeps a state. Each takes the same time for any k, and none overflows: counts are cut off where their
powers are far above every cap (`jobs.retries.LONGEST`, with a unit of `jobs.retries.SHORTEST`).
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from jobs.retries import phases, tiers

LARGE_ENOUGH = 90
"""Fib(90) = 2.9 · 10¹⁸ and 2⁸⁹ milliseconds are above any cap; a larger k changes nothing and would cost time."""

MANY = 10**6
"""Failures whose third and fourth powers, 10¹⁸ and 10²⁴, are above any cap and far from an overflow."""


class Rng(Protocol):
    """Where chance comes from: `random.Random` is one; tests and figures hand in a seeded one."""

    def uniform(self, a: float, b: float, /) -> float: ...


RNG: Rng = random.SystemRandom()


@dataclass(frozen=True)
class Failure:
    """What the next retry follows from. All instants in seconds since the epoch.

    `number`: k, this failure included. `at`: when it happened. `first_at`: the first of the series; None: unknown, so
    the record counts as being on time. `inserted_at`: when the record was put on the backlog; None: at the first
    failure. `record_id` gives *phased* its phase.
    """

    number: int
    at: float = 0.0
    first_at: float | None = None
    inserted_at: float | None = None
    record_id: int = 0

    @property
    def failing_for(self) -> float:
        """Seconds since the first failure; 0 when that is unknown, or lies in the future (a clock that was wrong)."""
        return 0.0 if self.first_at is None else max(0.0, self.at - self.first_at)

    @property
    def of_a_record_from(self) -> float:
        """When its record was put on the backlog, as far as is known; never after the failure."""
        known = self.inserted_at if self.inserted_at is not None else self.first_at
        return self.at if known is None else min(known, self.at)


Parameters = Mapping[str, Any]
Wait = Callable[[Failure, Parameters, float, Rng], float]
"""(failure, parameters, cap in seconds, rng) → seconds; `jobs.retries.delay` applies the cap once more."""


def fibonacci_number(k: int) -> int:
    """The k-th Fibonacci number, Fib(1) = Fib(2) = 1; 0 for k < 1, Fib(90) for a larger k (see LARGE_ENOUGH)."""
    previous, current = 0, 1
    for _ in range(min(k, LARGE_ENOUGH) - 1):
        previous, current = current, previous + current
    return current if k > 0 else 0


def constant(failure: Failure, given: Parameters, cap: float, rng: Rng) -> float:
    """`base` seconds."""
    return float(given["base"])


def exponential(failure: Failure, given: Parameters, cap: float, rng: Rng) -> float:
    """min(least + 2^r · unit, cap) seconds; full jitter: U(0, that); equal jitter: half of it + U(0, half of it).

    The cap comes before the jitter: what has reached the cap stays spread. Marc Brooker, Exponential Backoff and
    Jitter (AWS Architecture Blog, 2015).
    """
    wait = min(float(given["least"] + 2 ** (min(failure.number, LARGE_ENOUGH) - 1) * given["unit"]), cap)
    match given["jitter"]:
        case "full":
            return rng.uniform(0, wait)
        case "equal":
            return wait / 2 + rng.uniform(0, wait / 2)
    return wait


def sidekiq(failure: Failure, given: Parameters, cap: float, rng: Rng) -> float:
    """(r⁴ + 15 + U(0, 30 · (r + 1))) · unit seconds. Sidekiq's wiki, Error Handling; there the unit is a second."""
    r = min(failure.number, MANY) - 1
    return float(given["unit"]) * (r**4 + 15 + rng.uniform(0, 30 * (r + 1)))


def buckets(failure: Failure, given: Parameters, cap: float, rng: Rng) -> float:
    """U(r³, (r + 2)³) · unit seconds; the mean is (k³ + 3k) · unit. The bucketed random of the backoff functions."""
    r = min(failure.number, MANY) - 1
    return float(given["unit"]) * rng.uniform(r**3, (r + 2) ** 3)


def fibonacci(failure: Failure, given: Parameters, cap: float, rng: Rng) -> float:
    """Fib(k) · unit seconds. Fibonacci retry: six failures are followed by eight units."""
    return float(fibonacci_number(failure.number) * given["unit"])


def phased(failure: Failure, given: Parameters, cap: float, rng: Rng) -> float:
    """Until the record's own place on the line of `unit` seconds and the cap; ours, see `jobs/retries/phases.py`."""
    line = phases.Line(float(given["unit"]), cap)
    elapsed = failure.failing_for if failure.first_at is not None else None
    return line.wait(failure.number, phases.phase(failure.record_id), elapsed)


def progressive(failure: Failure, given: Parameters, cap: float, rng: Rng) -> float:
    """Seconds until the next sweep that covers the record's age; infinity: there is none. See `tiers`."""
    sweep = tiers.next_sweep(failure.at, failure.of_a_record_from)
    return float("inf") if sweep is None else sweep - failure.at
