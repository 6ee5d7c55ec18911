"""The step of a tick that closes windows: what is ready when its window has closed is put off, or dropped.

The kind of a record says when its window opens next. Of a kind that says nothing, as that of an event, only those
records have an instant at which their window closes that are to be dropped then.
"""

from collections import defaultdict
from datetime import datetime

from django.db import connection, transaction

from jobs import decisions, exclusivity
from jobs.handlers import registry
from jobs.schedules import batches
from jobs.states import Status, WaitingFor

BATCH = 1000

# Served by `backlog_ready_closes`.
CLOSED = f"""
SELECT id, kind, subject, exclusive_key
  FROM jobs_backlogrecord
 WHERE status = {Status.READY} AND closes_at <= %(now)s
 ORDER BY closes_at
 LIMIT {BATCH}
   FOR UPDATE SKIP LOCKED
"""

REOPEN = f"""
UPDATE jobs_backlogrecord b
   SET run_after = r.opens_at, closes_at = r.closes_at, queue = r.queue, exclusive_key = NULL,
       status = CASE WHEN r.opens_at <= %(now)s THEN {Status.READY} ELSE {Status.WAITING} END,
       waiting_for = CASE WHEN r.opens_at <= %(now)s THEN NULL ELSE {WaitingFor.WINDOW} END
  FROM unnest(%(id)s::bigint[], %(queue)s::text[], %(opens_at)s::timestamptz[], %(closes_at)s::timestamptz[])
       AS r(id, queue, opens_at, closes_at)
 WHERE b.id = r.id
"""


def close_windows(now: datetime) -> int:
    """Put ready records whose window has closed off to its next opening; of kinds without one, drop them: they fail.

    Returns how many.
    """
    moved = 0
    while True:
        count = _close_batch(now)
        moved += count
        if count < BATCH:
            return moved


@transaction.atomic
def _close_batch(now: datetime) -> int:
    with connection.cursor() as cursor:
        cursor.execute(CLOSED, {"now": now})
        rows = cursor.fetchall()
        by_kind: dict[str, list[tuple[int, str]]] = defaultdict(list)
        exclusivity.open_gates([key for *_, key in rows], now)
        for record_id, kind, subject, _ in rows:
            by_kind[kind].append((record_id, subject))
        for name, records in by_kind.items():
            kind = registry.kind(name)
            if kind.next_opening is None:
                _drop(name, records, now)
                continue
            openings = kind.next_opening(records, now)
            chosen = [openings.get(record_id, (now, None)) for record_id, _ in records]
            cursor.execute(
                REOPEN,
                {
                    "now": now,
                    "id": [record_id for record_id, _ in records],
                    "queue": [kind.home_queue] * len(records),
                    "opens_at": [opens_at for opens_at, _ in chosen],
                    "closes_at": [closes_at for _, closes_at in chosen],
                },
            )
    return len(rows)


def _drop(kind: str, records: list[tuple[int, str]], now: datetime) -> None:
    batches.drop([record_id for record_id, _ in records], now)
    first, *others = (subject for _, subject in records)
    more = f" and {len(others)} others" if others else ""
    decisions.doing("dropped", f"{first}{more}: {batches.WINDOW_CLOSED}", kind=kind, subject=first, now=now)
