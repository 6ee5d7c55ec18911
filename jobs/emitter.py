"""The tick: everything that time alone moves. Idempotent, and safe on any number of hosts at once.

    emit triggers → promote what is due → close windows → rescue expired leases

Each step is a batched statement on its own partial index that skips what others hold locked. Every worker ticks once
a second by itself; django-q2 ticks every minute, for the case that no worker is alive to do it.
"""

import logging
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from django.db import connection, transaction
from django.db.models import Q
from django.db.utils import InterfaceError, OperationalError

from jobs import claiming
from jobs.clock import database_clock
from jobs.cron import check_expression, check_zone
from jobs.handlers import registry
from jobs.models import Schedule
from jobs.states import Status, WaitingFor
from jobs.wakeups import notify

log = logging.getLogger(__name__)

BATCH = 1000

# Served by `backlog_waiting_until`. The key of a gate that it waited behind is dropped: it asks again.
PROMOTE = f"""
UPDATE jobs_backlogrecord
   SET status = {Status.READY}, waiting_for = NULL, exclusive_key = NULL
 WHERE ctid = ANY(ARRAY(
       SELECT ctid
         FROM jobs_backlogrecord
        WHERE status = {Status.WAITING} AND run_after <= %(now)s
        ORDER BY run_after
        LIMIT {BATCH}
          FOR UPDATE SKIP LOCKED))
RETURNING queue
"""

# Served by `backlog_ready_closes`.
CLOSED = f"""
SELECT id, kind, subject
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


@dataclass(frozen=True)
class Ticked:
    """What one tick moved: records emitted, promoted, put off to the next opening, and rescued."""

    emitted: int
    promoted: int
    closed: int
    rescued: int

    @property
    def anything(self) -> bool:
        return bool(self.emitted or self.promoted or self.closed or self.rescued)


def tick(now: datetime | None = None, *, rescue: bool = True) -> Ticked:
    """Do everything that is due at `now` (aware; the database's clock by default), once."""
    instant = now or database_clock()
    return Ticked(
        emitted=_or_complain(emit_triggers, instant),
        promoted=promote(instant),
        closed=_or_complain(close_windows, instant),
        rescued=claiming.rescue(now=now) if rescue else 0,
    )


def _or_complain(step: Callable[[datetime], int], now: datetime) -> int:
    """Do a step that runs code of other apps; when that raises, the other steps must go on."""
    try:
        return step(now)
    except (OperationalError, InterfaceError):
        raise
    except Exception:
        log.exception("cannot %s; trying again at the next tick", step.__name__.replace("_", " "))
        return 0


def emit_triggers(now: datetime) -> int:
    """Emit the batches of the schedules whose trigger has come. Returns how many records.

    After downtime only the last trigger is emitted: one catch-up, not many. The watermark moves in the same
    transaction, so a killed emitter leaves either both or nothing.
    """
    due = Schedule.objects.filter(Q(next_trigger_at__lte=now) | Q(next_trigger_at=None), enabled=True)
    if not due.exists():
        return 0
    with transaction.atomic():
        by_provider: dict[str, list[tuple[Schedule, datetime]]] = defaultdict(list)
        # no_key: FOR UPDATE would block the foreign-key check of another emitter's insert, which may block ours
        schedules = list(due.select_for_update(skip_locked=True, no_key=True).order_by("pk"))
        for schedule in filter(can_emit, schedules):
            by_provider[schedule.provider].append((schedule, schedule.period.current(now)))
            schedule.next_trigger_at = schedule.period.next_after(now)
        Schedule.objects.bulk_update(schedules, ["next_trigger_at"])
        return sum(_emit(provider, triggers, now) for provider, triggers in by_provider.items())


def can_emit(schedule: Schedule) -> bool:
    """Whether its cron and zone are valid: rows written past the forms must not stop the others."""
    try:
        check_expression(schedule.cron)
        check_zone(schedule.zone)
    except ValueError as error:
        log.error("schedule %s emits nothing: %s", schedule, error)
        return False
    return True


def _emit(provider: str, triggers: list[tuple[Schedule, datetime]], now: datetime) -> int:
    if provider not in registry.providers:
        log.error("no provider %r for schedule %s: is its app installed here?", provider, triggers[0][0])
        return 0
    return registry.providers[provider](triggers, now)


def promote(now: datetime) -> int:
    """Move waiting records whose time has come to ready. Returns how many."""
    moved = 0
    while True:
        with connection.cursor() as cursor:
            cursor.execute(PROMOTE, {"now": now})
            queues = [row[0] for row in cursor.fetchall()]
        for queue in set(queues):
            notify(queue)
        moved += len(queues)
        if len(queues) < BATCH:
            return moved


def close_windows(now: datetime) -> int:
    """Put ready records whose window has closed off to its next opening. Returns how many."""
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
        for record_id, kind, subject in rows:
            by_kind[kind].append((record_id, subject))
        for name, records in by_kind.items():
            kind = registry.kind(name)
            openings = kind.next_opening(records, now) if kind.next_opening else {}
            # a kind without windows: nothing closes
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
