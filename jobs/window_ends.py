"""The step of a tick that closes windows: records that are ready when their window has closed are postponed or dropped.

The kind of a record knows when its window opens next. In a kind without openings, such as events, only records that
should be dropped at the close of their window have a `closes_at`. A record that its kind cannot read is set aside: it
waits for an hour, has the reason in `last_error`, and delays no other. One of a kind that is unknown here is left to
the workers that know it, such as during an upgrade.
"""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial

from django.db import transaction

from jobs import decisions, exclusivity
from jobs.handlers import Kind, NextOpening, registry
from jobs.models import BacklogRecord
from jobs.outcomes import MAX_ERROR_LENGTH
from jobs.prepared_statements import STEP_SECONDS, execute, storable, until_done
from jobs.set_aside import isolate
from jobs.states import Status, WaitingFor

BATCH = 500
"""Records per transaction, which takes about 50 ms: others that need one of them wait that long."""

LOOK_AGAIN_AFTER = timedelta(hours=1)
"""The time until another look at a record that was set aside."""
SET_ASIDE = "set aside: "
"""The beginning of its `last_error`."""

PUT_OFF = f"""
UPDATE jobs_backlogrecord b
   SET run_after = r.opens_at, closes_at = r.closes_at, queue = %(queue)s::text, exclusive_key = NULL,
       last_error = COALESCE(r.error, b.last_error),
       status = CASE WHEN r.opens_at <= %(now)s::timestamptz THEN {Status.READY} ELSE {Status.WAITING} END,
       waiting_for = CASE WHEN r.opens_at <= %(now)s::timestamptz THEN NULL ELSE {WaitingFor.WINDOW} END
  FROM unnest(%(ids)s::bigint[], %(opens_at)s::timestamptz[], %(closes_at)s::timestamptz[], %(errors)s::text[])
       AS r(id, opens_at, closes_at, error)
 WHERE b.id = r.id AND b.status = {Status.READY}
"""

WINDOW_CLOSED = "window closed"


def close_windows(now: datetime, seconds: float = STEP_SECONDS) -> int:
    """Put off ready records whose window has closed to its next opening. Those of kinds without openings are dropped:
    they fail.

    Works for some `seconds`; the next tick does the rest. Returns the number of records.
    """
    return until_done(lambda: _close_batch(now), BATCH, seconds)


@transaction.atomic
def _close_batch(now: datetime) -> int:
    closed = BacklogRecord.objects.ready().filter(closes_at__lte=now, kind__in=registry.kinds)
    # served by `backlog_ready_closes`
    found = list(closed.defer("payload").order_by("closes_at").select_for_update(skip_locked=True)[:BATCH])
    exclusivity.open_gates([record.exclusive_key for record in found], now)
    by_kind: dict[str, list[BacklogRecord]] = defaultdict(list)
    for record in found:
        by_kind[record.kind].append(record)
    for name, records in by_kind.items():
        kind = registry.kind(name)
        if kind.next_opening is None:
            _drop(name, records, now)
        else:
            bad = isolate(records, partial(_reopen, kind, kind.next_opening, now=now), _cannot_tell)
            _put_aside(kind, bad, now)
    return len(found)


def _cannot_tell(record: BacklogRecord) -> str:
    return f"cannot tell when the window of {record.kind} {record.subject} opens"


def _reopen(kind: Kind, next_opening: NextOpening, records: Sequence[BacklogRecord], *, now: datetime) -> None:
    openings = next_opening([(record.id, record.subject) for record in records], now)
    _put_off(kind, [(record, *openings.get(record.id, (now, None)), None) for record in records], now)


def _put_off(
    kind: Kind, changes: Sequence[tuple[BacklogRecord, datetime, datetime | None, str | None]], now: datetime
) -> None:
    """`changes`: each record, when its window opens and closes next, and an error, if it has a new one."""
    records, opens_at, closes_at, errors = (list(column) for column in zip(*changes, strict=True))
    values = {"ids": [record.id for record in records], "opens_at": opens_at, "closes_at": closes_at, "errors": errors}
    execute(PUT_OFF, {**values, "queue": kind.home_queue, "now": now})


def _put_aside(kind: Kind, bad: dict[BacklogRecord, str], now: datetime) -> None:
    """Set records aside. They keep `closes_at`, which has passed: when they are ready again, no claim takes them, and
    this step looks at them again."""
    errors = {record: storable(SET_ASIDE + message, MAX_ERROR_LENGTH) for record, message in bad.items()}
    if errors:
        until = now + LOOK_AGAIN_AFTER
        _put_off(kind, [(record, until, record.closes_at, error) for record, error in errors.items()], now)
    news = [(record, error) for record, error in errors.items() if error != record.last_error]
    decisions.log_all(
        [decisions.DecisionLine("set aside", error, kind.name, record.subject) for record, error in news], now
    )


def _drop(kind: str, records: Sequence[BacklogRecord], now: datetime) -> None:
    drop([record.id for record in records], now)
    first, others = records[0].subject, len(records) - 1
    more = f" and {others} others" if others else ""
    decisions.log("dropped", f"{first}{more}: {WINDOW_CLOSED}", kind=kind, subject=first, now=now)


def drop(record_ids: list[int], now: datetime) -> None:
    """End these records, which are locked and idle, as failed: their window has closed."""
    BacklogRecord.objects.filter(pk__in=record_ids).end(Status.FAILED, now, last_error=WINDOW_CLOSED)
