"""Effects of an edit of a policy: everything that was computed from it is computed again.

A thousand assignments a transaction (`rollouts`): dates are computed before anything is locked; then records, the keys
of those that are cancelled, and assignments are locked, in the order of every settle. Until its turn has come an
assignment follows the policy as it was, and one that is emitted or copied in the meantime the policy as it is.
"""

from collections.abc import Iterable
from datetime import date, datetime, timedelta
from typing import Any

from django.db import connection, transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from jobs import priorities, rollouts, throttles
from jobs.clock import database_clock
from jobs.models import BacklogRecord, Throttle
from jobs.states import Status, WaitingFor
from schedules.cron import Period
from schedules.models import Schedule
from sources.domain.due import due_day, next_backup_at
from sources.models import Assignment, Copy, Policy
from sources.models.policy import Opening
from sources.planning.names import BACK_UP_NOW_PRIORITY, KIND, assignment_of, subject_of
from sources.planning.openings import next_openings
from sources.planning.requests import cancel

RESCHEDULE = """
UPDATE sources_assignment a
   SET next_backup_at = computed.next_backup_at
  FROM unnest(%(ids)s::bigint[], %(last)s::timestamptz[], %(next)s::timestamptz[])
       AS computed(id, last_backup_at, next_backup_at)
 WHERE a.id = computed.id AND a.last_backup_at = computed.last_backup_at
   AND a.next_backup_at IS DISTINCT FROM computed.next_backup_at
"""

# The day bucket is counted in the policy's zone. A record that silence or a failure moved back stays behind records
# that are due by then. Ready and window-waiting records, and those that wait for the breaker of another repository, are
# examined at once; records that wait for anything else meet the new window when their wait is over. A record that an
# operator moved ahead, or that was just woken, stays ahead.
MOVE = f"""
UPDATE jobs_backlogrecord b
   SET due_day = moved.day,
       rank_day = CASE WHEN b.rank_day IS NOT DISTINCT FROM b.due_day THEN moved.day
                       ELSE GREATEST(b.rank_day, moved.day) END,
       run_after = CASE WHEN b.status = {Status.READY} OR b.waiting_for = {WaitingFor.WINDOW} THEN %(now)s
                        ELSE b.run_after END,
       closes_at = %(now)s,
       lane = moved.lane,
       priority = b.priority + CASE WHEN {priorities.USUAL} < {BACK_UP_NOW_PRIORITY}
                                    THEN moved.priority - ({priorities.USUAL}) ELSE 0 END
  FROM unnest(%(ids)s::bigint[], %(days)s::date[], %(lanes)s::int[], %(priorities)s::int[])
       AS moved(id, day, lane, priority)
 WHERE b.id = moved.id
"""

AHEAD_BY = priorities.FIRST_IN_LINE, priorities.WOKEN
ONLY_AHEAD = [(by - priorities.MAX_PRIORITY, by + BACK_UP_NOW_PRIORITY - 1) for by in AHEAD_BY]
ASKED_FOR = Q(priority__gte=BACK_UP_NOW_PRIORITY, closes_at=None) & ~(
    Q(priority__range=ONLY_AHEAD[0]) | Q(priority__range=ONLY_AHEAD[1])
)
"""Records that an operator or user moved ahead, out of their window; not those that were only woken, or lost in
mid-copy.
"""

Given = tuple[int, date | None, int, int]
"""The id of a record, its day, its lane and its priority."""

NOT_DUE, DISABLED = "not due any more: its policy was edited", "its policy was disabled"


@transaction.atomic
def replan(policy: Policy, now: datetime | None = None) -> None:
    """Compute everything again that follows from the policy's cron, zone, window, priority, throttle and limits.

    Next-backup dates follow the new period; records that are no longer due are taken off the backlog, as are those
    of a disabled policy. Ready and window-waiting records look for the new window at the next tick, which also emits
    what has become due. A copy under way continues as it began. If the assignments are many, a worker does the rest.
    """
    _make_seeding_throttle(policy)
    rollouts.roll_out("policy", policy.pk, title=str(policy), of=policy.assignments.count, now=now)
    limit_seeding(policy)  # last: claims wait for the throttle's row


