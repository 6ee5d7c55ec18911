"""What an examination finds."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Severity(StrEnum):
    """How bad it is. Only a problem fails `manage.py doctor`."""

    OK = "ok"
    WARNING = "warning"
    """Costs time, or will become a problem; or could not be examined."""
    PROBLEM = "problem"
    """Work stands still, promises do not hold, or data may be lost."""


@dataclass(frozen=True)
class Finding:
    """One thing looked at. `what`: a sentence with the numbers; `do`: what to do about it, empty when it is ok.

    `numbers`: the same facts for machines, values that JSON knows; durations are seconds.
    """

    name: str
    severity: Severity
    what: str
    do: str = ""
    numbers: Mapping[str, Any] = field(default_factory=dict)


def ok(name: str, what: str, **numbers: Any) -> Finding:
    return Finding(name, Severity.OK, what, numbers=numbers)


def warning(name: str, what: str, do: str, **numbers: Any) -> Finding:
    return Finding(name, Severity.WARNING, what, do, numbers)


def problem(name: str, what: str, do: str, **numbers: Any) -> Finding:
    return Finding(name, Severity.PROBLEM, what, do, numbers)


def listed(parts: list[str], most: int = 5) -> str:
    """`parts` in one line, the first `most` of them; the rest is counted."""
    rest = len(parts) - most
    return "; ".join(parts[:most]) + (f"; and {rest} more" if rest > 0 else "")


def several(count: int, word: str) -> str:
    """As “1 worker” or “1,200 workers”."""
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"
