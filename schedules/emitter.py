"""The emitter: a step of the tick that records the triggers that are due and puts their batches on the backlog.

    record_due_triggers   locks due schedules, writes their triggers, moves their watermarks       one transaction
    emit                  locks triggers with their schedules, puts the records of some on the     one transaction each
                          backlog, and stores in `Trigger.events` how far each is

`chunks` makes the records of events, a few thousand at a time; a provider makes those of all its triggers in one call.
Both go through `_emit_some`.

The next emitter continues at `Trigger.events`, so a batch of a million is a series of short transactions, other batches
come in between, and a killed emitter loses only its current chunk. Two emitters never work on one schedule at the same
moment: locked rows are skipped. The backstop is two unique indexes: one trigger per launch time, one record per trigger
and event.

A batch keeps the configuration with which it was begun: its first chunk stores that in the trigger (`events`).
"""

import logging
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from itertools import chain, repeat
from typing import Any

from django.db import transaction
from django.db.models import Max, QuerySet

from jobs.clock import database_clock
from jobs.database_errors import DatabaseTrouble, trouble_of
from jobs.handlers import StepDue, TickStep
from jobs.prepared_statements import execute
from jobs.set_aside import name_once
from jobs.wakeups import notify
from schedules import batches, chunks, providers
from schedules.cron import Period
from schedules.models import Schedule
from schedules.statements import EXPIRED_IN_QUEUE, WHAT_IS_UNEMITTED
from schedules.triggers import record_due_triggers, unreadable
from schedules.unemitted_triggers import Emission, UnemittedTrigger, locked, schedules_of, skip, store
from schedules.watermarks import ON_TIME_FOR

log = logging.getLogger(__name__)

Put = Callable[[Sequence[UnemittedTrigger], dict[int, Schedule], datetime], Emission]

A_MOMENT = timedelta(seconds=5)
"""The time between a look at the clock and the work of another process by that clock."""

# The heads of `schedule_due` and `trigger_unfinished`.
COLUMNS = (
    """EXISTS (
           SELECT
             FROM schedules_schedule
            WHERE enabled AND next_trigger_at IS NULL AND origin_id <> ALL(%(unreadable)s::bigint[]))""",
    """(SELECT min(next_trigger_at)
          FROM schedules_schedule
         WHERE enabled AND origin_id <> ALL(%(unreadable)s::bigint[]))""",
    "(SELECT bool_or(events > 0) FROM schedules_trigger WHERE emitted_at IS NULL AND finished_at IS NULL)",
)


def _found(now: datetime, row: tuple[Any, ...]) -> StepDue:
    """The due work of a row. `has_begun`: some trigger is in the middle of its batch, None if no trigger
    is unemitted.
    """
    is_new, next_trigger_at, has_begun = row
    has_come = bool(is_new or (next_trigger_at and next_trigger_at <= now))
    return StepDue(has_come or has_begun is not None, next_trigger_at, has_come or bool(has_begun))


def emit_triggers(now: datetime, seconds: float = float("inf")) -> int:
    """Record the triggers that are due, and put their batches on the backlog, for some `seconds`. Returns the number of
    records. The rest is left to the next tick, here or on another host."""
    until = time.monotonic() + seconds
    record_due_triggers(now, seconds=seconds / 2)
    return emit(now, seconds=until - time.monotonic())


def emit(now: datetime, only: Sequence[int] | None = None, seconds: float = float("inf")) -> int:
    """Put unemitted triggers on the backlog, all of them or `only` these, for some `seconds`. Returns the number of
    records.

    The next call, here or elsewhere, resumes with the rest when the time is up.
    """
    until = time.monotonic() + seconds
    records = 0
    for is_first in chain([True], repeat(False)):
        provided, counted, queues = execute(WHAT_IS_UNEMITTED, {"only": only}).fetchall()[0]
        if is_first and queues:
            end_waits(now, queues)
        emissions = [_emit_batches(now, only)] if provided else []
        emissions += [_emit_events(now, only)] if counted else []
        records += sum(each.records for each in emissions)
        if not any(each.triggers for each in emissions) or time.monotonic() >= until:
            break
    return records


