"""What is due, put on the backlog; and what a person asks for about it.

One statement emits the due assignments of any number of policies. Nothing is emitted twice: a period's trigger yields
one record per assignment, and an assignment has one unfinished record, both by unique index.
"""

import logging
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import connection, transaction
from django.db.models import Q, QuerySet

from jobs import exclusivity, throttles
from jobs.clock import database_clock
from jobs.emitter import can_emit
from jobs.models import BacklogRecord, Schedule
from jobs.states import Status, WaitingFor
from jobs.wakeups import notify
from sources.models import Assignment, Policy, Source

log = logging.getLogger(__name__)

KIND = "backup"
AVAILABILITY = "availability"
BACKUPS = "backups"

BACK_UP_NOW_PRIORITY = 100
"""Added to the policy's priority for what a person asked for now."""

LOOK_AGAIN_AFTER = timedelta(hours=1)
"""When to look again at a window that cannot be read."""

# Served by `assignment_due`. The order of insertion is the assignments' own, so `id` is the claim's "prior order".
EMIT = f"""
INSERT INTO jobs_backlogrecord
       (kind, queue, subject, payload, status, waiting_for, run_after, closes_at, priority, due_day, rank_day,
        expected_seconds, failures, last_error, attempt, schedule_id, trigger_at, retry_policy_id, lane)
SELECT '{KIND}', '{AVAILABILITY}', 'assignment:' || a.id, jsonb_build_object('assignment', a.id, 'title', s.name),
       CASE WHEN p.opens_at <= %(now)s THEN {Status.READY} ELSE {Status.WAITING} END,
       CASE WHEN p.opens_at <= %(now)s THEN NULL ELSE {WaitingFor.WINDOW} END,
       p.opens_at, p.closes_at, p.priority,
       (a.next_backup_at AT TIME ZONE p.zone)::date, (a.next_backup_at AT TIME ZONE p.zone)::date,
       a.last_backup_for, a.failures, '', 0, p.schedule_id, p.trigger_at, p.retry_policy_id, p.lane
  FROM unnest(%(policy_id)s::bigint[], %(schedule_id)s::bigint[], %(trigger_at)s::timestamptz[], %(zone)s::text[],
              %(opens_at)s::timestamptz[], %(closes_at)s::timestamptz[], %(priority)s::int[],
              %(retry_policy_id)s::bigint[], %(lane)s::int[])
       AS p(policy_id, schedule_id, trigger_at, zone, opens_at, closes_at, priority, retry_policy_id, lane)
  JOIN sources_assignment a ON a.policy_id = p.policy_id
  JOIN sources_source s ON s.id = a.source_id
 WHERE s.paused_at IS NULL
   AND (a.next_backup_at IS NULL OR a.next_backup_at <= %(now)s)
   AND (%(assignment_ids)s::bigint[] IS NULL OR a.id = ANY(%(assignment_ids)s::bigint[]))
 ORDER BY a.id
    ON CONFLICT DO NOTHING
"""


def subject_of(assignment_id: int) -> str:
    """The subject of an assignment's backup records."""
    return f"assignment:{assignment_id}"


def emit_batches(triggers: Sequence[tuple[Schedule, datetime]], now: datetime) -> int:
    """The provider of backup schedules: put the due assignments of each trigger's policy on the backlog."""
    policies = Policy.objects.filter(schedule__in=[schedule for schedule, _ in triggers]).select_related("schedule")
    trigger_at = {schedule.pk: instant for schedule, instant in triggers}
    return _emit([(policy, trigger_at[policy.schedule_id]) for policy in policies], now, None)


def emit_due(now: datetime | None = None, assignment_ids: Iterable[int] | None = None) -> int:
    """Put due assignments on the backlog: all, or those of `assignment_ids`. Returns how many records.

    A period's start does this by itself; this is for what becomes due in mid-period: a new source, one resumed, one
    whose backup ran across a trigger.
    """
    instant = now or database_clock()
    ids = None if assignment_ids is None else list(assignment_ids)
    policies = Policy.objects.filter(schedule__enabled=True).select_related("schedule")
    if ids is not None:
        policies = policies.filter(assignments__in=ids).distinct()
    batches = [(policy, policy.schedule.period.current(instant)) for policy in policies if can_emit(policy.schedule)]
    return _emit(batches, instant, ids)


