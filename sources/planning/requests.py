"""What a person asks for about sources: back up now, not before, pause, resume."""

from collections.abc import Iterable
from datetime import datetime

from django.db import transaction
from django.db.models import QuerySet

from jobs import decisions, exclusivity, rescheduling
from jobs.backlog import cancelling, pausing
from jobs.clock import database_clock
from jobs.models import BacklogRecord
from jobs.states import FINISHED, Status, WaitingFor
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
def back_up_now(assignments: Iterable[Assignment], now: datetime | None = None, *, asked_by: str = "a person") -> int:
    """Put assignments at the head of the backlog, out of their period and window. Returns how many were moved.

    What is copied already is left alone, and so are paused sources and disabled policies; what is being asked comes
    ahead when that is settled. A snooze is over. The extra priority lasts for one attempt.
    """
    instant = now or database_clock()
    related = Assignment.objects.active().select_related("source", "policy__schedule")
    asked = list(related.filter(pk__in=[assignment.pk for assignment in assignments]))
    wanted = {subject_of(assignment.pk): assignment for assignment in asked}
    sources = sorted({assignment.source_id for assignment in asked})
    if Source.objects.filter(pk__in=sources, snoozed_until__isnull=False).update(snoozed_until=None):
        _end_snoozes(sources, instant)
        end_waits_for_snooze(locked(_records_of(sources)).exclude(subject__in=wanted), instant)
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
    """Ready at once, ahead of what no person asked for, out of its window for one attempt."""
    if record.queue == AVAILABILITY:
        record.exclusive_key = None  # that of a gate behind which it waited: its claim would meet the one that runs
    record.status, record.waiting_for = Status.READY, None
    record.run_after, record.closes_at, record.breaker = now, None, None
    record.priority = assignment.policy.schedule.priority + BACK_UP_NOW_PRIORITY
    record.save()


