"""The tick: everything that time alone moves. Idempotent, and safe on any number of hosts at once.

    emit triggers → promote what is due → let trials of breakers through → close windows → rescue expired leases

Each step is a batched statement on its own partial index that skips what others hold locked. Every worker ticks once
a second by itself; django-q2 ticks every minute, for the case that no worker is alive to do it.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import connection, transaction
from django.db.models import Q
from django.db.utils import InterfaceError, OperationalError

from jobs import breakers, claiming, exclusivity
from jobs.cron import check_expression, check_zone
from jobs.handlers import registry
from jobs.models import Schedule
from jobs.prepared import execute
from jobs.states import Status, WaitingFor
from jobs.wakeups import notify

log = logging.getLogger(__name__)

BATCH = 1000

# Served by `backlog_waiting_until`. The key of a gate that it waited behind is dropped: it asks again.
PROMOTE = f"""
UPDATE jobs_backlogrecord
   SET status = {Status.READY}, waiting_for = NULL, breaker_id = NULL, exclusive_key = NULL
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


# The heads of the partial indexes that the steps are served by, and one probe of `backlog_claim_order` a queue. In
# order, since with EXISTS the planner may read the whole table for a row that is not there.
LOOK = f"""
SELECT clock.now,
       EXISTS (
           SELECT
             FROM jobs_schedule
            WHERE enabled AND (next_trigger_at <= clock.now OR next_trigger_at IS NULL)),
       (SELECT run_after
          FROM jobs_backlogrecord
         WHERE status = {Status.WAITING}
         ORDER BY run_after
         LIMIT 1),
       (SELECT closes_at
          FROM jobs_backlogrecord
         WHERE status = {Status.READY} AND closes_at IS NOT NULL
         ORDER BY closes_at
         LIMIT 1),
       (SELECT lease_expires_at
          FROM jobs_backlogrecord
         WHERE status = {Status.RUNNING}
         ORDER BY lease_expires_at
         LIMIT 1),
       (SELECT min(probe_at) FROM jobs_breaker),
       ARRAY(
           SELECT asked.name
             FROM unnest(%(queues)s::text[]) AS asked(name)
            CROSS JOIN LATERAL (
                  SELECT
                    FROM jobs_backlogrecord
                   WHERE status = {Status.READY} AND queue = asked.name
                   ORDER BY lane
                   LIMIT 1) AS first)
  FROM (SELECT COALESCE(%(now)s::timestamptz, clock_timestamp()) AS now) AS clock
"""


@dataclass(frozen=True)
class Due:
    """What a look found at `now`: whether a trigger is due; the first instant at which a waiting record may run, a
    ready one's window closes, a lease expires and a breaker lets something through, due or not; and those of the queues
    asked for that hold ready records."""

    now: datetime
    trigger: bool
    run_after: datetime | None
    closes_at: datetime | None
    lease_expires_at: datetime | None
    probe_at: datetime | None
    ready: frozenset[str]

    def has_come(self, instant: datetime | None) -> bool:
        return instant is not None and instant <= self.now

    def seconds_until_next(self) -> float:
        """How long until the first waiting record may run; infinity when none waits, or it may run already."""
        if self.run_after is None or self.has_come(self.run_after):
            return float("inf")
        return (self.run_after - self.now).total_seconds()


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


def look(queues: Sequence[str] = (), now: datetime | None = None) -> Due:
    """Ask what is due at `now` (aware; the database's clock by default), in one query that changes nothing."""
    instant, trigger, run_after, closes_at, lease_expires_at, probe_at, ready = execute(
        LOOK, {"queues": list(queues), "now": now}
    ).fetchall()[0]
    return Due(instant, trigger, run_after, closes_at, lease_expires_at, probe_at, frozenset(ready))


def tick(now: datetime | None = None, *, rescue: bool = True) -> Ticked:
    """Do everything that is due at `now` (aware; the database's clock by default), once."""
    return act_on(look(now=now), now=now, rescue=rescue)


def act_on(due: Due, *, now: datetime | None = None, rescue: bool = True) -> Ticked:
    """Do what a look has found due. `now` replaces the database's clock for leases, in tests."""
    emitted = _or_complain(emit_triggers, due.now) if due.trigger else 0
    promoted = promote(due.now) if emitted or due.has_come(due.run_after) else 0
    promoted += breakers.look(due.now) if due.has_come(due.probe_at) else 0
    return Ticked(
        emitted=emitted,
        promoted=promoted,
        # what was promoted just now may be past its window
        closed=_or_complain(close_windows, due.now) if promoted or due.has_come(due.closes_at) else 0,
        rescued=claiming.rescue(now=now) if rescue and due.has_come(due.lease_expires_at) else 0,
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


def correct_watermarks(now: datetime) -> int:
    """Bring back watermarks beyond the next trigger: of a clock that was set back since. Returns how many."""
    corrected = []
    for schedule in Schedule.objects.filter(enabled=True, next_trigger_at__gt=now):
        emitted_up_to = schedule.next_trigger_at
        if emitted_up_to and can_emit(schedule) and (trigger_at := schedule.period.next_after(now)) < emitted_up_to:
            log.warning("schedule %s is emitted up to %s already: the clock was set back", schedule, emitted_up_to)
            schedule.next_trigger_at = trigger_at
            corrected.append(schedule)
    Schedule.objects.bulk_update(corrected, ["next_trigger_at"])
    return len(corrected)


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
        exclusivity.give_back([key for *_, key in rows], now)
        for record_id, kind, subject, _ in rows:
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
