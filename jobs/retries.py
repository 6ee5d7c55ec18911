"""How long a record waits after a failure, and when it gives up. Pure functions: no clock, no database.

k is the number of failures so far, from 1; r = k − 1 is the `retryCount` of the published formulas, from 0. All waits
are in seconds, all instants in seconds since the epoch. What is random is drawn from the dice that the caller hands
in; no algorithm keeps a state. `jobs/phases.py` has the arithmetic of *phased*, `jobs/tiers.py` that of *progressive*.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from django.core.exceptions import ValidationError

from jobs import phases, tiers

LARGE_ENOUGH = 90
"""Fib(90) seconds is more than any cap in years; a larger k changes nothing and would cost time."""

LONGEST = 10**9
"""Seconds, about 32 years: no parameter is larger. A number without bounds would overflow at a settle."""

JITTERS = ("none", "full", "equal")


class Dice(Protocol):
    """Where chance comes from: `random.Random` is one; tests and figures hand in a seeded one."""

    def uniform(self, a: float, b: float, /) -> float: ...


DICE: Dice = random.SystemRandom()


def fibonacci_number(k: int) -> int:
    """The k-th Fibonacci number, Fib(1) = Fib(2) = 1, in constant time for any k (see LARGE_ENOUGH)."""
    previous, current = 0, 1
    for _ in range(min(k, LARGE_ENOUGH) - 1):
        previous, current = current, previous + current
    return current if k > 0 else 0


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
        """When its record was put on the backlog, as far as is known."""
        known = self.inserted_at if self.inserted_at is not None else self.first_at
        return self.at if known is None else min(known, self.at)


Parameters = Mapping[str, Any]
Wait = Callable[[Failure, Parameters, float, Dice], float]
"""(failure, parameters, cap in seconds, dice) → seconds; the cap is applied once more by `delay`."""


def _constant(failure: Failure, given: Parameters, cap: float, dice: Dice) -> float:
    return float(given["base"])


def _exponential(failure: Failure, given: Parameters, cap: float, dice: Dice) -> float:
    """The cap comes before the jitter: what has reached the cap stays spread."""
    wait = min(float(given["least"] + 2 ** (min(failure.number, LARGE_ENOUGH) - 1) * given["unit"]), cap)
    match given["jitter"]:
        case "full":
            return dice.uniform(0, wait)
        case "equal":
            return wait / 2 + dice.uniform(0, wait / 2)
    return wait


MANY = 10**6
"""A count of failures whose powers are above every cap, and far from any overflow."""


def _sidekiq(failure: Failure, given: Parameters, cap: float, dice: Dice) -> float:
    r = min(failure.number, MANY) - 1
    return float(given["unit"]) * (r**4 + 15 + dice.uniform(0, 30 * (r + 1)))


def _buckets(failure: Failure, given: Parameters, cap: float, dice: Dice) -> float:
    r = min(failure.number, MANY) - 1
    return float(given["unit"]) * dice.uniform(r**3, (r + 2) ** 3)


def _fibonacci(failure: Failure, given: Parameters, cap: float, dice: Dice) -> float:
    return float(fibonacci_number(failure.number) * given["unit"])


def _phased(failure: Failure, given: Parameters, cap: float, dice: Dice) -> float:
    line = phases.Line(float(given["unit"]), cap)
    elapsed = failure.failing_for if failure.first_at is not None else None
    return line.wait(failure.number, phases.phase(failure.record_id), elapsed)


def _progressive(failure: Failure, given: Parameters, cap: float, dice: Dice) -> float:
    sweep = tiers.next_sweep(failure.at, failure.of_a_record_from)
    return float("inf") if sweep is None else sweep - failure.at


@dataclass(frozen=True)
class Algorithm:
    """A formula, for machines and for people, and the parameters it takes with their defaults.

    `choices`: parameters that are words. `waits_for_sweeps`: it gives no delay; sweeps take its records.
    """

    wait: Wait
    formula: str
    summary: str
    source: str
    defaults: dict[str, Any]
    choices: dict[str, tuple[str, ...]] = field(default_factory=dict)
    waits_for_sweeps: bool = False


ALGORITHMS = {
    "constant": Algorithm(
        _constant,
        "base",
        "The same wait each time. Simple, and an outage is called as often as ever.",
        "-",
        {"base": 300},
    ),
    "exponential": Algorithm(
        _exponential,
        "least + 2^r · unit; full jitter: U(0, that); equal jitter: half of it + U(0, half of it)",
        "Each wait is twice as long as the one before. Without jitter what failed together is tried together.",
        "Marc Brooker: Exponential Backoff and Jitter (AWS Architecture Blog, 2015)",
        {"least": 180, "unit": 60, "jitter": "none"},
        {"jitter": JITTERS},
    ),
    "sidekiq": Algorithm(
        _sidekiq,
        "(r⁴ + 15 + U(0, 30 · (r + 1))) · unit",
        "A steep polynomial with some jitter: quick at first, days apart later.",
        "Sidekiq's wiki: Error Handling",
        {"unit": 1},
    ),
    "buckets": Algorithm(
        _buckets,
        "U(r³, (r + 2)³) · unit",
        "A random instant within a bucket that overlaps the next one: an even load, for waits that differ widely.",
        "the backoff article that the retry pictures come from (docs/glossary.md)",
        {"unit": 1},
    ),
    "fibonacci": Algorithm(
        _fibonacci,
        "Fib(k) · unit: 1, 1, 2, 3, 5, 8 … units",
        "Grows by six tenths each time: gentler than doubling, with a wait that can be told beforehand.",
        "Fibonacci retry (docs/glossary.md)",
        {"unit": 60},
    ),
    "progressive": Algorithm(
        _progressive,
        "until the next sweep that covers the record's age",
        "No counters: sweeps of all that is younger than N days, the rarer the greater N is.",
        "progressive schedule (docs/glossary.md)",
        {},
        waits_for_sweeps=True,
    ),
    "phased": Algorithm(
        _phased,
        "the first of T(k) + u · (T(k + 1) − T(k)), T(k + 1) + … that is still to come, counted from the first "
        "failure; T(k) = base(1) + … + base(k), base(k) = (k³ + 3k) · unit, u = the record's own phase",
        "Each record keeps its place between two retries, and the places are spread evenly: an even load, for waits "
        "that differ little.",
        "ours (docs/decisions)",
        {"unit": 1},
    ),
}


@dataclass(frozen=True)
class Rule:
    """A retry policy as a value: `max_delay` in seconds, `max_failures` None = never give up.

    `give_up_after`: seconds since the first failure after which a failure is the last one; None: never.
    """

    algorithm: str = "fibonacci"
    parameters: dict[str, Any] = field(default_factory=dict)
    max_delay: float = 86_400.0
    max_failures: int | None = None
    give_up_after: float | None = None

    @property
    def waits_for_sweeps(self) -> bool:
        """Whether its records wait for sweeps, and not for an instant of their own."""
        return ALGORITHMS[self.algorithm].waits_for_sweeps

    def gives_up(self, failure: Failure) -> bool:
        """Whether a record is not tried again after this failure."""
        if self.max_failures is not None and failure.number >= self.max_failures:
            return True
        if self.give_up_after is not None and failure.failing_for >= self.give_up_after:
            return True
        return self.waits_for_sweeps and tiers.next_sweep(failure.at, failure.of_a_record_from) is None


def delay(rule: Rule, failure: Failure | int, dice: Dice = DICE) -> float:
    """Seconds to wait after a failure, at most `rule.max_delay`; a number stands for a failure that was on time.

    *progressive* knows no cap, and no wait when no sweep covers the record any more: infinity.

    Raises: ValueError for fewer than one failure, KeyError for an unknown algorithm.
    """
    if isinstance(failure, int):
        failure = Failure(failure)
    if failure.number < 1:
        raise ValueError(f"a delay follows a failure; got failures={failure.number}")
    algorithm = ALGORITHMS[rule.algorithm]
    wait = algorithm.wait(failure, {**algorithm.defaults, **rule.parameters}, rule.max_delay, dice)
    return wait if algorithm.waits_for_sweeps else min(wait, rule.max_delay)


def validate(rule: Rule) -> None:
    """Check an algorithm's name, its parameters, and what goes with it.

    Raises: ValidationError naming the field (`algorithm`, `parameters`, `max_failures`) and the parameter.
    """
    name, parameters = rule.algorithm, rule.parameters
    if name not in ALGORITHMS:
        raise ValidationError({"algorithm": f"unknown algorithm {name!r}; one of {', '.join(sorted(ALGORITHMS))}"})
    if not isinstance(parameters, dict):
        raise ValidationError({"parameters": 'must be an object, as {"unit": 60}'})
    algorithm = ALGORITHMS[name]
    for key, value in parameters.items():
        if problem := _problem_with(name, algorithm, key, value):
            raise ValidationError({"parameters": problem})
    if algorithm.waits_for_sweeps and rule.max_failures is not None:
        raise ValidationError(
            {"max_failures": f"leave it empty: {name} counts no failures; it gives up by age (give up after)"}
        )


def _problem_with(name: str, algorithm: Algorithm, key: str, value: Any) -> str:
    if key not in algorithm.defaults:
        return f"{name} has no parameter {key!r}; it takes {', '.join(algorithm.defaults) or 'none'}"
    if choices := algorithm.choices.get(key):
        return "" if value in choices else f"{key} is {', '.join(choices[:-1])} or {choices[-1]}, not {value!r:.50}"
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= LONGEST:
        return f"{key} must be a positive number of seconds, at most {LONGEST}, not {value!r:.50}"
    return ""
