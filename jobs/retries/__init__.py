"""The wait of a record after a failure, and the end of its retries. Pure functions: no clock, no database.

The formulas are in `waits`, that of *phased* in `phases`, that of *progressive* in `tiers`; `sweeps` makes its sweeps.
"""

from dataclasses import dataclass, field, fields
from typing import Any

from django.core.exceptions import ValidationError

from jobs.retries import phases, tiers, waits
from jobs.retries.waits import RNG as RNG
from jobs.retries.waits import Failure as Failure
from jobs.retries.waits import Rng as Rng
from jobs.retries.waits import Wait

LONGEST = 10**9
"""Seconds, about 32 years: no parameter is larger. A number without bounds would overflow at a settle."""

SHORTEST = 0.001
"""Seconds: no parameter is smaller, so that any algorithm but *constant* reaches any cap."""

LARGEST = 2**31 - 1
"""The largest number of a column. As a cap, 68 years: an instant that far from now is still a date."""

JITTERS = ("none", "full", "equal")


@dataclass(frozen=True)
class Algorithm:
    """A formula, as a function and as text, and the parameters that it takes, with their defaults in seconds.

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
        waits.constant,
        "base",
        "The same wait each time. Simple, but a service that is away is called as often as ever.",
        "-",
        {"base": 300},
    ),
    "exponential": Algorithm(
        waits.exponential,
        "least + 2^r · unit; full jitter: U(0, that); equal jitter: half of it + U(0, half of it)",
        (
            "Each wait is nearly twice as long as the one before. Without jitter, records that failed together "
            "are retried together."
        ),
        "Marc Brooker: Exponential Backoff and Jitter (AWS Architecture Blog, 2015)",
        {"least": 180, "unit": 60, "jitter": "none"},
        {"jitter": JITTERS},
    ),
    "sidekiq": Algorithm(
        waits.sidekiq,
        "(r⁴ + 15 + U(0, 30 · (r + 1))) · unit",
        "A steep polynomial with some jitter: quick at first, days apart later.",
        "Sidekiq's wiki: Error Handling",
        {"unit": 1},
    ),
    "buckets": Algorithm(
        waits.buckets,
        "U(r³, (r + 2)³) · unit",
        "A random instant within a bucket that overlaps the next one: an even load, for waits that differ widely.",
        "the bucketed random of the backoff functions (docs/glossary.md)",
        {"unit": 1},
    ),
    "fibonacci": Algorithm(
        waits.fibonacci,
        "Fib(k) · unit: 1, 1, 2, 3, 5, 8 … units",
        "Grows by six tenths each time: gentler than doubling, with a wait that is known beforehand.",
        "Fibonacci retry (docs/glossary.md)",
        {"unit": 60},
    ),
    "progressive": Algorithm(
        tiers.progressive,
        "until the next sweep that covers the record's age",
        "No counters: sweeps of all that is younger than N days, the rarer the greater N is.",
        "progressive schedule (docs/glossary.md)",
        {},
        waits_for_sweeps=True,
    ),
    "phased": Algorithm(
        phases.phased,
        "retry k comes T(k) + u · (T(k + 1) − T(k)) after the first failure; T(k) = base(1) + … + base(k), "
        "base(k) = (k³ + 3k) · unit, u = the record's own phase",
        "Each record keeps its place between two retries, and the places are spread evenly: an even load, for waits "
        "that differ little. A record that is late takes its next place.",
        "ours (docs/decisions/0027-phased-retries-keep-their-places.md)",
        {"unit": 1},
    ),
}


@dataclass(frozen=True)
class Rule:
    """A retry policy as a value: `max_delay` in seconds, by default practically unlimited; `max_failures` None = never
    give up.

    `give_up_after`: seconds since the first failure after which a failure is the last one; None for never.
    """

    algorithm: str = "fibonacci"
    parameters: dict[str, Any] = field(default_factory=dict)
    max_delay: float = float(LARGEST)
    max_failures: int | None = None
    give_up_after: float | None = None

    @property
    def waits_for_sweeps(self) -> bool:
        """True if its records wait for sweeps, and not for their own instants."""
        return ALGORITHMS[self.algorithm].waits_for_sweeps

    def gives_up(self, failure: Failure) -> bool:
        """True if a record is not tried again after this failure."""
        if self.max_failures is not None and failure.number >= self.max_failures:
            return True
        if self.give_up_after is not None and failure.failing_for >= self.give_up_after:
            return True
        return self.waits_for_sweeps and tiers.next_sweep(failure.at, failure.of_a_record_from) is None


DEFAULT = Rule(max_delay=86_400.0)
"""The rule of a record without a retry policy: Fibonacci, 60 s a unit, a day at most."""

DECIDING = tuple(each.name for each in fields(Rule))
"""The fields of a retry policy that decide when its records are tried again: all but its name."""


def delay(rule: Rule, failure: Failure | int, rng: Rng = RNG) -> float:
    """Seconds to wait after a failure, at most `rule.max_delay`; a number is a failure that was on time.

    *progressive* has no cap, and returns infinity if no sweep will cover the record.

    Raises: ValueError for fewer than one failure, KeyError for an unknown algorithm.
    """
    if isinstance(failure, int):
        failure = Failure(failure)
    if failure.number < 1:
        raise ValueError(f"a delay follows a failure; got failures={failure.number}")
    algorithm = ALGORITHMS[rule.algorithm]
    wait = algorithm.wait(failure, {**algorithm.defaults, **rule.parameters}, rule.max_delay, rng)
    return wait if algorithm.waits_for_sweeps else min(wait, rule.max_delay)


def validate(rule: Rule) -> None:
    """Check an algorithm's name, its parameters, related fields, and the limits.

    Raises: ValidationError naming all bad fields (as those of `RetryPolicy`) and all bad parameters.
    """
    found = problems(rule.algorithm, rule.parameters, rule.max_failures)
    limits = {"max_failures": rule.max_failures, "give_up_after": rule.give_up_after}
    for name, value in {"max_delay": rule.max_delay, **{k: v for k, v in limits.items() if v is not None}}.items():
        if not _is_number(value, 1, LARGEST):
            found.setdefault(name, []).append(f"must be a number from 1 to {LARGEST}, not {_describe(value)}")
    if found:
        raise ValidationError(found)


def problems(algorithm: Any, parameters: Any, max_failures: int | None = None) -> dict[str, list[str]]:
    """Problems with an algorithm's name, its parameters and related fields, by field, for any input."""
    found: dict[str, list[str]] = {}
    known = ALGORITHMS.get(algorithm) if isinstance(algorithm, str) else None
    if known is None:
        found["algorithm"] = [f"unknown algorithm {_describe(algorithm)}; one of {', '.join(sorted(ALGORITHMS))}"]
    if not isinstance(parameters, dict):
        found["parameters"] = ['must be an object, such as {"unit": 60}']
    elif known is not None:
        bad = [_problem_with(algorithm, known, key, value) for key, value in parameters.items()]
        if any(bad):
            found["parameters"] = [problem for problem in bad if problem]
    if known is not None and known.waits_for_sweeps and max_failures is not None:
        found["max_failures"] = [
            f"leave it empty: {algorithm} does not count failures; it gives up by age (give up after)"
        ]
    return found


def _problem_with(name: str, algorithm: Algorithm, key: Any, value: Any) -> str:
    if key not in algorithm.defaults:
        return f"{name} has no parameter {_describe(key)}; it takes {', '.join(algorithm.defaults) or 'none'}"
    if choices := algorithm.choices.get(key):
        return (
            "" if value in choices else f"{key} is {', '.join(choices[:-1])} or {choices[-1]}, not {_describe(value)}"
        )
    if not _is_number(value, SHORTEST, LONGEST):
        return f"{key} must be a positive number of seconds, {SHORTEST} to {LONGEST}, not {_describe(value)}"
    return ""


def _is_number(value: Any, lowest: float, highest: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and lowest <= value <= highest


def _describe(value: Any) -> str:
    """The typed value, shortened. A number of thousands of digits has no text at all."""
    try:
        return f"{value!r:.50}"
    except ValueError:
        return "a number of thousands of digits"
