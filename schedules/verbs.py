"""The verbs of a schedule, for users. Each is one transaction, except long cancels."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from django.db import transaction

from jobs import decisions
from jobs.backlog.cancelling import cancel
from jobs.backlog.pausing import checked_end, checked_reason
from jobs.backlog.rows import in_batches
from jobs.clock import database_clock
from jobs.models import BacklogRecord
from schedules import batches, emitter
from schedules.models import Schedule, Trigger
from schedules.triggers import busy_ones, reason_to_skip
from schedules.watermarks import can_emit

WATERMARK_FOLLOWS = {"cron", "zone", "enabled"}
"""Fields that begin a new count of triggers when they change."""

PAUSED = "the schedule was paused before it could be emitted"
CANCELLED = "it was cancelled before it could be emitted"


def trigger_now(schedule: Schedule, asked_by: str, now: datetime | None = None) -> Trigger:
    """Let `schedule` fire at `now` (by default the database's clock), cut to the second, also while it is paused.

    Its overlap policy holds: the trigger that comes back may be queued (neither emitted nor skipped), or skipped with
    the reason in `skipped_for`. The first thousands of a huge batch are on the backlog then; workers emit the rest.

    Raises: ValueError when it has a trigger in this very second, or belongs to something that is triggered as a whole.
    """
    from schedules.obstacles import obstacle_to_triggering  # pydantic comes with it

    if obstacle := obstacle_to_triggering(schedule):
        raise ValueError(obstacle)
    instant = now or database_clock()
    trigger_at = instant.replace(microsecond=0)
    with _locked(schedule):
        if schedule.enabled and can_emit(schedule) and schedule.period.current(instant) == trigger_at:
            raise ValueError(f"{schedule} triggers by itself in this very second; try again in the next")
        reason = reason_to_skip(schedule, busy_ones([schedule], instant))
        trigger, is_new = Trigger.objects.get_or_create(
            schedule=schedule,
            trigger_at=trigger_at,
            defaults={
                "seen_at": instant,
                "asked_by": asked_by,
                "skipped_for": reason,
                "finished_at": instant if reason else None,
            },
        )
        if not is_new:
            raise ValueError(f"{schedule} has a trigger at {trigger_at:%H:%M:%S} UTC already; try again in a second")
        text = f"triggered by {asked_by}" + (f", but emitted nothing: {reason}" if reason else "")
        decisions.log_all([batches.line(schedule, "triggered", trigger_at, text)], instant)
    emitter.emit(instant, [trigger.pk], seconds=0)
    trigger.refresh_from_db()
    return trigger


def pause(schedule: Schedule, now: datetime | None = None, *, until: datetime | None = None, reason: str = "") -> bool:
    """Stop the triggers of a schedule until it is resumed, or until the instant `until`. Those that wait in its queue
    emit nothing; batches that have begun continue.

    Pausing again replaces reason and end, if new ones are given. Returns whether that changed anything. Raises:
    ValueError for a reason of more than 200 characters, or an `until` that is over. A policy's backups stay on the
    backlog: `sources.planning` has the other effects of pausing one.
    """
    instant = now or database_clock()
    given = {"paused_until": checked_end(until, instant), "paused_why": checked_reason(reason)}
    with _locked(schedule) as row:
        if row.enabled:
            _switch(schedule, False, instant)
        differs = {name: value for name, value in given.items() if value and value != getattr(row, name)}
        if differs:
            Schedule.objects.filter(pk=schedule.pk).update(**differs)
    return row.enabled or bool(differs)


def resume(schedule: Schedule, now: datetime | None = None) -> bool:
    """Triggers again from now on. Those missed in between are not caught up; a policy emits the present period.
    Returns whether it was paused."""
    with _locked(schedule) as row:
        if not row.enabled:
            _switch(schedule, True, now)
    return not row.enabled


def resume_those_over(now: datetime | None = None) -> int:
    """Resume the schedules whose pause had an end, once it has come. Returns how many."""
    instant, resumed = now or database_clock(), 0
    for schedule in Schedule.objects.filter(enabled=False, paused_until__lte=instant):
        with _locked(schedule) as row:  # it may be paused for longer by now
            if not row.enabled and row.paused_until and row.paused_until <= instant:
                _switch(schedule, True, instant)
                resumed += 1
    return resumed


def _switch(schedule: Schedule, enabled: bool, now: datetime | None) -> None:
    Schedule.objects.filter(pk=schedule.pk).update(enabled=enabled)
    schedule.enabled = enabled
    saved(schedule, {"enabled"}, now)


def saved(schedule: Schedule, changed: set[str] | None, now: datetime | None = None) -> None:
    """Update a schedule after a save, given the names of the fields that changed. None if it is new, or they are not
    known.

    A new event schedule begins with its next trigger, and so does one whose cron, zone or `enabled` changed. A policy
    begins with the period that runs. If `enabled` changed, an earlier pause loses its end and reason.
    """
    if changed is not None and not changed & WATERMARK_FOLLOWS:
        return
    instant = now or database_clock()
    with _locked(schedule):
        if changed is None or "enabled" in changed:
            Schedule.objects.filter(pk=schedule.pk).update(paused_until=None, paused_why="")
        if schedule.enabled:
            _set_watermark(schedule, instant)
        else:
            _skip_queued(schedule, instant)


def cancel_batch(trigger: Trigger, now: datetime | None = None) -> int:
    """Take the unfinished records of a batch off the backlog, and emit no more of it. Returns the number of records.

    A record that runs is asked to stop, and counts. A batch of thousands is cancelled in several transactions, so that
    no worker waits for long; a repeated call cancels the rest of one that was interrupted.
    """
    instant = now or database_clock()
    with _locked(trigger.schedule):
        found = Trigger.objects.select_for_update(no_key=True).get(pk=trigger.pk)
        if found.emitted_at is None and found.finished_at is None:
            _end(found, instant)
    of_batch = BacklogRecord.objects.filter(origin=trigger.schedule_id, trigger_at=trigger.trigger_at)
    cancelled = 0
    for ids in in_batches(of_batch.unfinished().values_list("pk", flat=True)):
        result = cancel(ids, now=instant)
        cancelled += len(result.cancelled) + len(result.stopping)
    batches.finish_ended(instant, [trigger.schedule_id])
    trigger.refresh_from_db()
    return cancelled


def _end(trigger: Trigger, now: datetime) -> None:
    """Emit no more of a trigger. If it has begun, the events that are there are its batch."""
    if trigger.events:
        trigger.emitted_at = now
    else:
        trigger.skipped_for, trigger.finished_at = CANCELLED, now
    trigger.frozen_config = None
    trigger.save(update_fields=["emitted_at", "skipped_for", "finished_at", "frozen_config"])


def _skip_queued(schedule: Schedule, now: datetime) -> None:
    queued = Trigger.objects.filter(schedule=schedule, finished_at=None, emitted_at=None, events=0)
    queued.update(skipped_for=PAUSED, finished_at=now)


def _set_watermark(schedule: Schedule, now: datetime) -> None:
    if schedule.provider:
        schedule.next_trigger_at = None
    elif can_emit(schedule):
        schedule.next_trigger_at = schedule.period.next_after(now)
    Schedule.objects.filter(pk=schedule.pk).update(next_trigger_at=schedule.next_trigger_at)


@contextmanager
def _locked(schedule: Schedule) -> Iterator[Schedule]:
    """The row of `schedule` as it is now, locked as emitters lock it, which pass it by or have ended before."""
    with transaction.atomic():
        yield Schedule.objects.select_for_update(no_key=True).get(pk=schedule.pk)
