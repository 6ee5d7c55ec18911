"""How a condition is declared, and what its question finds.

A condition is a function `(cursor, now)` under `@condition`, which has the sentence for when all is well; or a function
of the summary of the backlog. It returns what is wrong, sentence by sentence, and the numbers; or, where the severity
or what to do depend on them, a finding.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Any, Generic, TypeVar

from django.db.backends.utils import CursorWrapper

from external.formatting import some_of

Summary = TypeVar("Summary")

STATEMENT_SECONDS = 5
"""Each statement is served by an index or bounded by a LIMIT. Beyond this, that it is slow is the answer."""
COUNT_TO = 10_000
"""An operator does nothing else for a larger number, and counting a million rows takes seconds."""


class Severity(StrEnum):
    """How bad it is. Only a problem fails `manage.py doctor`."""

    OK = "ok"
    WARNING = "warning"
    """Costs time, or will become a problem; or could not be examined."""
    PROBLEM = "problem"
    """Work stands still, promises do not hold, or data may be lost."""


@dataclass(frozen=True)
class Finding:
    """What one condition is like. `what`: a sentence with the numbers; `do`: what to do about it, empty when it is ok.

    `numbers`: the same facts for machines, values that JSON knows; durations are seconds.
    """

    name: str
    severity: Severity
    what: str
    do: str = ""
    numbers: Mapping[str, Any] = field(default_factory=dict)


class Look(Generic[Summary]):
    """Shared by the conditions of one examination: its instant (aware), and the summary of the backlog at that instant,
    which `summarize` makes."""

    def __init__(self, now: datetime, summarize: Callable[[datetime], Summary]) -> None:
        self.now, self._summarize = now, summarize

    @cached_property
    def summary(self) -> Summary:
        """Made once, by the first condition that reads it."""
        return self._summarize(self.now)


Examination = Callable[[CursorWrapper, Look[Any]], Finding]
Answer = Finding | tuple[Sequence[str], dict[str, Any]]

CONDITIONS: dict[str, Examination] = {}
"""All that are declared, by name, in the order in which they are examined."""


def condition(
    fine: str,
    wrong: str = "{}",
    do: str = "",
    severity: Severity = Severity.WARNING,
    *,
    of_summary: bool = False,
) -> Callable[[Callable[..., Answer]], Examination]:
    """Declare a condition. `fine`: the sentence when nothing is wrong; `wrong`: what stands around the sentences.
    `of_summary`: it is a function of the summary alone."""

    def declare(question: Callable[..., Answer]) -> Examination:
        def examined(cursor: CursorWrapper, look: Look[Any]) -> Finding:
            answer = question(look.summary) if of_summary else question(cursor, look.now)
            if isinstance(answer, Finding):
                return replace(answer, name=question.__name__)
            sentences, numbers = answer
            if not sentences:
                return Finding(question.__name__, Severity.OK, fine, numbers=numbers)
            return Finding(question.__name__, severity, wrong.format(listed(sentences)), do, numbers)

        CONDITIONS[question.__name__] = examined
        return examined

    return declare


def ok(what: str, **numbers: Any) -> Finding:
    return Finding("", Severity.OK, what, numbers=numbers)


def warning(what: str, do: str, **numbers: Any) -> Finding:
    return Finding("", Severity.WARNING, what, do, numbers)


def problem(what: str, do: str, **numbers: Any) -> Finding:
    return Finding("", Severity.PROBLEM, what, do, numbers)


def rows(cursor: CursorWrapper, sql: str, **values: Any) -> list[tuple[Any, ...]]:
    cursor.execute(sql, values or None)
    return list(cursor.fetchall())


def settings_of_server(cursor: CursorWrapper, *names: str) -> dict[str, str]:
    """Settings of PostgreSQL by name, as this session has them; what this version does not know is left out."""
    return dict(rows(cursor, "SELECT name, setting FROM pg_settings WHERE name = ANY(%(names)s)", names=list(names)))


def listed(parts: Sequence[str], most: int = 5) -> str:
    """`parts` in one line, the first `most` of them; the rest is counted."""
    return some_of(parts, most, "; ")


def counted(count: int) -> str:
    """A count that stopped at COUNT_TO + 1."""
    return f"over {COUNT_TO:,}" if count > COUNT_TO else f"{count:,}"