def limit_seeding(policy: Policy) -> None:
    """Make the throttle that holds the policy's first backups to its `seeding_limit`, or bring it up to date.

    Without a limit it is left as it is: records that name it may still run. Must be called last in an edit: claims from
    all its lanes wait for a changed throttle until the transaction ends.
    """
    _make_seeding_throttle(policy)
    if policy.seeding_limit and policy.seeding_throttle:
        wanted = {"name": _seeding_name(policy), "max_in_flight": policy.seeding_limit}
        Throttle.objects.filter(pk=policy.seeding_throttle.pk).exclude(**wanted).update(**wanted)


def _make_seeding_throttle(policy: Policy) -> None:
    """Make that throttle if it is missing. Nothing waits for it."""
    if policy.seeding_limit and policy.seeding_throttle is None:
        made = Throttle.objects.create(name=_seeding_name(policy), max_in_flight=policy.seeding_limit)
        policy.seeding_throttle = made
        policy.save(update_fields=["seeding_throttle"])


def _seeding_name(policy: Policy) -> str:
    return f"first backups of {policy.schedule.name[:60]} (policy {policy.pk})"


@transaction.atomic
def _replan_batch(policy_id: int, after: int, now: datetime | None = None) -> rollouts.Batch:
    policy = Policy.objects.select_related("schedule", "seeding_throttle").filter(pk=policy_id).first()
    if policy is None:
        return rollouts.Batch(None)
    following = policy.assignments.filter(pk__gt=after).order_by("pk")
    started = dict(following.values_list("pk", "last_backup_at")[: rollouts.BATCH])
    instant = now or database_clock()
    if not started:
        Schedule.objects.filter(pk=policy.schedule_id).update(next_trigger_at=None)
        return rollouts.Batch(None)
    last_id = max(started)
    computed = _next_dates(policy.schedule.period, started.values(), instant)
    unfinished = BacklogRecord.objects.filter(kind=KIND, subject__in=map(subject_of, started)).unfinished()
    records = BacklogRecord.objects.filter(
        pk__in=list(unfinished.select_for_update().order_by("pk").values_list("pk", flat=True))
    )
    # read again behind the locks: a backup may have been settled in the meantime, by the policy as it was
    started = dict(policy.assignments.filter(pk__in=started).values_list("pk", "last_backup_at"))
    computed |= _next_dates(policy.schedule.period, set(started.values()) - computed.keys(), instant)
    if policy.schedule.enabled:
        emitted = records.filter(trigger_at__isnull=False).exclude(ASKED_FOR)
        ahead = [subject_of(pk) for pk, last in started.items() if last and computed[last] > instant]
        cancel(emitted.filter(subject__in=ahead), NOT_DUE, instant)
    else:
        # backups that were asked for, too
        cancel(records, DISABLED, instant)
        records.filter(status=Status.RUNNING).update(closes_at=instant)
    dates = [(pk, last, computed[last]) for pk, last in started.items() if last]
    _reschedule(dates)
    _want_copies(policy, [pk for pk, _, _ in dates], instant)
    if policy.schedule.enabled:
        _move(policy, emitted, _days(started, computed, policy.schedule.zone, instant), instant)
        # refused again, it waits again
        records.filter(waiting_for=WaitingFor.BREAKER).update(run_after=instant)
    return rollouts.Batch(last_id, len(started))


def _next_dates(period: Period, started: Iterable[datetime | None], now: datetime) -> dict[datetime, datetime]:
    """Start of a last backup → next-backup date: one look at the calendar a period, however many started in it."""
    found: dict[datetime, datetime] = {}
    following = None
    for instant in sorted({each for each in started if each}):
        if following is None or min(instant, now) >= following:
            following = next_backup_at(period, instant, now)
        found[instant] = following
    return found


def _days(
    started: dict[int, datetime | None], computed: dict[datetime, datetime], zone: str, now: datetime
) -> dict[int, date | None]:
    """The days of assignments: the policy's local day of the next-backup date, or of today if that is earlier. None if
    never backed up. Counted here and not in the statement: the server's zones may be others.
    """
    return {pk: due_day(min(computed[last], now), zone) if last else None for pk, last in started.items()}


def _reschedule(dates: list[tuple[int, datetime, datetime]]) -> None:
    ids, last, following = [list(column) for column in zip(*dates, strict=True)] if dates else ([], [], [])
    # in id order, which an update alone does not keep to
    list(Assignment.objects.select_for_update(no_key=True).filter(pk__in=ids).order_by("pk").values_list("pk"))
    _execute(RESCHEDULE, {"ids": ids, "last": last, "next": following})


