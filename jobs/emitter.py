"""The tick: everything that time alone moves. Idempotent, and safe on any number of hosts at once.

    emit triggers → promote what is due → let trials of breakers through → close windows → rescue expired leases

Each step is a batched statement on its own partial index that skips what others hold locked. Every worker ticks once
a second by itself; django-q2 ticks every minute, for the case that no worker is alive to do it.
"""

import logging
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import connection, transaction
from django.db.models import Max, QuerySet
from django.utils import timezone

from jobs import breakers, claiming
from jobs.closing import close_windows
from jobs.cron import Period
from jobs.database_errors import Trouble, trouble_of
from jobs.models import Schedule
from jobs.prepared import execute
from jobs.schedules import emission
from jobs.schedules.triggers import see_triggers, unreadable
from jobs.set_aside import name_once
from jobs.states import Status
from jobs.wakeups import notify

log = logging.getLogger(__name__)

BATCH = 1000

EMIT_SECONDS = 0.5
"""Of a worker's tick: a huge batch is continued at its next one, after the claims."""
EMIT_SECONDS_OF_A_TICK_ALONE = 20.0
"""Where no worker is there to claim."""
MOVE_SECONDS = 0.1
"""Of a worker's tick, for each other step: promoting a million records that are due at once takes ten seconds."""

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
    unchanged: Collection[claiming.Lease] | None = None,
    emit_for: float = EMIT_SECONDS,
) -> Ticked:
    """Do what a look has found due. `now` replaces the database's clock for leases, in tests. `unchanged`: what may be
    rescued (`claiming.rescue`). `emit_for`: seconds after which the rest of what is to be emitted is left for the next
    tick."""

    move_for = emit_for * MOVE_SECONDS / EMIT_SECONDS

    def done(what: str, step: Callable[[], int], if_due: object) -> int:
        return _or_complain(what, step) if if_due else 0

    def rescue_others() -> int:
        return claiming.rescue(unchanged=unchanged, now=now)

    emitted = done("emit triggers", lambda: emit_triggers(due.now, emit_for), due.trigger or due.unemitted is not None)
    promoted = done("promote", lambda: promote(due.now, move_for), emitted or due.has_come(due.run_after))
    promoted += done("let trials through", lambda: breakers.look(due.now, move_for), due.has_come(due.probe_at))
    # what was promoted just now may be past its window
    closed = done("close windows", lambda: close_windows(due.now, move_for), promoted or due.has_come(due.closes_at))
    rescued = done("rescue", rescue_others, rescue and due.has_come(due.lease_expires_at))
    return Ticked(emitted, promoted, closed, rescued)


def _or_complain(what: str, step: Callable[[], int]) -> int:
    """Do a step; when it raises, the other steps must go on. Raises: django.db.Error when the database is away."""
    try:
        return step()
    except Exception as error:
        trouble = trouble_of(error)
        if trouble is Trouble.AWAY:
            raise
        if trouble is Trouble.BUSY:
            log.warning("cannot %s, trying again at the next tick: %s", what, str(error).strip())
        else:
            log.exception("cannot %s; trying again at the next tick", what)
        return 0


def emit_triggers(now: datetime, seconds: float = float("inf")) -> int:
    """Write down the triggers that have come, and put their batches on the backlog. Returns how many records.

    `jobs/schedules/` has the protocol. What is not done after some `seconds` is left for the next tick, here or on
    another host.
    """
    until = time.monotonic() + seconds
    see_triggers(now, seconds=seconds / 2)
    return emission.emit(now, seconds=until - time.monotonic())


def correct_watermarks(now: datetime) -> int:
    """Bring back watermarks beyond the next trigger: of a clock that was set back since. Returns how many."""
    ahead = Schedule.objects.filter(enabled=True, next_trigger_at__gt=now)
    corrected = 0
    for cron, zone, furthest in ahead.order_by().values_list("cron", "zone").annotate(Max("next_trigger_at")):
        try:
            trigger_at = Period(cron, zone).next_after(now)
        except Exception as error:  # no database is asked: it cannot be read
            name_once(f"the watermarks of cron {cron!r} in {zone} are not looked at: {error}")
            continue
        if furthest > trigger_at:
            corrected += _correct(ahead.filter(cron=cron, zone=zone, next_trigger_at__gt=trigger_at), trigger_at)
    return corrected


@transaction.atomic
def _correct(schedules: QuerySet[Schedule], trigger_at: datetime) -> int:
    # what an emitter or an edit holds locked is being moved just now
    locked = list(schedules.select_for_update(skip_locked=True, no_key=True).order_by("pk"))
    for schedule in locked:
        emitted_up_to = schedule.next_trigger_at
        log.warning("schedule %s is emitted up to %s already: the clock was set back", schedule, emitted_up_to)
    return Schedule.objects.filter(pk__in=[each.pk for each in locked]).update(next_trigger_at=trigger_at)


def promote(now: datetime, seconds: float = MOVE_SECONDS) -> int:
    """Move waiting records whose time has come to ready, for some `seconds`. Returns how many."""
    until = time.monotonic() + seconds
    moved = 0
    while True:
        with connection.cursor() as cursor:
            cursor.execute(PROMOTE, {"now": now})
            queues = [row[0] for row in cursor.fetchall()]
        for queue in set(queues):
            notify(queue)
        moved += len(queues)
        if len(queues) < BATCH or time.monotonic() >= until:
            return moved
