"""The log of decisions, in two levels, kept as rows so that yesterday can be explained.

*Doing*: what was done to a record and why, one line a step. *Considering*: for each claim what it took, what it left,
and the key of the claim order that decided between them; off unless `JOBS["CONSIDERING"]` is set. Both also go to the
loggers `jobs.doing` and `jobs.considering`. Rows are pruned by age and number: docs/operations.md.
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any

from jobs import conf
from jobs.clock import database_clock
from jobs.formatting import storable
from jobs.models import BacklogRecord, Decision, Lane, Level
from jobs.order import REASONS, claim_key, deciding_key, in_claim_order
from jobs.outcomes import MAX_ERROR_LENGTH, Claimed
from jobs.prepared import execute, execute_in_batches

LOGGERS = {Level.DOING: logging.getLogger("jobs.doing"), Level.CONSIDERING: logging.getLogger("jobs.considering")}

SHOWN_CLAIMED = 20
SHOWN_LEFT = 5
"""Candidates that a line of *considering* names: what was taken, and who would have been next."""

MAX_ROWS = {Level.DOING: 1_000_000, Level.CONSIDERING: 100_000}
"""Whatever their age, no more lines are kept. A line of *doing* takes some 420 bytes with its indexes."""

HELD = "throttle"
"""What decided when it was no key of the claim order."""

PRUNE_BATCH = 5_000

PRUNE = """
DELETE FROM jobs_decision
 WHERE ctid = ANY(ARRAY(
       SELECT ctid FROM jobs_decision WHERE level = %(level)s AND at < %(before)s ORDER BY at LIMIT %(limit)s))
"""

# Served by `decision_level_at`.
FIRST_TOO_OLD = "SELECT at FROM jobs_decision WHERE level = %(level)s ORDER BY at DESC OFFSET %(most)s LIMIT 1"


def doing(
    what: str,
    text: str,
    *,
    record: Claimed | None = None,
    kind: str = "",
    subject: str = "",
    facts: dict[str, Any] | None = None,
    now: datetime | None = None,
) -> None:
    """Write one line of what was done. `what`: its name, as `answered`; `text`: one sentence for people.

    `record`: the claimed record that it was done to; without one, `kind` and `subject` say about whom it is. In a
    transaction the line is written, or not, with everything else. `now` (aware): when; by default the clock's.
    """
    about: dict[str, Any] = {"kind": kind, "subject": subject}
    if record is not None:
        about = {name: getattr(record, name) for name in ("kind", "queue", "subject", "worker_id")}
        about["record_id"] = record.id
    at, text = now or database_clock(), _bounded(text)
    _log(Decision.objects.create(what=what, text=text, facts=facts or {}, at=at, **about))


def _bounded(text: str) -> str:
    return storable(text)[:MAX_ERROR_LENGTH]


@dataclass(frozen=True)
class Line:
    """One line of what was done, about a subject."""

    what: str
    text: str
    kind: str
    subject: str
    facts: dict[str, Any] = field(default_factory=dict)


def doing_all(lines: Iterable[Line], now: datetime) -> None:
    """Write many lines in one statement a thousand."""
    rows = [Decision(level=Level.DOING, at=now, **(asdict(line) | {"text": _bounded(line.text)})) for line in lines]
    for row in Decision.objects.bulk_create(rows, batch_size=1000):
        _log(row)


def consider(
    queue: str, claimed: Sequence[Claimed], *, wanted: int, worker_id: int, now: datetime | None = None
) -> None:
    """Write what a claim of `queue` looked at: what it took, who would have been next, and the key that decided.

    A claim that found no record at all writes nothing.
    """
    instant = now or database_clock()
    left = _left(queue, instant)
    taken = f"{len(claimed)} of {wanted} wanted were claimed from {queue}"
    if not left and not claimed:
        return
    if not left:
        decided, text = None, f"{taken}; no other was ready"
    elif not claimed or claim_key(left[0]) < claim_key(claimed[-1]) or len(claimed) < wanted:
        # a claim takes the first in order: who stands before its last was held back
        decided, text = HELD, f"{taken}; {_title(left[0])} was held by its throttle, a paused queue or another claim"
    else:
        decided = deciding_key(claimed[-1], left[0])
        text = f"{taken}; {_title(claimed[-1])} came before {_title(left[0])}: {REASONS[decided]}"
    facts = {
        "wanted": wanted,
        "count": len(claimed),
        "claimed": [_keys(record) for record in claimed[:SHOWN_CLAIMED]],
        "left": [_keys(record) for record in left],
        "decided_by": decided,
    }
    row = {"what": "claimed", "text": text, "facts": facts, "at": instant, "queue": queue, "worker_id": worker_id}
    _log(Decision.objects.create(level=Level.CONSIDERING, kind=(claimed or left)[0].kind, **row))


def _left(queue: str, now: datetime) -> list[BacklogRecord]:
    """The first that a claim left, lane by lane, so that the index of the claim order serves it."""
    ready = BacklogRecord.objects.ready().filter(queue=queue).open_at(now)
    lanes = [0, *Lane.objects.values_list("pk", flat=True)]
    heads = [record for lane in lanes for record in ready.filter(lane=lane).in_claim_order()[:SHOWN_LEFT]]
    return in_claim_order(heads)[:SHOWN_LEFT]


def _title(record: Any) -> str:
    return str(record.payload.get("title") or record.subject)


def _keys(record: Claimed | BacklogRecord) -> dict[str, Any]:
    return {
        "id": record.id,
        "subject": record.subject,
        "title": _title(record),
        "priority": record.priority,
        "rank_day": record.rank_day.isoformat() if record.rank_day else None,
        "tried_at": record.tried_at.isoformat() if record.tried_at else None,
        "expected_seconds": record.expected_seconds,
    }


def _log(row: Decision) -> None:
    LOGGERS[Level(row.level)].info(
        "%s: %s", row.what, row.text, extra={"subject": row.subject, "record": row.record_id, "facts": row.facts}
    )


def prune(now: datetime | None = None) -> int:
    """Delete the lines that are too old or too many, in small batches. Returns how many."""
    before = (now or database_clock()) - conf.keep_log()
    return sum(_prune(level, before) for level in Level)


def _prune(level: Level, before: datetime) -> int:
    if row := execute(FIRST_TOO_OLD, {"level": level, "most": MAX_ROWS[level]}).fetchone():
        before = max(before, row[0] + timedelta(microseconds=1))
    return execute_in_batches(PRUNE, {"level": level, "before": before}, PRUNE_BATCH)
