"""Findings: problems of the installation, each found by one condition.

A condition is declared once, by `@condition` over a function of a `Look`, in the `conditions` of the app that knows its
subject. Everything that shows problems reads that list: the doctor the whole list, alerts the kinds in
`alerting/watching.py`, home, `status` and `backlog` the findings about the queue (`operations/backlog/attention.py`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

from django.db import connection, transaction
from django.db.utils import Error

from external.formatting import first_line, some_of
from jobs.conf import PROGRAM

STATEMENT_SECONDS = 5
"""Each statement is served by an index or bounded by a LIMIT. Beyond this, the answer is that it is slow."""
COUNT_TO = 10_000
"""An operator does nothing else for a larger number, and counting a million rows takes seconds."""
READING_SECONDS = 0.3
"""Time of a look for reading crons, and for windows, once the database has answered. The next look of the same process
reads the rest, since this one is remembered."""


Row = TypeVar("Row")


class Severity(StrEnum):
    """The severity of a finding. Only a problem fails `manage.py doctor`."""

    OK = "ok"
    WARNING = "warning"
    """Costs time, or will become a problem; or could not be examined."""
    PROBLEM = "problem"
    """Work has stopped, promises do not hold, or data may be lost."""


@dataclass(frozen=True)
class Finding:
    """A problem. `kind`: the name of its condition; `subject`: such as `queue:backups`; `since`: None if that is not
    known; `text`: a sentence without its full stop; `remedy`: advice.

    `name`: that of the subject, with which the text begins, if it does. `numbers`: facts for machines, JSON values;
    durations are seconds. `error`: the condition could not be examined, for the reason in the text.
    """

    kind: str
    subject: str
    since: datetime | None
    severity: Severity
    text: str
    remedy: str = ""
    name: str = ""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    error: bool = False


@dataclass(frozen=True)
class ExaminedCondition:
    """A condition as the doctor shows it: in `what` the problem, or that there is none, and in `do` advice."""

    name: str
    severity: Severity
    what: str
    do: str
    numbers: Mapping[str, Any]
    found: Sequence[Finding]


class Look:
    """One examination: its instant (aware), and the results that several conditions read, made by the
    first that does. One that fails is not asked again: its error is raised for each.
    """

    def __init__(
        self,
        now: datetime,
        summarize: Callable[[datetime], Any] = lambda now: None,
        late: Callable[[datetime], datetime | None] = lambda now: None,
        reading_seconds: float = READING_SECONDS,
    ) -> None:
        self.now, self._summarize, self._late, self.reading_seconds = now, summarize, late, reading_seconds
        self._read: dict[Any, Any] = {}
        self._failed: dict[Any, Exception] = {}

    def of(self, read: Callable[[datetime], Iterable[Row]]) -> list[Row]:
        """The rows that a function reads at that instant, read once for all conditions that ask for them."""
        return self.once(read, lambda now: list(read(now)))

    @property
    def summary(self) -> Any:
        """The summary of the backlog at that instant."""
        return self.once("summary", self._summarize)

    @property
    def late_before(self) -> datetime | None:
        """The instant before which an event that is late should have happened. None while that cannot be known, such as
        in the first minutes after the machine slept.
        """
        return self.once("late before", self._late)

    def once(self, key: Any, ask: Callable[[datetime], Row]) -> Row:
        """The result of `ask`, which is asked once for all conditions that use this key."""
        if key in self._failed:
            raise self._failed[key]
        if key not in self._read:
            try:
                self._read[key] = ask(self.now)
            except Exception as error:
                self._failed[key] = error
                raise
        found: Row = self._read[key]
        return found


@dataclass(frozen=True)
class Condition:
    """A kind of finding, and the function that finds it. `fine`: the sentence when nothing is wrong; `wrong`: the words
    around the findings where the doctor shows them in one line. `alert_where`: a query, with its values, that yields a
    row wherever there may be an alert (`operations/joint_examination.py`); None if only `find` knows.
    """

    kind: str
    find: Callable[[Look], Iterable[Finding]]
    fine: str
    wrong: str = "{}"
    alert_where: Callable[[Look], tuple[str, dict[str, Any]]] | None = None

    def examine(self, look: Look) -> list[Finding]:
        """Its findings, in a transaction that is read-only, bounded in time, and rolled back.

        Raises: django.db.Error when the database is away. Any other error is the finding.
        """
        try:
            with reading_only():
                return self.found(look)
        except Exception as error:  # a row that cannot be read must not hide the findings about others
            return self.failed(error)

    def failed(self, error: Exception) -> list[Finding]:
        """The finding that it could not be examined, once its transaction is over. Raises: `error`, if the database is
        away.
        """
        if isinstance(error, Error) and not connection.is_usable():
            raise error
        return [self._unexamined(error)]

    def found(self, look: Look) -> list[Finding]:
        """Its findings, without a separate transaction, and with any error raised."""
        return [each if each.kind == self.kind else replace(each, kind=self.kind) for each in self.find(look)]

    def _unexamined(self, error: Exception) -> Finding:
        text = f"could not be examined: {first_line(str(error))}"
        do = "apply missing migrations; a role that may not look needs GRANT pg_monitor; else wait and ask again"
        if self.kind == "migrations":
            return Finding(
                self.kind, "", None, Severity.PROBLEM, text, f"`{PROGRAM} migrate` has the details", error=True
            )
        return Finding(self.kind, "", None, Severity.WARNING, text, do, error=True)

    def examined(self, look: Look) -> ExaminedCondition:
        """Its findings in one line."""
        return self.summed_up(self.examine(look))

    def summed_up(self, found: Sequence[Finding]) -> ExaminedCondition:
        """These findings of the condition in one line, with the worst severity."""
        numbers = {key: value for each in found for key, value in each.numbers.items()}
        wrong = [each for each in found if each.severity is not Severity.OK]
        if not wrong:
            return ExaminedCondition(self.kind, Severity.OK, found[0].text if found else self.fine, "", numbers, [])
        worst = max((each.severity for each in wrong), key=list(Severity).index)
        text = listed([each.text for each in wrong])
        do = listed(list(dict.fromkeys(each.remedy for each in wrong)))
        return ExaminedCondition(
            self.kind, worst, text if wrong[0].error else self.wrong.format(text), do, numbers, wrong
        )


@contextmanager
def reading_only() -> Iterator[None]:
    """A transaction that is read-only, bounded in time, and rolled back."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"SET TRANSACTION READ ONLY; SET LOCAL statement_timeout = '{STATEMENT_SECONDS}s'")
        yield
        transaction.set_rollback(True)


