"""Requests of operators and users about sources: back up now, pause, resume.

A user pauses a source by its agent, as a *snooze*, always until an instant. Operators take precedence: an operator's
pause stays if a user asks for another one, replaces the user's, and is not ended by the user.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from jobs import decisions, exclusivity
from jobs.backlog import cancelling, pausing
from jobs.clock import database_clock
from jobs.models import BacklogRecord
from jobs.states import FINISHED, Status
from jobs.wakeups import notify_at_once
from sources.domain.due import due_day
from sources.models import Assignment, Pause, Source
from sources.planning.emission import emit_due
from sources.planning.names import (
    AVAILABILITY,
    BACK_UP_NOW_PRIORITY,
    BACKUPS,
    KIND,
    subject_of,
    subject_of_source,
)


@transaction.atomic
def back_up_now(assignments: Iterable[Assignment], now: datetime | None = None, *, asked_by: str = "a user") -> int:
    """Put assignments at the head of the backlog, out of their period and window. Returns how many were moved.

    Copies under way are left alone, and so are paused sources and disabled policies; a record that is being asked comes
    ahead when that is settled. The extra priority lasts for one attempt.
    """
    instant = now or database_clock()
    related = Assignment.objects.active().select_related("source", "policy__schedule")
    asked = list(related.filter(pk__in=[assignment.pk for assignment in assignments]))
    wanted = {subject_of(assignment.pk): assignment for assignment in asked}
    unfinished = BacklogRecord.objects.filter(kind=KIND, subject__in=wanted).unfinished()
    records = list(unfinished.select_for_update().order_by("pk"))
    exclusivity.open_gates([each.exclusive_key for each in records if each.status == Status.READY], instant)
    moved = 0
    for record in records:
        assignment = wanted.pop(record.subject)
        if record.status != Status.RUNNING:
            record.queue = AVAILABILITY
            _put_ahead(record, assignment, instant)
        elif record.queue != BACKUPS:
            Assignment.objects.filter(pk=assignment.pk).update(asked_for_at=instant)
        else:
            continue
        moved += 1
    created = BacklogRecord.objects.bulk_create(
        [_asked_for(assignment, instant) for assignment in wanted.values()], ignore_conflicts=True
    )
    _log(
        "asked for", f"{asked_by} asked for a backup now", [subject_of(assignment.pk) for assignment in asked], instant
    )
    notify_at_once(AVAILABILITY)
    return moved + len(created)


def _put_ahead(record: BacklogRecord, assignment: Assignment, now: datetime) -> None:
    """Make it ready at once, ahead of records that were not asked for, out of its window for one attempt."""
    if record.queue == AVAILABILITY:
        record.exclusive_key = None  # that of its gate: the claim would collide with the running record
    record.status, record.waiting_for = Status.READY, None
    record.run_after, record.closes_at, record.breaker = now, None, None
    record.priority = assignment.policy.schedule.priority + BACK_UP_NOW_PRIORITY
    record.save()


def promised_among(assignments: Iterable[int]) -> set[int]:
    """The assignments for which a backup was wanted now while their source was being asked."""
    return set(Assignment.objects.filter(pk__in=assignments, asked_for_at__isnull=False).values_list("pk", flat=True))


def keep_promise(assignments: QuerySet[Assignment], record_id: int, now: datetime) -> bool:
    """Put a record ahead after a settle, if a backup was wanted now while its source was being asked.

    Runs in the settle's transaction. Returns True if such a backup had been wanted.
    """
    wanted = assignments.filter(asked_for_at__isnull=False).select_related("policy__schedule").first()
    if wanted is None:
        return False
    Assignment.objects.filter(pk=wanted.pk).update(asked_for_at=None)
    idle = BacklogRecord.objects.filter(pk=record_id, status__in=[Status.READY, Status.WAITING])
    for record in idle:
        _put_ahead(record, wanted, now)
        notify_at_once(record.queue)
    return True


def _asked_for(assignment: Assignment, now: datetime) -> BacklogRecord:
    source, schedule = assignment.source, assignment.policy.schedule
    day = due_day(assignment.next_backup_at, schedule.zone)
    return BacklogRecord(
        kind=KIND,
        queue=AVAILABILITY,
        subject=subject_of(assignment.pk),
        payload={"assignment": assignment.pk, "source": source.pk, "title": source.name, "sort": source.kind},
        status=Status.READY,
        run_after=now,
        priority=schedule.priority + BACK_UP_NOW_PRIORITY,
        due_day=day,
        rank_day=day,
        expected_seconds=assignment.expected_seconds,
        failures=assignment.failures,
        first_failure_at=assignment.first_failure_at if assignment.failures else None,
        origin=schedule,
        retry_policy_id=schedule.retry_policy_id,
        lane=assignment.policy.lane(first_backup=assignment.last_backup_at is None),
    )


@transaction.atomic
def pause(
    sources: Iterable[Source],
    now: datetime | None = None,
    *,
    stop: bool = False,
    reason: str = "",
    until: datetime | None = None,
    by: str = "a user",
    by_user: bool = False,
) -> int:
    """Stop planning backups of these sources until `resume`, or until the instant `until`. Running ones continue,
    unless `stop`.

    Their records are taken off the backlog, and out of their trigger, so that a resume in the same period emits again.
    Pausing again keeps the first instant, and replaces reason and end if new ones are given; a pause `by_user` does not
    change an operator's, which replaces the user's. Returns the number of sources that changed. Raises: ValueError for
    a reason of more than 200 characters, or an `until` that is over.
    """
    instant = now or database_clock()
    reason, until = pausing.checked_reason(reason), pausing.checked_end(until, instant)
    ids = [source.pk for source in sources]
    paused_before = Source.objects.filter(pk__in=ids, paused_at__isnull=False)
    if by_user:
        others = set(paused_before.filter(paused_by_user=False).values_list("pk", flat=True))
        ids = [pk for pk in ids if pk not in others]
    given: dict[str, Any] = {name: value for name, value in (("paused_until", until), ("paused_why", reason)) if value}
    taken_over = 0
    if not by_user:
        facts = {"paused_until": until, "paused_why": reason, "paused_by_user": False}
        taken_over = paused_before.filter(paused_by_user=True).update(**facts)
    before = Source.objects.filter(pk__in=ids, paused_at__isnull=False)
    again = taken_over + (before.exclude(**given).update(**given) if given else 0)
    active = _write_pauses(Source.objects.filter(pk__in=ids, paused_at=None), instant)
    facts = {"paused_at": instant, "paused_until": until, "paused_why": reason, "paused_by_user": by_user}
    paused = again + Source.objects.filter(pk__in=active).update(**facts)
    end, why = f" until {until:%Y-%m-%d %H:%M} UTC" if until else "", f": {reason}" if reason else ""
    _log("paused", f"{by} paused it{end}{why}", map(subject_of_source, ids), instant)
    unfinished = list(_records_of(ids).exclude(status__in=FINISHED).order_by("pk").select_for_update())
    cancel(_records_of(ids), "paused by a user", instant)
    if stop:
        running = [each.pk for each in unfinished if each.status == Status.RUNNING]
        cancelling.cancel(running, now=instant)
        BacklogRecord.objects.filter(pk__in=running).update(trigger_at=None)
    return paused


@transaction.atomic
def resume(
    sources: Iterable[Source],
    now: datetime | None = None,
    *,
    by: str = "a user",
    by_user: bool = False,
    only_over: bool = False,
) -> int:
    """Back up these sources again, at once if they are due; `by_user`: only those that their users paused; `only_over`:
    only those whose pause is over. Returns the number of resumed ones."""
    instant = now or database_clock()
    paused = Source.objects.filter(pk__in=[source.pk for source in sources], paused_at__isnull=False)
    chosen = paused.filter(paused_by_user=True) if by_user else paused
    chosen = chosen.filter(paused_until__lte=instant) if only_over else chosen
    ids = list(chosen.order_by("pk").select_for_update(no_key=True).values_list("pk", flat=True))
    resumed = Source.objects.filter(pk__in=ids).update(
        paused_at=None, paused_until=None, paused_why="", paused_by_user=False
    )
    Pause.objects.filter(source__in=ids, until=None).update(until=instant)
    _log("resumed", f"{by} resumed it", map(subject_of_source, ids), instant)
    assignments = Assignment.objects.filter(source__in=ids).values_list("pk", flat=True)
    emit_due(instant, assignments)
    return resumed


def locked(records: QuerySet[BacklogRecord]) -> QuerySet[BacklogRecord]:
    """The records among `records` that do not run, locked in id order until the transaction ends."""
    idle = records.filter(status__in=[Status.READY, Status.WAITING])
    return BacklogRecord.objects.filter(
        pk__in=list(idle.order_by("pk").select_for_update().values_list("pk", flat=True))
    )


def cancel(records: QuerySet[BacklogRecord], reason: str, now: datetime) -> None:
    """Take those of `records` that do not run off the backlog, and out of their trigger, so that it can emit again."""
    idle = locked(records)
    exclusivity.open_gates(idle.filter(status=Status.READY).values_list("exclusive_key", flat=True), now)
    idle.update(
        status=Status.CANCELLED,
        waiting_for=None,
        breaker=None,
        exclusive_key=None,
        finished_at=now,
        trigger_at=None,
        last_error=reason,
    )


def _records_of(source_ids: list[int]) -> QuerySet[BacklogRecord]:
    assignments = Assignment.objects.filter(source__in=source_ids).values_list("pk", flat=True)
    return BacklogRecord.objects.filter(kind=KIND, subject__in=[subject_of(pk) for pk in assignments])


def _write_pauses(sources: QuerySet[Source], since: datetime) -> list[int]:
    """Write the pauses by which past days are judged. Returns the ids of the sources, which are locked."""
    ids = list(sources.select_for_update(no_key=True).order_by("pk").values_list("pk", flat=True))
    Pause.objects.bulk_create([Pause(source_id=pk, since=since) for pk in ids])
    return ids


def _log(what: str, text: str, subjects: Iterable[str], now: datetime) -> None:
    decisions.log_all((decisions.DecisionLine(what, text, KIND, subject) for subject in subjects), now)
