"""The emitter: a step of the tick that writes down the triggers that have come and puts their batches there.

    record_due_triggers    locks due schedules; writes their triggers, moves their watermarks          one transaction
    emit            locks a trigger and its schedule; puts the next few thousand of its events
                    on the backlog, notes in `events` how far it is                             one transaction each

`Trigger.events` is the place at which the next emitter goes on, so a batch of a million is a row of short transactions,
other batches come in between, and a killed emitter loses only its current chunk. Two never work at one schedule at the
same moment: what is locked is skipped. Behind that stand the unique indexes: one trigger per launch time, one record
per trigger and event.

A batch keeps to what it was begun with: its first chunk writes that down in the trigger (`events`).

What a provider yields is one chunk: the batches of any number of its triggers are one call and one transaction.
"""

import logging
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import chain, repeat
from typing import Any

from django.db import transaction
from django.db.models import Max, QuerySet

from jobs.clock import database_clock
from jobs.handlers import StepDue, TickStep
from jobs.prepared import execute
from jobs.set_aside import name_once
from schedules import batches
from schedules.chunks import emit_chunk, schedules_of, skip
from schedules.cron import Period
from schedules.events import Unemitted
from schedules.models import Schedule
from schedules.providers import emit_provided
from schedules.statements import EXPIRED_IN_QUEUE, WHAT_IS_UNEMITTED
from schedules.triggers import record_due_triggers, unreadable
from schedules.watermarks import ON_TIME_FOR

log = logging.getLogger(__name__)

A_MOMENT = timedelta(seconds=5)
"""Between a look at the clock and what others have done by it since."""

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
    """`goes_on`: triggers are unemitted, and one of them is in the middle of its batch; None: no trigger is."""
    is_new, next_trigger_at, goes_on = row
    has_come = bool(is_new or (next_trigger_at and next_trigger_at <= now))
    return StepDue(has_come or goes_on is not None, next_trigger_at, has_come or bool(goes_on))


def emit_triggers(now: datetime, seconds: float = float("inf")) -> int:
    """Write down the triggers that have come, and put their batches on the backlog. Returns how many records.

    What is not done after some `seconds` is left for the next tick, here or on
    another host.
    """
    until = time.monotonic() + seconds
    record_due_triggers(now, seconds=seconds / 2)
    return emit(now, seconds=until - time.monotonic())


def emit(now: datetime, only: Sequence[int] | None = None, seconds: float = float("inf")) -> int:
    """Put what is unemitted on the backlog, of all triggers or of these, for some `seconds`. Returns how many records.

    The next call, here or elsewhere, resumes what is left when the time is up.
    """
    until = time.monotonic() + seconds
    records = 0
    for is_first in chain([True], repeat(False)):
        provided, counted, queues = execute(WHAT_IS_UNEMITTED, {"only": only}).fetchall()[0]
        if is_first and queues:
            end_waits(now, queues)
        got_on = [emit_provided(now, only)] if provided else []
        got_on += [emit_chunk(now, only)] if counted else []
        records += sum(each.records for each in got_on)
        if not any(each.triggers for each in got_on) or time.monotonic() >= until:
            break
    return records


def end_waits(now: datetime, schedule_ids: Sequence[int]) -> None:
    """See whether what their queues wait for has ended, and end the wait of what has waited for too long."""
    batches.finish_ended(now, schedule_ids)
    values = {"schedule_ids": list(schedule_ids), "now": now, "on_time_for": ON_TIME_FOR}
    with transaction.atomic():
        # what is being emitted is locked
        expired = [Unemitted(*row) for row in execute(EXPIRED_IN_QUEUE, values).fetchall()]
        schedules = schedules_of(expired)
        reasons = {
            trigger: f"an earlier batch did not end within {schedules[trigger.schedule_id].catch_up_for} s"
            for trigger in expired
        }
        skip(reasons, schedules, now)


def correct_watermarks(now: datetime | None = None) -> int:
    """Once a minute: bring back watermarks beyond the next trigger: of a clock that was ahead. Returns how many.

    A schedule that has just triggered is beyond it, too, for who asked for the time a moment before.
    """
    instant = now or database_clock()
    ahead = Schedule.objects.filter(enabled=True, next_trigger_at__gt=instant)
    corrected = 0
    for cron, zone, furthest in ahead.order_by().values_list("cron", "zone").annotate(Max("next_trigger_at")):
        period = Period(cron, zone)
        try:
            *_, trigger_at = period.around(instant)
            soon = period.next_after(instant + A_MOMENT) if furthest > trigger_at else furthest
        except Exception as error:  # no database is asked: it cannot be read
            name_once(f"the watermarks of cron {cron!r} in {zone} are not looked at: {error}")
            continue
        if furthest > soon:
            corrected += _correct(ahead.filter(cron=cron, zone=zone, next_trigger_at__gt=soon), trigger_at)
    return corrected


@transaction.atomic
def _correct(schedules: QuerySet[Schedule], trigger_at: datetime) -> int:
    # what an emitter or an edit holds locked is being moved just now
    locked = list(schedules.select_for_update(skip_locked=True, no_key=True).order_by("pk"))
    for schedule in locked:
        emitted_up_to = schedule.next_trigger_at
        log.warning("schedule %s is emitted up to %s already: the clock was set back", schedule, emitted_up_to)
    return Schedule.objects.filter(pk__in=[each.pk for each in locked]).update(next_trigger_at=trigger_at)


EMIT = TickStep("emit triggers", COLUMNS, lambda now: {"unreadable": unreadable(now)}, _found, emit_triggers)