def _emit(batches: list[tuple[Policy, datetime]], now: datetime, assignment_ids: list[int] | None) -> int:
    if not batches:
        return 0
    rows = [_batch_row(policy, trigger_at, now) for policy, trigger_at in batches]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(EMIT, {**columns, "now": now, "assignment_ids": assignment_ids})
        emitted = int(cursor.rowcount)
    if emitted:
        notify(AVAILABILITY)
    return emitted


def _batch_row(policy: Policy, trigger_at: datetime, now: datetime) -> dict[str, Any]:
    schedule = policy.schedule
    opens_at, closes_at = opening(policy, now)
    return {
        "policy_id": policy.pk,
        "schedule_id": schedule.pk,
        "trigger_at": trigger_at,
        "zone": schedule.zone,
        "opens_at": opens_at,
        "closes_at": closes_at,
        "priority": schedule.priority,
        "retry_policy_id": schedule.retry_policy_id,
        "lane": throttles.lane_of([schedule.throttle_id] if schedule.throttle_id else []),
    }


def opening(policy: Policy, now: datetime) -> tuple[datetime, datetime | None]:
    """From when (not before `now`) to when the policy's backups may run; None: the window never closes.

    A window that cannot be read (a row written past the forms) is closed, and must not hold up other policies.
    """
    try:
        found = policy.weekly_window.current_or_next(now)
    except ValueError as error:
        log.error("policy %s backs up nothing: its window cannot be read: %s", policy, error)
        return now + LOOK_AGAIN_AFTER, now + LOOK_AGAIN_AFTER
    return (max(found.opens_at, now), found.closes_at) if found else (now, None)


def next_openings(records: list[tuple[int, str]], now: datetime) -> dict[int, tuple[datetime, datetime | None]]:
    """For backup records (id, subject) whose window has closed: record id → (opens_at, closes_at)."""
    ids = {record_id: int(subject.partition(":")[2]) for record_id, subject in records}
    assignments = Assignment.objects.select_related("policy__schedule").in_bulk(set(ids.values()))
    by_policy: dict[int, tuple[datetime, datetime | None]] = {}
    openings = {}
    for record_id, assignment_id in ids.items():
        if assignment := assignments.get(assignment_id):
            if assignment.policy_id not in by_policy:
                by_policy[assignment.policy_id] = opening(assignment.policy, now)
            openings[record_id] = by_policy[assignment.policy_id]
    return openings


@transaction.atomic
def replan(policy: Policy, now: datetime | None = None) -> None:
    """After an edit of the policy's cron, zone or window: recompute what was computed from them.

    Next-backup dates follow the new period; ready and window-waiting records look for the new window at the next
    tick, which also emits what has become due. The records of a disabled policy are taken off the backlog.
    """
    instant = now or database_clock()
    period = policy.schedule.period
    assignments = list(policy.assignments.exclude(last_backup_at=None).select_for_update().order_by("pk"))
    for assignment in assignments:
        if assignment.last_backup_at:
            assignment.next_backup_at = period.next_after(assignment.last_backup_at)
    Assignment.objects.bulk_update(assignments, ["next_backup_at"], batch_size=1000)
    records = _locked(BacklogRecord.objects.filter(schedule=policy.schedule, trigger_at__isnull=False))
    if policy.schedule.enabled:
        open_or_closed = Q(status=Status.READY) | Q(status=Status.WAITING, waiting_for=WaitingFor.WINDOW)
        records.filter(open_or_closed).update(run_after=instant)
        # whatever else a record waits for, it comes back through the new window
        records.update(closes_at=instant)
        # what a person moved ahead, or was just woken, stays ahead
        records.filter(priority__lt=BACK_UP_NOW_PRIORITY).update(priority=policy.schedule.priority)
    else:
        _cancel(records, "its policy was disabled", instant)
    Schedule.objects.filter(pk=policy.schedule_id).update(next_trigger_at=None)


