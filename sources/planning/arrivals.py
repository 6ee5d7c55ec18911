"""A source checks in: what waited for its answer stands at its true place at once, and a worker is told.

A check-in ends only a wait for a re-check, never a backoff, a snooze or a closed window. The check-in's facts
(`Source.checked_in_at`) are committed first; then the records are locked. A settle that finds the source silent holds
its record's lock and looks at `checked_in_at` last, so whichever comes second sees the other: silence that is settled
after a check-in neither demotes nor waits.
"""

from datetime import datetime

from django.db import transaction
from django.db.models import F

from jobs.clock import database_clock
from jobs.models import BacklogRecord
from jobs.order import keeps_its_place
from jobs.outcomes import FIRST_IN_LINE, Claimed
from jobs.states import Status, WaitingFor
from jobs.wakeups import notify_at_once
from sources.conditions import unwilling
from sources.models import Assignment, Source
from sources.planning.emission import emit_due
from sources.planning.names import AVAILABILITY, KIND, subject_of


@transaction.atomic
def check_in(source: Source, now: datetime | None = None) -> int:
    """Move the due records of a source that says it is here to their true places. Returns how many moved.

    What is due and not on the backlog yet is emitted. What was lost in mid-backup comes first in line. To be called
    when the facts of the check-in are committed.
    """
    instant = now or database_clock()
    related = Assignment.objects.active().filter(source=source.pk).select_related("source", "policy__schedule")
    willing = {subject_of(a.pk): a for a in related if not unwilling(a.source, a.policy, instant)}
    unfinished = BacklogRecord.objects.filter(kind=KIND, subject__in=willing).unfinished()
    moved = 0
    for record in unfinished.select_for_update().order_by("pk"):
        moved += _arrived(record, willing.pop(record.subject), instant)
    if absent := [a.pk for a in willing.values() if a.is_due(instant)]:
        moved += emit_due(instant, absent)
    if moved:
        notify_at_once(AVAILABILITY)
    return moved


def _arrived(record: BacklogRecord, assignment: Assignment, now: datetime) -> bool:
    """Whether the record waited for the source, or stood further back than it should, and was moved."""
    rechecks = record.status == Status.WAITING and record.waiting_for == WaitingFor.RECHECK
    may_move = assignment.vanished_at is not None or not keeps_its_place(record.failures)
    stands_back = record.status == Status.READY and record.queue == AVAILABILITY and record.tried_at is not None
    stands_back = stands_back and may_move
    if not (rechecks or stands_back):
        return False
    record.status, record.waiting_for = Status.READY, None
    if rechecks:
        record.run_after = now
    if not keeps_its_place(record.failures):
        record.rank_day, record.tried_at = record.due_day, None
    if assignment.vanished_at and record.priority < FIRST_IN_LINE // 2:
        record.priority += FIRST_IN_LINE
    record.save()
    return True


def has_checked_in_since(source_id: int, record: Claimed, since: datetime, now: datetime) -> bool:
    """After a settle found the source of `record` silent from `since` on: if it checked in meanwhile, undo the wait.

    An agent announces itself after the change of network that broke a copy, too.
    Runs in the settle's transaction. Returns whether it did.
    """
    if not Source.objects.filter(pk=source_id, checked_in_at__gte=max(since, record.started_at)).exists():
        return False
    stays = keeps_its_place(record.failures)
    place = {"rank_day": record.rank_day if stays else record.due_day, "tried_at": record.tried_at if stays else None}
    waiting = BacklogRecord.objects.filter(pk=record.id, status=Status.WAITING, waiting_for=WaitingFor.RECHECK)
    if not waiting.update(status=Status.READY, waiting_for=None, run_after=now, **place):
        return False
    if record.queue != AVAILABILITY:  # lost in mid-backup: first in line
        lost = BacklogRecord.objects.filter(pk=record.id, priority__lt=FIRST_IN_LINE // 2)
        lost.update(priority=F("priority") + FIRST_IN_LINE)
    notify_at_once(AVAILABILITY)
    return True