def keep_promise(assignments: QuerySet[Assignment], record_id: int, now: datetime) -> bool:
    """After a settle of what was being asked when a person wanted a backup of it now: put it ahead.

    Runs in the settle's transaction. Returns whether a person had wanted that.
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
        expected_seconds=assignment.last_backup_for,
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
    by: str = "a person",
) -> int:
    """No more backups of these sources until `resume`, by itself at `until`. Running ones go on, unless `stop`.

    Their records are taken off the backlog, and out of their trigger, so that a resume in the same period emits again.
    Pausing again keeps the first instant, and replaces reason and end if new ones are given. Returns how many sources
    that changed. Raises: ValueError for a reason of more than 200 characters, or an `until` that is over.
    """
    instant = now or database_clock()
    reason, until = pausing.checked_reason(reason), pausing.checked_end(until, instant)
    ids = [source.pk for source in sources]
    given = {name: value for name, value in (("paused_until", until), ("paused_why", reason)) if value}
    before = Source.objects.filter(pk__in=ids, paused_at__isnull=False)
    again = before.exclude(**given).update(**given) if given else 0
    active = _write_pauses(Source.objects.filter(pk__in=ids, paused_at=None), instant)
    facts = {"paused_at": instant, "paused_until": until, "paused_why": reason}
    paused = again + Source.objects.filter(pk__in=active).update(**facts)
    end, why = f" until {until:%Y-%m-%d %H:%M} UTC" if until else "", f": {reason}" if reason else ""
    _log("paused", f"{by} paused it{end}{why}", map(subject_of_source, ids), instant)
    unfinished = list(_records_of(ids).exclude(status__in=FINISHED).order_by("pk").select_for_update())
    cancel(_records_of(ids), "paused by a person", instant)
    if stop:
        running = [each.pk for each in unfinished if each.status == Status.RUNNING]
        cancelling.cancel(running, now=instant)
        BacklogRecord.objects.filter(pk__in=running).update(trigger_at=None)
    return paused


@transaction.atomic
def resume(sources: Iterable[Source], now: datetime | None = None, *, by: str = "a person") -> int:
    """Back up these sources again, at once if they are due. Returns how many were resumed."""
    instant = now or database_clock()
    ids = [source.pk for source in sources]
    resumed = Source.objects.filter(pk__in=ids, paused_at__isnull=False).update(
        paused_at=None, paused_until=None, paused_why=""
    )
    Pause.objects.filter(source__in=ids, until=None).update(until=instant)
    _log("resumed", f"{by} resumed it", map(subject_of_source, ids), instant)
    assignments = Assignment.objects.filter(source__in=ids).values_list("pk", flat=True)
    emit_due(instant, assignments)
    return resumed


@transaction.atomic
def snooze(sources: Iterable[Source], until: datetime, now: datetime | None = None) -> int:
    """No backups of these sources before `until` (aware). What runs already goes on. Returns how many sources.

    Raises: ValueError when `until` is not in the future.
    """
    instant = now or database_clock()
    if until <= instant:
        raise ValueError(f"{until.isoformat(timespec='seconds')} is not in the future")
    ids = [source.pk for source in sources]
    snoozed = Source.objects.filter(pk__in=ids).update(snoozed_until=until)
    _end_snoozes(ids, instant)
    _write_pauses(Source.objects.filter(pk__in=ids), instant, until)
    records = list(locked(_records_of(ids)))
    exclusivity.open_gates([record.exclusive_key for record in records if record.status == Status.READY], instant)
    for record in records:
        waits_less = record.run_after < until or record.waiting_for == WaitingFor.SNOOZE
        if record.status == Status.READY or waits_less:
            record.status, record.waiting_for, record.run_after = Status.WAITING, WaitingFor.SNOOZE, until
            record.queue, record.exclusive_key, record.breaker = AVAILABILITY, None, None
    moved = ["status", "waiting_for", "run_after", "queue", "exclusive_key", "breaker"]
    BacklogRecord.objects.bulk_update(records, moved)
    text = f"its user wants no backup before {until:%Y-%m-%d %H:%M} UTC"
    _log("snoozed", text, map(subject_of_source, ids), instant)
    return snoozed


@transaction.atomic
def unsnooze(sources: Iterable[Source], now: datetime | None = None) -> int:
    """End the snooze of these sources: what waited for its end goes on where it was. Returns how many had one."""
    instant = now or database_clock()
    ids = [source.pk for source in sources]
    ended = Source.objects.filter(pk__in=ids, snoozed_until__isnull=False).update(snoozed_until=None)
    _end_snoozes(ids, instant)
    end_waits_for_snooze(locked(_records_of(ids)), instant)
    _log("snooze over", "its user ended the snooze", map(subject_of_source, ids), instant)
    return ended


def end_waits_for_snooze(records: QuerySet[BacklogRecord], now: datetime) -> None:
    """Let the locked `records` that wait for a snooze go on: to their backoff if it is not over, else to their window,
    which a tick finds."""
    for record in records.filter(waiting_for=WaitingFor.SNOOZE).select_related("retry_policy"):
        if wait := rescheduling.wait_of(record, now):
            record.waiting_for, record.run_after = wait
        else:
            record.status, record.waiting_for, record.run_after = Status.READY, None, now
        record.closes_at = record.closes_at and now
        record.save()
        notify_at_once(AVAILABILITY)


def locked(records: QuerySet[BacklogRecord]) -> QuerySet[BacklogRecord]:
    """Those of `records` that do not run, locked in id order until the transaction ends."""
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


def _write_pauses(sources: QuerySet[Source], since: datetime, until: datetime | None = None) -> list[int]:
    """What days that are over are judged by. Returns the ids of the sources, which are locked."""
    ids = list(sources.select_for_update(no_key=True).order_by("pk").values_list("pk", flat=True))
    Pause.objects.bulk_create([Pause(source_id=pk, since=since, until=until) for pk in ids])
    return ids


def _end_snoozes(source_ids: list[int], now: datetime) -> None:
    Pause.objects.filter(source__in=source_ids, until__gt=now).update(until=now)


def _log(what: str, text: str, subjects: Iterable[str], now: datetime) -> None:
    decisions.doing_all((decisions.Line(what, text, KIND, subject) for subject in subjects), now)
