"""How long a record waits after a failure. Pure functions: no clock, no database.

k is the number of failures so far, from 1.

| algorithm | delay in seconds | parameters (defaults) |
|---|---|---|
| constant | `base` | base (300) |
| exponential | `least + 2^(k-1) · unit` | least (180), unit (60) |
| fibonacci | `Fib(k) · unit`: 1, 1, 2, 3, 5, 8 … units | unit (60) |
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from django.core.exceptions import ValidationError

LARGE_ENOUGH = 90
"""Fib(90) seconds is more than any cap in years; a larger k changes nothing and would cost time."""

LONGEST = 10**9
"""Seconds, about 32 years: no parameter is larger. A number without bounds would overflow at a settle."""


def fibonacci_number(k: int) -> int:
    """The k-th Fibonacci number, Fib(1) = Fib(2) = 1, in constant time for any k (see LARGE_ENOUGH)."""
    previous, current = 0, 1
    for _ in range(min(k, LARGE_ENOUGH) - 1):
        previous, current = current, previous + current
    return current if k > 0 else 0


def _constant(k: int, base: float) -> float:
    return base


def _exponential(k: int, least: float, unit: float) -> float:
    return float(least + 2 ** (min(k, LARGE_ENOUGH) - 1) * unit)


def _fibonacci(k: int, unit: float) -> float:
    return float(fibonacci_number(k) * unit)


@dataclass(frozen=True)
class Algorithm:
    """A formula and the parameters it takes, with their defaults."""

    formula: Callable[..., float]
    defaults: dict[str, float]


ALGORITHMS = {
    "constant": Algorithm(_constant, {"base": 300}),
    "exponential": Algorithm(_exponential, {"least": 180, "unit": 60}),
    "fibonacci": Algorithm(_fibonacci, {"unit": 60}),
}


@dataclass(frozen=True)
class Rule:
    """A retry policy as a value: `max_delay` in seconds, `max_failures` None = never give up."""

    algorithm: str = "fibonacci"
    parameters: dict[str, float] = field(default_factory=dict)
    max_delay: float = 86_400.0
    max_failures: int | None = None

    def gives_up(self, failures: int) -> bool:
        """Whether a record with this many failures is not tried again."""
        return self.max_failures is not None and failures >= self.max_failures


def delay(rule: Rule, failures: int) -> float:
    """Seconds to wait after the `failures`-th failure, capped at `rule.max_delay`.

    Raises: ValueError for fewer than one failure, KeyError for an unknown algorithm.
    """
    if failures < 1:
        raise ValueError(f"a delay follows a failure; got failures={failures}")
    algorithm = ALGORITHMS[rule.algorithm]
    return min(algorithm.formula(failures, **{**algorithm.defaults, **rule.parameters}), rule.max_delay)


def validate(name: str, parameters: Any) -> None:
    """Check an algorithm's name and parameters. Raises: ValidationError naming the field and the parameter."""
    if name not in ALGORITHMS:
        raise ValidationError({"algorithm": f"unknown algorithm {name!r}; one of {', '.join(sorted(ALGORITHMS))}"})
    if not isinstance(parameters, dict):
        raise ValidationError({"parameters": 'must be an object, as {"unit": 60}'})
    known = ALGORITHMS[name].defaults
    for key, value in parameters.items():
        if key not in known:
            message = f"{name} has no parameter {key!r}; it takes {', '.join(known)}"
            raise ValidationError({"parameters": message})
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= LONGEST:
            raise ValidationError(
                {"parameters": f"{key} must be a positive number of seconds, at most {LONGEST}, not {value!r:.50}"}
            )
