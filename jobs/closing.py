"""The step of a tick that closes windows: what is ready when its window has closed is put off, or dropped.

The kind of a record says when its window opens next. Of a kind that says nothing, as that of an event, only those
records have an instant at which their window closes that are to be dropped then. A record that its kind cannot read is
set aside: it waits for an hour, says why in `last_error`, and holds up no other. One of a kind that is unknown here is
left to the workers that know it, as in mid-upgrade.
"""

import time
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db import transaction

from jobs import decisions, exclusivity
from jobs.formatting import storable
from jobs.handlers import Kind, NextOpening, registry
from jobs.outcomes import MAX_ERROR_LENGTH
from jobs.prepared import execute
from jobs.set_aside import Isolated
from jobs.states import Status, WaitingFor

BATCH = 500
"""Some 50 ms, for which what asks for one of these records waits."""

CLOSE_SECONDS = 0.1
"""Of a tick; the next one, right after the claims, closes the rest."""

LOOK_AGAIN_AFTER = timedelta(hours=1)
"""At a record that was set aside."""
SET_ASIDE = "set aside: "
"""What its `last_error` begins with."""

# Served by `backlog_ready_closes`.
CLOSED = f"""
SELECT id, kind, subject, exclusive_key, last_error
  FROM jobs_backlogrecord
 WHERE status = {Status.READY} AND closes_at <= %(now)s::timestamptz AND kind = ANY(%(kinds)s::text[])
 ORDER BY closes_at
 LIMIT {BATCH}
   FOR UPDATE SKIP LOCKED
"""

REOPEN = f"""
UPDATE jobs_backlogrecord b
   SET run_after = r.opens_at, closes_at = r.closes_at, queue = r.queue, exclusive_key = NULL,
       status = CASE WHEN r.opens_at <= %(now)s::timestamptz THEN {Status.READY} ELSE {Status.WAITING} END,
       waiting_for = CASE WHEN r.opens_at <= %(now)s::timestamptz THEN NULL ELSE {WaitingFor.WINDOW} END
  FROM unnest(%(id)s::bigint[], %(queue)s::text[], %(opens_at)s::timestamptz[], %(closes_at)s::timestamptz[])
       AS r(id, queue, opens_at, closes_at)
 WHERE b.id = r.id
"""


# It keeps `closes_at`, which has passed: nothing claims it when it comes back, and this step looks at it again.
PUT_ASIDE = f"""
UPDATE jobs_backlogrecord b
   SET status = {Status.WAITING}, waiting_for = {WaitingFor.WINDOW}, run_after = %(until)s::timestamptz,
       queue = %(queue)s, exclusive_key = NULL, last_error = r.error
  FROM unnest(%(id)s::bigint[], %(error)s::text[]) AS r(id, error)
 WHERE b.id = r.id
"""


DROP = f"""
UPDATE jobs_backlogrecord
   SET status = {Status.FAILED}, waiting_for = NULL, finished_at = %(now)s::timestamptz, last_error = %(error)s,
       exclusive_key = NULL, breaker_id = NULL
 WHERE id = ANY(%(ids)s::bigint[])
"""

WINDOW_CLOSED = "window closed"


class Closed(NamedTuple):
    """A ready record, locked, whose window has closed."""

    id: int
    kind: str
    subject: str
    exclusive_key: str | None
    last_error: str


def close_windows(now: datetime, seconds: float = CLOSE_SECONDS) -> int:
    """Put ready records whose window has closed off to its next opening; of kinds without one, drop them: they fail.

    For some `seconds`; the next tick does the rest. Returns how many.
    """
    until = time.monotonic() + seconds
    moved = 0
    while True:
        count = _close_batch(now)
        moved += count
        if count < BATCH or time.monotonic() >= until:
            return moved


@transaction.atomic
def _close_batch(now: datetime) -> int:
    found = [Closed(*row) for row in execute(CLOSED, {"now": now, "kinds": list(registry.kinds)}).fetchall()]
    exclusivity.open_gates([record.exclusive_key for record in found], now)
    by_kind: dict[str, list[Closed]] = defaultdict(list)
    for record in found:
        by_kind[record.kind].append(record)
    for name, records in by_kind.items():
        kind = registry.kind(name)
        if kind.next_opening is None:
            _drop(name, records, now)
        else:
            isolated = Isolated(
                records, lambda record: f"cannot tell when the window of {record.kind} {record.subject} opens"
            )
            for some in isolated:
                with isolated:
                    _reopen(some, kind.next_opening, kind.home_queue, now)
            _put_aside(kind, isolated.bad, now)
    return len(found)


@transaction.atomic
def _reopen(records: Sequence[Closed], next_opening: NextOpening, queue: str, now: datetime) -> None:
    openings = next_opening([(record.id, record.subject) for record in records], now)
    chosen = [openings.get(record.id, (now, None)) for record in records]
    values = {
        "now": now,
        "id": [record.id for record in records],
        "queue": [queue] * len(records),
        "opens_at": [opens_at for opens_at, _ in chosen],
        "closes_at": [closes_at for _, closes_at in chosen],
    }
    execute(REOPEN, values)


def _put_aside(kind: Kind, bad: dict[Closed, str], now: datetime) -> None:
    if not bad:
        return
    errors = {record: storable(SET_ASIDE + message)[:MAX_ERROR_LENGTH] for record, message in bad.items()}
    values = {
        "id": [record.id for record in errors], "error": list(errors.values()), "queue": kind.home_queue,
        "until": now + LOOK_AGAIN_AFTER,
    }  # fmt: skip
    execute(PUT_ASIDE, values)
    news = [(record, error) for record, error in errors.items() if error != record.last_error]
    decisions.doing_all([decisions.Line("set aside", error, kind.name, record.subject) for record, error in news], now)


def _drop(kind: str, records: Sequence[Closed], now: datetime) -> None:
    drop([record.id for record in records], now)
    first, others = records[0].subject, len(records) - 1
    more = f" and {others} others" if others else ""
    decisions.doing("dropped", f"{first}{more}: {WINDOW_CLOSED}", kind=kind, subject=first, now=now)


def drop(record_ids: list[int], now: datetime) -> None:
    """End these records, which are locked and idle, as failed: their window has closed."""
    execute(DROP, {"ids": record_ids, "now": now, "error": WINDOW_CLOSED})
