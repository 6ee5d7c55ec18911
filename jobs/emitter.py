"""The tick: everything that time alone moves. Idempotent, and safe on any number of hosts at once.

    emit triggers → promote what is due → let trials of breakers through → close windows → rescue expired leases

Each step is a batched statement on its own partial index that skips what others hold locked. Every worker ticks once
a second by itself; django-q2 ticks every minute, for the case that no worker is alive to do it.
"""

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import connection, transaction
from django.utils import timezone

from jobs import breakers, claiming
from jobs.closing import close_windows
from jobs.database_errors import is_away, is_busy
from jobs.models import Schedule
from jobs.prepared import execute
from jobs.schedules import emission
from jobs.schedules.triggers import see_triggers, unreadable
from jobs.schedules.watermarks import can_emit
from jobs.states import Status
from jobs.wakeups import notify

log = logging.getLogger(__name__)

BATCH = 1000

EMIT_SECONDS = 0.5
"""Of a worker's tick: a huge batch is gone on with at its next one, after the claims."""
EMIT_SECONDS_OF_A_TICK_ALONE = 20.0
"""Where no worker is there to claim."""

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

# The heads of the partial indexes that the steps are served by, and one probe of `backlog_claim_order` a queue. In
# order, since with EXISTS the planner may read the whole table for a row that is not there.
LOOK = f"""
SELECT clock.now,
       EXISTS (
           SELECT
             FROM jobs_schedule
            WHERE enabled AND next_trigger_at IS NULL AND id <> ALL(%(unreadable)s::bigint[])),
       (SELECT min(next_trigger_at) FROM jobs_schedule WHERE enabled AND id <> ALL(%(unreadable)s::bigint[])),
       (SELECT bool_or(events > 0) FROM jobs_trigger WHERE emitted_at IS NULL AND finished_at IS NULL),
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
    ready one's window closes, a lease expires and a breaker lets something through, due or not; those of the queues
    asked for that hold ready records; when the next trigger is due; and whether triggers are unemitted. None: no.
    False: they have not begun, as in a queue. True: one is in the middle of its batch."""

    now: datetime
    trigger: bool
    run_after: datetime | None
    closes_at: datetime | None
    lease_expires_at: datetime | None
    probe_at: datetime | None
    ready: frozenset[str]
    next_trigger_at: datetime | None = None
    unemitted: bool | None = None

    def has_come(self, instant: datetime | None) -> bool:
        return instant is not None and instant <= self.now

    def seconds_until_next(self) -> float:
        """How long until the first waiting record may run or a trigger is due; infinity when neither lies ahead.

        0 when something is emitted just now: its first event may be due in a moment.
        """
        if self.trigger or self.unemitted:
            return 0.0
        ahead = [
            instant for instant in (self.run_after, self.next_trigger_at) if instant and not self.has_come(instant)
        ]
        return (min(ahead) - self.now).total_seconds() if ahead else float("inf")


@dataclass(frozen=True)
class Ticked:
    """What one tick moved: records emitted, promoted, put off to the next opening or dropped at it, and rescued."""

    emitted: int
    promoted: int
    closed: int
    rescued: int

    @property
    def anything(self) -> bool:
        return bool(self.emitted or self.promoted or self.closed or self.rescued)


def look(queues: Sequence[str] = (), now: datetime | None = None) -> Due:
    """Ask what is due at `now` (aware; the database's clock by default), in one query that changes nothing."""
    values = {"queues": list(queues), "now": now, "unreadable": unreadable(now or timezone.now())}
    instant, is_new, next_trigger_at, unemitted, run_after, closes_at, lease_expires_at, probe_at, ready = execute(
        LOOK, values
    ).fetchall()[0]
    trigger = is_new or (next_trigger_at is not None and next_trigger_at <= instant)
    return Due(
        instant, trigger, run_after, closes_at, lease_expires_at, probe_at, frozenset(ready), next_trigger_at, unemitted
    )


def tick(now: datetime | None = None, *, rescue: bool = True) -> Ticked:
    """Do everything that is due at `now` (aware; the database's clock by default), once."""
    return act_on(look(now=now), now=now, rescue=rescue, emit_for=EMIT_SECONDS_OF_A_TICK_ALONE)


def act_on(
    due: Due,
    *,
    now: datetime | None = None,
    rescue: bool = True,
    renewed: Collection[int] = (),
    emit_for: float = EMIT_SECONDS,
) -> Ticked:
    """Do what a look has found due. `now` replaces the database's clock for leases, in tests. `renewed`: ids whose
    leases the caller has renewed within a lease. `emit_for`: seconds after which the rest of what is to be emitted is
    left for the next tick."""

    def emit_for_a_while(instant: datetime) -> int:
        return emit_triggers(instant, emit_for)

    emitted = _or_complain(emit_for_a_while, due.now) if due.trigger or due.unemitted is not None else 0
    promoted = promote(due.now) if emitted or due.has_come(due.run_after) else 0
    promoted += breakers.look(due.now) if due.has_come(due.probe_at) else 0
    return Ticked(
        emitted=emitted,
        promoted=promoted,
        # what was promoted just now may be past its window
        closed=_or_complain(close_windows, due.now) if promoted or due.has_come(due.closes_at) else 0,
        rescued=claiming.rescue(renewed=renewed, as_of=due.now, now=now)
        if rescue and due.has_come(due.lease_expires_at)
        else 0,
    )


def _or_complain(step: Callable[[datetime], int], now: datetime) -> int:
    """Do a step that runs code of other apps; when that raises, the other steps must go on."""
    try:
        return step(now)
    except Exception as error:
        if is_away(error):
            raise
        if is_busy(error):
            log.warning("cannot %s, trying again at the next tick: %s", _told(step), str(error).strip())
        else:
            log.exception("cannot %s; trying again at the next tick", _told(step))
        return 0


def _told(step: Callable[[datetime], int]) -> str:
    return step.__name__.strip("_").replace("_", " ")


def emit_triggers(now: datetime, seconds: float = float("inf")) -> int:
    """Write down the triggers that have come, and put their batches on the backlog. Returns how many records.

    `jobs/schedules/` has the protocol. What is not done after some `seconds` is left for the next tick, here or on
    another host.
    """
    see_triggers(now, seconds=seconds)
    return emission.emit(now, seconds=seconds)


def correct_watermarks(now: datetime) -> int:
    """Bring back watermarks beyond the next trigger: of a clock that was set back since. Returns how many."""
    corrected = []
    with transaction.atomic():
        ahead = Schedule.objects.filter(enabled=True, next_trigger_at__gt=now)
        # what an emitter or an edit holds locked is being moved just now
        for schedule in ahead.select_for_update(skip_locked=True, no_key=True).order_by("pk"):
            emitted_up_to = schedule.next_trigger_at
            if emitted_up_to and can_emit(schedule) and (trigger_at := schedule.period.next_after(now)) < emitted_up_to:
                log.warning("schedule %s is emitted up to %s already: the clock was set back", schedule, emitted_up_to)
                schedule.next_trigger_at = trigger_at
                corrected.append(schedule)
        Schedule.objects.bulk_update(corrected, ["next_trigger_at"])
    return len(corrected)


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