@transaction.atomic
def back_up_now(assignments: Iterable[Assignment], now: datetime | None = None) -> int:
    """Put assignments at the head of the backlog, out of their period and window. Returns how many were moved.

    What runs already is left alone, and so is a paused source. The extra priority lasts for one attempt.
    """
    instant = now or database_clock()
    related = Assignment.objects.filter(source__paused_at=None).select_related("source", "policy__schedule")
    asked = list(related.filter(pk__in=[assignment.pk for assignment in assignments]))
    wanted = {subject_of(assignment.pk): assignment for assignment in asked}
    unfinished = BacklogRecord.objects.filter(kind=KIND, subject__in=wanted).unfinished()
    records = list(unfinished.select_for_update().order_by("pk"))
    exclusivity.give_back([record.exclusive_key for record in records if record.status == Status.READY], instant)
    moved = 0
    for record in records:
        assignment = wanted.pop(record.subject)
        if record.status != Status.RUNNING:
            record.status, record.waiting_for, record.queue = Status.READY, None, AVAILABILITY
            record.run_after, record.closes_at, record.exclusive_key = instant, None, None
            record.priority = assignment.policy.schedule.priority + BACK_UP_NOW_PRIORITY
            record.save()
            moved += 1
    created = BacklogRecord.objects.bulk_create(
        [_asked_for(assignment, instant) for assignment in wanted.values()], ignore_conflicts=True
    )
    notify(AVAILABILITY)
    return moved + len(created)


def _asked_for(assignment: Assignment, now: datetime) -> BacklogRecord:
    schedule = assignment.policy.schedule
    due = assignment.next_backup_at
    day = due.astimezone(schedule.period.tzinfo).date() if due else None
    return BacklogRecord(
        kind=KIND,
        queue=AVAILABILITY,
        subject=subject_of(assignment.pk),
        payload={"assignment": assignment.pk, "title": assignment.source.name},
        status=Status.READY,
        run_after=now,
        priority=schedule.priority + BACK_UP_NOW_PRIORITY,
        due_day=day,
        rank_day=day,
        expected_seconds=assignment.last_backup_for,
        failures=assignment.failures,
        schedule=schedule,
        retry_policy_id=schedule.retry_policy_id,
        lane=throttles.lane_of([schedule.throttle_id] if schedule.throttle_id else []),
    )


@transaction.atomic
def pause(sources: Iterable[Source], now: datetime | None = None) -> int:
    """No more backups of these sources until `resume`. Running ones go on. Returns how many were paused.

    Their records are taken off the backlog, and out of their trigger, so that a resume in the same period emits again.
    """
    instant = now or database_clock()
    ids = [source.pk for source in sources]
    paused = Source.objects.filter(pk__in=ids, paused_at=None).update(paused_at=instant)
    subjects = [subject_of(pk) for pk in Assignment.objects.filter(source__in=ids).values_list("pk", flat=True)]
    _cancel(BacklogRecord.objects.filter(kind=KIND, subject__in=subjects), "paused by a person", instant)
    return paused


def _locked(records: QuerySet[BacklogRecord]) -> QuerySet[BacklogRecord]:
    """Those of `records` that do not run, locked in id order until the transaction ends."""
    idle = records.filter(status__in=[Status.READY, Status.WAITING])
    return BacklogRecord.objects.filter(
        pk__in=list(idle.order_by("pk").select_for_update().values_list("pk", flat=True))
    )


def _cancel(records: QuerySet[BacklogRecord], reason: str, now: datetime) -> None:
    """Take those of `records` that do not run off the backlog, and out of their trigger, so that it can emit again."""
    _locked(records).update(
        status=Status.CANCELLED,
        waiting_for=None,
        exclusive_key=None,
        finished_at=now,
        trigger_at=None,
        last_error=reason,
    )


@transaction.atomic
def resume(sources: Iterable[Source], now: datetime | None = None) -> int:
    """Back up these sources again, at once if they are due. Returns how many were resumed."""
    ids = [source.pk for source in sources]
    resumed = Source.objects.filter(pk__in=ids, paused_at__isnull=False).update(paused_at=None)
    assignments = Assignment.objects.filter(source__in=ids).values_list("pk", flat=True)
    emit_due(now, assignments)
    return resumed