def _emit_batches(now: datetime, only: Sequence[int] | None) -> Emission:
    return _emit_some(now, only, providers.put_batches, providers.PROVIDED_AT_ONCE, provided=True)


def _emit_events(now: datetime, only: Sequence[int] | None) -> Emission:
    try:
        return _emit_some(now, only, chunks.put_events, chunks.TRIGGERS_A_CHUNK, provided=False)
    except Exception as error:
        if trouble_of(error) is not DatabaseTrouble.OURS:
            raise
        name_once(f"cannot emit several triggers at once; each by itself: {error}", error)
    # one unusable row, written outside of the forms, must not stop the others
    return _emit_some(now, only, chunks.put_or_skip, 1, provided=False)


def _emit_some(now: datetime, only: Sequence[int] | None, put: Put, limit: int, *, provided: bool) -> Emission:
    """The one door by which records leave for the backlog: up to `limit` triggers are locked, `put` puts records there
    for them, and the triggers' rows store how far they are, in one transaction."""
    with transaction.atomic():
        found, schedules = locked(only, limit, now, provided=provided)
        emission = put(found, schedules, now)
        store(emission, schedules, now)
        for queue in emission.queues:
            notify(queue)
    return emission


def end_waits(now: datetime, schedule_ids: Sequence[int]) -> None:
    """Finish batches of these schedules that have ended, for which later triggers wait, and skip triggers that have
    waited for too long."""
    batches.finish_ended(now, schedule_ids)
    values = {"schedule_ids": list(schedule_ids), "now": now, "on_time_for": ON_TIME_FOR}
    with transaction.atomic():
        # triggers that are being emitted are locked
        expired = [UnemittedTrigger(*row) for row in execute(EXPIRED_IN_QUEUE, values).fetchall()]
        schedules = schedules_of(expired)
        reasons = {
            trigger: f"an earlier batch did not end within {schedules[trigger.schedule_id].catch_up_for} s"
            for trigger in expired
        }
        skip(reasons, schedules, now)


def correct_watermarks(now: datetime | None = None) -> int:
    """Once a minute: bring back watermarks beyond the next trigger, which a clock that was ahead has left. Returns how
    many.

    A schedule that has just triggered is beyond it, too, for a process that asked for the time a moment before.
    """
    instant = now or database_clock()
    ahead = Schedule.objects.filter(enabled=True, next_trigger_at__gt=instant)
    corrected = 0
    for cron, zone, furthest in ahead.order_by().values_list("cron", "zone").annotate(Max("next_trigger_at")):
        period = Period(cron, zone)
        try:
            *_, trigger_at = period.around(instant)
            soon = period.next_after(instant + A_MOMENT) if furthest > trigger_at else furthest
        except Exception as error:  # nothing above asks the database: the cron cannot be read
            name_once(f"cron {cron!r} in {zone} cannot be read, so its watermarks are not checked: {error}")
            continue
        if furthest > soon:
            corrected += _correct(ahead.filter(cron=cron, zone=zone, next_trigger_at__gt=soon), trigger_at)
    return corrected


@transaction.atomic
def _correct(schedules: QuerySet[Schedule], trigger_at: datetime) -> int:
    # triggers that an emitter or an edit holds locked are being moved just now
    locked = list(schedules.select_for_update(skip_locked=True, no_key=True).order_by("pk"))
    for schedule in locked:
        emitted_up_to = schedule.next_trigger_at
        log.warning("schedule %s is emitted up to %s already: the clock was set back", schedule, emitted_up_to)
    return Schedule.objects.filter(pk__in=[each.pk for each in locked]).update(next_trigger_at=trigger_at)


EMIT = TickStep("emit triggers", COLUMNS, lambda now: {"unreadable": unreadable(now)}, _found, emit_triggers)