LATE: list[Callable[[datetime], datetime | None]] = []
"""Functions now → `Look.late_before`, registered by any app that knows since when the scheduler is looked at each
minute.
"""

CONDITIONS: dict[str, Condition] = {}
"""All declared conditions, by kind, in the order in which they are examined."""


class Case(NamedTuple):
    """A finding of a condition whose findings are of one severity and have one remedy."""

    subject: str
    text: str
    since: datetime | None = None
    name: str = ""


Answer = Finding | Iterable[Finding | Case]


def condition(
    fine: str = "",
    wrong: str = "{}",
    do: str = "",
    severity: Severity = Severity.WARNING,
    alert_where: Callable[[Look], tuple[str, dict[str, Any]]] | None = None,
) -> Callable[[Callable[[Look], Answer]], Condition]:
    """Declare the condition with the name of the function.

    The function returns problems: findings, one of which may be `ok` with its facts; or cases, which have this
    `severity` and the remedy `do`.
    """

    def declare(question: Callable[[Look], Answer]) -> Condition:
        kind = question.__name__

        def find(look: Look) -> Iterable[Finding]:
            answer = question(look)
            for each in [answer] if isinstance(answer, Finding) else answer:
                if isinstance(each, Finding):
                    yield each
                else:
                    yield Finding(kind, each.subject, each.since, severity, each.text, do, each.name)

        return add(Condition(kind, find, fine, wrong, alert_where))

    return declare


def add(declared: Condition) -> Condition:
    """Add a condition to those that are examined."""
    CONDITIONS[declared.kind] = declared
    return declared


def ok(text: str, **numbers: Any) -> Finding:
    return Finding("", "", None, Severity.OK, text, numbers=numbers)


def warning(text: str, remedy: str, **numbers: Any) -> Finding:
    return Finding("", "", None, Severity.WARNING, text, remedy, numbers=numbers)


def problem(text: str, remedy: str, **numbers: Any) -> Finding:
    return Finding("", "", None, Severity.PROBLEM, text, remedy, numbers=numbers)


def rows(sql: str, **values: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, values or None)
        return list(cursor.fetchall())


def settings_of_server(*names: str) -> dict[str, str]:
    """Settings of PostgreSQL by name, as this session has them; any that this version does not know are left out."""
    return dict(rows("SELECT name, setting FROM pg_settings WHERE name = ANY(%(names)s)", names=list(names)))


def listed(parts: Sequence[str], most: int = 5) -> str:
    """`parts` in one line, the first `most` by name; the rest is counted."""
    return some_of(parts, most, "; ")


def counted(count: int) -> str:
    """A count that stopped at COUNT_TO + 1."""
    return f"over {COUNT_TO:,}" if count > COUNT_TO else f"{count:,}"
