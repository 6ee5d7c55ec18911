"""The emitter: a step of the tick that writes down the triggers that have come and puts their batches there."""

import logging
import time
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Max, QuerySet

from jobs.handlers import StepDue, TickStep
from jobs.set_aside import name_once
from schedules import emission
from schedules.cron import Period
from schedules.models import Schedule
from schedules.triggers import record_due_triggers, unreadable

log = logging.getLogger(__name__)

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

    `schedules/` has the protocol. What is not done after some `seconds` is left for the next tick, here or on
    another host.
    """
    until = time.monotonic() + seconds
    record_due_triggers(now, seconds=seconds / 2)
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


EMIT = TickStep("emit triggers", COLUMNS, lambda now: {"unreadable": unreadable(now)}, _found, emit_triggers)
