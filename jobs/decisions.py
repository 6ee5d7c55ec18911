"""The log of decisions, in two levels, kept as rows so that yesterday can be explained.

*Doing*: an action on a record and its reason, one line a step. *Considering*: the records that a claim compared, and
the key that decided, if an app that observes claims writes it. Both also go to the loggers `jobs.doing` and
`jobs.considering`. Rows are pruned by age and number: docs/audit.md.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

from jobs import conf
from jobs.clock import database_clock
from jobs.log_fields import OF_PAYLOAD
from jobs.models import Decision, Level
from jobs.outcomes import MAX_ERROR_LENGTH, ClaimedRecord
from jobs.prepared_statements import storable, until_done

LOGGERS = {Level.DOING: logging.getLogger("jobs.doing"), Level.CONSIDERING: logging.getLogger("jobs.considering")}

MAX_ROWS = {Level.DOING: 1_000_000, Level.CONSIDERING: 100_000}
"""The most lines that are kept, of any age. A line of *doing* takes some 420 bytes with its indexes."""

PRUNE_BATCH = 5_000

SILENT = "silent"
"""`what` of a line about a silence. Those that follow each other are compacted into one line."""


def log(
    what: str,
    text: str,
    *,
    record: ClaimedRecord | None = None,
    kind: str = "",
    subject: str = "",
    facts: dict[str, Any] | None = None,
    now: datetime | None = None,
) -> None:
    """Write one line about an action. `what`: its name, such as `answered`; `text`: one sentence for users.

    `record`: the claimed record of the action; without one, `kind` and `subject` name it. In a transaction the line is
    written, or not, with everything else. `now` (aware): its instant, by default the clock's.
    """
    about: dict[str, Any] = {"kind": kind, "subject": subject} if record is None else _about(record)
    at, text = now or database_clock(), storable(text, MAX_ERROR_LENGTH)
    row = Decision.objects.create(what=what, text=text, facts=facts or {}, at=at, **about)
    log_line(row, record.payload if record else {})


def _about(record: ClaimedRecord) -> dict[str, Any]:
    about = {name: getattr(record, name) for name in ("kind", "queue", "subject", "worker_id")}
    return {**about, "record_id": record.id}


@dataclass(frozen=True)
class RecordLine:
    """A line about an action on a claimed record."""

    record: ClaimedRecord
    what: str
    text: str
    facts: dict[str, Any] = field(default_factory=dict)


def log_for_records(lines: Sequence[RecordLine], now: datetime) -> None:
    """Write many lines in one statement a thousand, as `log` would write each."""
    rows = [Decision(what=each.what, text=each.text, facts=each.facts, at=now, **_about(each.record)) for each in lines]
    for row in rows:
        row.text = storable(row.text, MAX_ERROR_LENGTH)
    for row, line in zip(Decision.objects.bulk_create(rows, batch_size=1000), lines, strict=True):
        log_line(row, line.record.payload)


@dataclass(frozen=True)
class DecisionLine:
    """One line about an action on a subject."""

    what: str
    text: str
    kind: str
    subject: str
    facts: dict[str, Any] = field(default_factory=dict)


def log_all(lines: Iterable[DecisionLine], now: datetime) -> None:
    """Write many lines in one statement a thousand."""
    rows = [Decision(at=now, **asdict(line)) for line in lines]
    for row in rows:
        row.text = storable(row.text, MAX_ERROR_LENGTH)
    for row in Decision.objects.bulk_create(rows, batch_size=1000):
        log_line(row)


def log_line(row: Decision, payload: Mapping[str, Any] = MappingProxyType({})) -> None:
    """Give a line to the logger of its level."""
    about = {"subject": row.subject, "record": row.record_id, "facts": row.facts}
    about |= {name: payload[name] for name in OF_PAYLOAD if name in payload}
    LOGGERS[Level(row.level)].info("%s: %s", row.what, row.text, extra=about)


def prune(now: datetime | None = None) -> int:
    """Delete the lines that are too old or too many, in small batches. Returns how many."""
    before = (now or database_clock()) - conf.keep_log()
    return sum(_prune(level, before) for level in Level)


def _prune(level: Level, before: datetime) -> int:
    lines = Decision.objects.filter(level=level)
    if first_too_many := lines.order_by("-at").values_list("at", flat=True)[MAX_ROWS[level] :].first():
        before = max(before, first_too_many + timedelta(microseconds=1))
    oldest = lines.filter(at__lt=before).order_by("at").values("pk")[:PRUNE_BATCH]
    return until_done(lambda: Decision.objects.filter(pk__in=oldest).delete()[0], PRUNE_BATCH)