def _want_copies(policy: Policy, assignment_ids: list[int], now: datetime) -> None:
    """Have points copied that have no copy where one is wanted now."""
    there = Copy.objects.filter(
        assignment=OuterRef("pk"), repository=policy.copy_to_id, as_of__gte=OuterRef("last_backup_at")
    )
    wanted = ~Exists(there) if policy.copy_to_id else Q(pk=None)
    rows = Assignment.objects.filter(pk__in=assignment_ids)
    rows.filter(wanted, to_copy_since=None).update(to_copy_since=now)
    rows.filter(~wanted, to_copy_since__isnull=False).update(to_copy_since=None)


def _move(policy: Policy, records: QuerySet[BacklogRecord], days: dict[int, date | None], now: datetime) -> None:
    """Bring the policy's unfinished records under its new rules."""
    # records that are being asked at the moment follow them when a tick closes them
    records.filter(status=Status.RUNNING).update(closes_at=now)
    idle = records.filter(status__in=[Status.READY, Status.WAITING]).values_list("pk", "subject")
    lanes = {is_first: policy.lane(first_backup=is_first) for is_first in (False, True)}
    found = [(pk, days[assignment_of(subject)]) for pk, subject in idle if assignment_of(subject) in days]
    _give([(pk, day, lanes[day is None], policy.schedule.priority) for pk, day in found], now)


def _give(moved: list[Given], now: datetime) -> None:
    """Give records, by id, their day, lane and priority. They look for their window at the next tick."""
    if moved:
        ids, days, lanes, priorities = (list(column) for column in zip(*moved, strict=True))
        _execute(MOVE, {"ids": ids, "days": days, "lanes": lanes, "priorities": priorities, "now": now})


def reopen(records: list[tuple[int, str]], now: datetime) -> dict[int, Opening]:
    """The openings in which backup records (id, subject) that a tick has closed may run next, as `next_openings`
    returns them, under the present rules of their policies. Records that are no longer wanted are cancelled and left
    out.

    An edit closes records whose sources are being asked. The settle of the question does not know about the edit: it
    writes priority and days as they were at the claim. Must be called in the transaction that holds the records.
    """
    subjects = dict(records)
    found = BacklogRecord.objects.filter(pk__in=subjects).defer("payload")
    assignments = Assignment.objects.select_related("policy__schedule", "policy__seeding_throttle").in_bulk(
        {assignment_of(subject) for subject in subjects.values()}
    )
    of = {each.pk: assignments[pk] for each in found if (pk := assignment_of(each.subject)) in assignments}
    disabled = [pk for pk, each in of.items() if not each.policy.schedule.enabled]
    ahead = [each.pk for each in found if each.pk in of and each.trigger_at and not _is_due(of[each.pk], now)]
    for pks, why in ((disabled, DISABLED), (ahead, NOT_DUE)):
        if pks:
            cancel(BacklogRecord.objects.filter(pk__in=pks), why, now)
    wanted = {pk: each for pk, each in of.items() if pk not in {*disabled, *ahead}}
    _give(_changed([each for each in found if each.pk in wanted], wanted, now), now)
    return next_openings([(pk, subjects[pk]) for pk in wanted], now)


def _is_due(assignment: Assignment, now: datetime) -> bool:
    """True if it is due. As in the emission, a last backup in the future counts as due: the clock was wrong."""
    following, last = assignment.next_backup_at, assignment.last_backup_at
    return not following or following <= now or (last is not None and last > now + timedelta(hours=1))


def _changed(records: list[BacklogRecord], of: dict[int, Assignment], now: datetime) -> list[Given]:
    """The day, lane and priority that their policies give to those of the records that have others."""
    key_of = {pk: each.policy.throttle_key(first_backup=each.last_backup_at is None) for pk, each in of.items()}
    lanes = throttles.lanes_of(key_of.values())
    given = []
    for record in records:
        policy, following = of[record.pk].policy, of[record.pk].next_backup_at
        day = due_day(min(following, now), policy.schedule.zone) if following else None
        lane, priority = lanes[key_of[record.pk]], priorities.usual(record.priority)
        is_as_given = priority >= BACK_UP_NOW_PRIORITY or priority == policy.schedule.priority
        if (day, lane) != (record.due_day, record.lane) or not is_as_given:
            given.append((record.pk, day, lane, policy.schedule.priority))
    return given


def _execute(sql: str, values: dict[str, Any]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql, values)


rollouts.register("policy", _replan_batch)
