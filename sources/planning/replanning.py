"""After an edit of a policy: what was computed from it is computed anew, in the transaction of the edit."""

from datetime import datetime

from django.db import connection, transaction
from django.db.models import Q, QuerySet

from jobs.clock import database_clock
from jobs.models import BacklogRecord, Schedule
from jobs.states import Status, WaitingFor
from sources.domain.due import next_backup_at
from sources.models import Assignment, Policy
from sources.planning.idle import cancel
from sources.planning.lanes import lane_of, limit_seeding
from sources.planning.names import BACK_UP_NOW_PRIORITY, subject_of

# The day bucket is the policy's zone's. What silence or a failure moved back stays behind what is due by then.
RANK = """
UPDATE jobs_backlogrecord b
   SET due_day = due.day,
       rank_day = CASE WHEN b.rank_day IS NOT DISTINCT FROM b.due_day THEN due.day
                       ELSE GREATEST(b.rank_day, due.day) END
  FROM sources_assignment a
 CROSS JOIN LATERAL (
       SELECT CASE WHEN a.next_backup_at IS NOT NULL
                   THEN (LEAST(a.next_backup_at, %(now)s) AT TIME ZONE %(zone)s)::date END AS day) AS due
 WHERE b.id = ANY(%(ids)s) AND b.subject = 'assignment:' || a.id AND a.policy_id = %(policy)s
"""


ASKED_FOR = Q(priority__gte=BACK_UP_NOW_PRIORITY, closes_at=None)
"""What a person moved ahead, out of its window."""


@transaction.atomic
def replan(policy: Policy, now: datetime | None = None) -> None:
    """Compute anew what follows from the policy's cron, zone, window, priority, throttle and limits.

    Next-backup dates follow the new period; what is not due any more is taken off the backlog, as are the records of a
    disabled policy. Ready and window-waiting records look for the new window at the next tick, which also emits what
    has become due. A copy under way goes on as it began.
    """
    instant = now or database_clock()
    limit_seeding(policy)
    # records before assignments, as every settle does
    of_policy = BacklogRecord.objects.filter(schedule=policy.schedule, trigger_at__isnull=False)
    unfinished = list(of_policy.unfinished().select_for_update().order_by("pk").values_list("pk", flat=True))
    records = BacklogRecord.objects.filter(pk__in=unfinished)
    assignments = _reschedule(policy, instant)
    if policy.schedule.enabled:
        ahead = [subject_of(a.pk) for a in assignments if a.next_backup_at and a.next_backup_at > instant]
        cancel(records.exclude(ASKED_FOR).filter(subject__in=ahead), "not due any more: its policy was edited", instant)
        _move(policy, records.exclude(ASKED_FOR), instant)
    else:
        # what a person asked for, too
        cancel(BacklogRecord.objects.filter(schedule=policy.schedule), "its policy was disabled", instant)
    _ask_breakers_again(policy, instant)
    Schedule.objects.filter(pk=policy.schedule_id).update(next_trigger_at=None)


def _reschedule(policy: Policy, now: datetime) -> list[Assignment]:
    """Set the next-backup dates by the policy's period. Returns the assignments that have one."""
    assignments = list(policy.assignments.exclude(last_backup_at=None).select_for_update().order_by("pk"))
    for assignment in assignments:
        if assignment.last_backup_at:
            assignment.next_backup_at = next_backup_at(policy.schedule.period, assignment.last_backup_at, now)
    Assignment.objects.bulk_update(assignments, ["next_backup_at"], batch_size=1000)
    return assignments


def _ask_breakers_again(policy: Policy, now: datetime) -> None:
    """What waits for the breaker of a repository goes on at the next tick: the policy may name another one now. Refused
    again, it waits again. What somebody holds locked is looked at after a day."""
    waiting = BacklogRecord.objects.filter(status=Status.WAITING, waiting_for=WaitingFor.BREAKER)
    held = waiting.filter(schedule=policy.schedule).select_for_update(skip_locked=True).values_list("pk", flat=True)
    BacklogRecord.objects.filter(pk__in=list(held)).update(run_after=now)


def _move(policy: Policy, records: QuerySet[BacklogRecord], now: datetime) -> None:
    """Bring the policy's unfinished records under its new rules."""
    # what is asked at the moment comes back through the new window, too
    records.filter(status=Status.RUNNING).update(closes_at=now)
    ids = list(records.filter(status__in=[Status.READY, Status.WAITING]).values_list("pk", flat=True))
    records = BacklogRecord.objects.filter(pk__in=ids)
    with connection.cursor() as cursor:
        cursor.execute(RANK, {"ids": ids, "now": now, "zone": policy.schedule.zone, "policy": policy.pk})
    open_or_closed = Q(status=Status.READY) | Q(status=Status.WAITING, waiting_for=WaitingFor.WINDOW)
    records.filter(open_or_closed).update(run_after=now)
    # whatever else a record waits for, it comes back through the new window
    records.update(closes_at=now, lane=lane_of(policy, first_backup=False))
    if policy.seeding_limit:
        records.filter(due_day=None).update(lane=lane_of(policy, first_backup=True))
    # what a person moved ahead, or was just woken, stays ahead
    records.filter(priority__lt=BACK_UP_NOW_PRIORITY).update(priority=policy.schedule.priority)
