"""Puts due assignments on the backlog.

One statement emits the due assignments of any number of policies. Nothing is emitted twice: a period's trigger yields
one record per assignment, and an assignment has one unfinished record, both by unique index.
"""

import time
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from django.db import connection, transaction
from django.db.models.expressions import RawSQL

from external.formatting import several
from jobs import decisions, throttles
from jobs.clock import database_clock
from jobs.order import LONGEST_DEMOTION_DAYS
from jobs.prepared_statements import array, execute
from jobs.set_aside import isolate
from jobs.states import UNFINISHED, Status, WaitingFor
from jobs.wakeups import notify
from jobs.zones import utc_offsets, zone_of
from schedules.models import Schedule
from schedules.watermarks import can_emit
from sources.models import Policy, order_parts
from sources.models.policy import Opening
from sources.models.source import FIRST_BYTES_PER_SECOND
from sources.planning.names import AVAILABILITY, KIND, subject_of_policy
from sources.planning.openings import STARTS_ALL_THE_SAME_AFTER

# Served by `assignment_due`. The order of insertion is that of the assignments, so `id` is the claim's "prior order".
# An assignment that failed last ranks as `jobs.order.demoted_by_failure` defines, and one that was lost several times
# in a row ranks as after a first failure: a new period does not put it first. Assignments that are on the backlog
# already are left out at once: each minute every worker looks for all that is due, and a refused insert costs five
# times as much. The duration of a first backup is guessed from the bytes in its source, as
# `Source.expected_first_seconds` does. A last backup in the future was dated by a clock that was wrong: its next-backup
# date is not a reason to wait. Local days are counted by the offsets of Python's zones: the server may have another
# version of them. MATERIALIZED makes the server cast them once per policy and not once per assignment.
EMIT = f"""
WITH p AS MATERIALIZED (
SELECT policy_id, schedule_id, trigger_at, today, opens_at, closes_at, must_fit, priority, retry_policy_id, lane,
       seeding_lane, offsets_since::timestamptz[], offsets::int[]
  FROM unnest(%(policy_id)s::bigint[], %(schedule_id)s::bigint[], %(trigger_at)s::timestamptz[], %(today)s::date[],
              %(opens_at)s::timestamptz[], %(closes_at)s::timestamptz[], %(must_fit)s::boolean[], %(priority)s::int[],
              %(retry_policy_id)s::bigint[], %(lane)s::int[], %(seeding_lane)s::int[], %(offsets_since)s::text[],
              %(offsets)s::text[])
       AS given(policy_id, schedule_id, trigger_at, today, opens_at, closes_at, must_fit, priority, retry_policy_id,
                lane, seeding_lane, offsets_since, offsets)
), emitted AS (
INSERT INTO jobs_backlogrecord
       (kind, queue, subject, payload, status, waiting_for, run_after, closes_at, priority, due_day, rank_day,
        expected_seconds, failures, first_failure_at, last_error, attempt, origin_id, trigger_at,
        retry_policy_id, lane)
SELECT '{KIND}', '{AVAILABILITY}', 'assignment:' || a.id,
       jsonb_build_object('assignment', a.id, 'source', s.id, 'title', s.name, 'sort', s.kind),
       CASE WHEN p.opens_at <= %(now)s THEN {Status.READY} ELSE {Status.WAITING} END,
       CASE WHEN p.opens_at <= %(now)s THEN NULL ELSE {WaitingFor.WINDOW} END,
       p.opens_at,
       CASE WHEN p.must_fit AND a.skips < {STARTS_ALL_THE_SAME_AFTER}
            THEN p.closes_at - COALESCE(a.last_backup_for, 0) * interval '1 second'
            ELSE p.closes_at END,
       p.priority, due.day,
       CASE WHEN a.failures > 0 OR a.losses > CASE WHEN a.last_backup_at IS NULL THEN %(forgiven_first)s ELSE 1 END
            THEN GREATEST(due.day, p.today) + LEAST(GREATEST(a.failures, 1), {LONGEST_DEMOTION_DAYS})
            ELSE due.day END,
       COALESCE(a.last_backup_for, s.used_bytes / %(bytes_per_second)s::float8), a.failures,
       CASE WHEN a.failures > 0 THEN a.first_failure_at END, '', 0,
       p.schedule_id, p.trigger_at, p.retry_policy_id,
       CASE WHEN a.last_backup_at IS NULL THEN p.seeding_lane ELSE p.lane END
  FROM p
  JOIN sources_assignment a ON a.policy_id = p.policy_id
  JOIN sources_source s ON s.id = a.source_id
 CROSS JOIN LATERAL (
       SELECT CASE WHEN a.next_backup_at IS NOT NULL
                   THEN (LEAST(a.next_backup_at, %(now)s) AT TIME ZONE 'UTC' + interval '1 second'
                         * p.offsets[width_bucket(LEAST(a.next_backup_at, %(now)s), p.offsets_since)])::date
               END AS day) AS due
 WHERE s.paused_at IS NULL AND s.retired_at IS NULL
   AND NOT EXISTS (
       SELECT
         FROM jobs_backlogrecord b
        WHERE b.kind = '{KIND}' AND b.subject = 'assignment:' || a.id AND b.status IN {tuple(map(int, UNFINISHED))})
   AND (a.next_backup_at IS NULL OR a.next_backup_at <= %(now)s OR a.last_backup_at > %(now)s + interval '1 hour')
   AND (%(assignment_ids)s::bigint[] IS NULL OR a.id = ANY(%(assignment_ids)s::bigint[]))
 ORDER BY a.id
    ON CONFLICT DO NOTHING
RETURNING origin_id
)
SELECT origin_id, count(*) FROM emitted GROUP BY origin_id
"""


# A look at the due assignments, in one statement: usually there are none, and no policy has to be read.
HAVE_DUE = f"""
SELECT DISTINCT a.policy_id
  FROM sources_assignment a
 WHERE (a.next_backup_at IS NULL OR a.next_backup_at <= %(now)s::timestamptz
        OR a.last_backup_at > %(now)s::timestamptz + interval '1 hour')
   AND NOT EXISTS (
       SELECT
         FROM sources_source s
        WHERE s.id = a.source_id AND (s.paused_at IS NOT NULL OR s.retired_at IS NOT NULL))
   AND NOT EXISTS (
       SELECT
         FROM jobs_backlogrecord b
        WHERE b.kind = '{KIND}' AND b.subject = 'assignment:' || a.id
          AND b.status IN ({", ".join(str(int(status)) for status in UNFINISHED)}))
"""

CATCH_UP_SECONDS = 0.3
"""The share of a minute's round that `catch_up` may take, in seconds."""
AT_ONCE = 100
"""Policies in one transaction."""

_first = 0
"""The id of the policy with which the next round begins: each has its turn, even if no round gets to the end."""


def emit_batches(triggers: Sequence[tuple[Schedule, datetime]], now: datetime) -> int:
    """The provider of backup schedules: put the due assignments of each trigger's policy on the backlog."""
    policies = Policy.objects.filter(schedule__in=[schedule for schedule, _ in triggers]).select_related("schedule")
    trigger_at = {schedule.pk: instant for schedule, instant in triggers}
    return _emit([(policy, trigger_at[policy.schedule_id]) for policy in policies], now, None)


def emit_due(now: datetime | None = None, assignment_ids: Iterable[int] | None = None) -> int:
    """Put those of `assignment_ids` that are due on the backlog. Returns the number of records.

    A period's start does this by itself; this is for assignments that become due in mid-period: those of a new source,
    of one resumed, of one whose backup ran across a trigger.
    """
    instant = now or database_clock()
    if assignment_ids is None:
        return catch_up(instant, seconds=float("inf"))
    ids = list(assignment_ids)
    chosen = RawSQL("SELECT policy_id FROM sources_assignment WHERE id = ANY(%s::bigint[])", [ids])
    policies = Policy.objects.filter(schedule__enabled=True, pk__in=chosen).select_related("schedule")
    return _emit(
        [(policy, policy.schedule.period.current(instant)) for policy in policies if can_emit(policy.schedule)],
        instant,
        ids,
    )


def catch_up(now: datetime | None = None, seconds: float = CATCH_UP_SECONDS) -> int:
    """Put all due assignments that are not on the backlog there, policy after policy, for some `seconds`. Returns the
    number of records. A policy that cannot be read is set aside, and delays no other.
    """
    global _first
    instant, until = now or database_clock(), time.monotonic() + seconds
    ids = sorted(row[0] for row in execute(HAVE_DUE, {"now": instant}).fetchall())
    ids = [each for each in ids if each >= _first] + [each for each in ids if each < _first]
    emitted = 0

    def emit(policies: Sequence[Policy]) -> None:
        nonlocal emitted
        emitted += _emit([(policy, policy.schedule.period.around(instant)[1]) for policy in policies], instant, None)

    for start in range(0, len(ids), AT_ONCE):
        if start and time.monotonic() >= until:
            _first = ids[start]
            break
        chosen = Policy.objects.filter(pk__in=ids[start : start + AT_ONCE], schedule__enabled=True)
        readable = [policy for policy in chosen.select_related("schedule") if can_emit(policy.schedule)]
        isolate(readable, emit, lambda policy: f"cannot emit the due backups of {policy}")
    return emitted


def _emit(batches: list[tuple[Policy, datetime]], now: datetime, assignment_ids: list[int] | None) -> int:
    if not batches:
        return 0
    openings = [policy.opening(now) for policy, _ in batches]  # before anything is locked
    with transaction.atomic():
        # in here: a throttle whose lane is named is not removed before the records are in it
        keys = [[policy.throttle_key(first_backup=first) for first in (False, True)] for policy, _ in batches]
        lanes = throttles.lanes_of([key for pair in keys for key in pair])
        rows = [
            _batch_row(policy, trigger_at, found, lanes[usual], lanes[first], now)
            for (policy, trigger_at), found, (usual, first) in zip(batches, openings, keys, strict=True)
        ]
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        with connection.cursor() as cursor:
            values = {**columns, **_rules_for_first_backups(), "now": now, "assignment_ids": assignment_ids}
            cursor.execute(EMIT, values)
            counts = dict(cursor.fetchall())
        lines = [
            _line(policy, trigger_at, count)
            for policy, trigger_at in batches
            if (count := counts.get(policy.schedule_id))
        ]
        decisions.log_all(lines, now)
    if counts:
        notify(AVAILABILITY)
    return sum(counts.values())


def _rules_for_first_backups() -> dict[str, float | None]:
    rate = FIRST_BYTES_PER_SECOND if order_parts.in_force().sizes else None
    return {"forgiven_first": order_parts.forgiven_losses(None), "bytes_per_second": rate}


def _line(policy: Policy, trigger_at: datetime, count: int) -> decisions.DecisionLine:
    """A line for a whole policy and not for each assignment: a period may begin for a hundred thousand."""
    began = f"{trigger_at:%Y-%m-%d %H:%M} UTC"
    return decisions.DecisionLine(
        "emitted",
        f"{several(count, 'due assignment')} of {policy} put on the backlog, in the period that began at {began}",
        KIND,
        subject_of_policy(policy.pk),
        {"emitted": count, "trigger_at": trigger_at.isoformat()},
    )


def _batch_row(
    policy: Policy, trigger_at: datetime, found: Opening, lane: int, seeding_lane: int, now: datetime
) -> dict[str, Any]:
    schedule = policy.schedule
    opens_at, closes_at = found
    offsets = utc_offsets(schedule.zone, now)
    return {
        "policy_id": policy.pk,
        "schedule_id": schedule.pk,
        "trigger_at": trigger_at,
        "today": now.astimezone(zone_of(schedule.zone)).date(),
        "opens_at": opens_at,
        "closes_at": closes_at,
        "must_fit": policy.only_if_it_fits,
        "priority": schedule.priority,
        "retry_policy_id": schedule.retry_policy_id,
        "lane": lane,
        "seeding_lane": seeding_lane,
        "offsets_since": array(since.isoformat() if since else "-infinity" for since, _ in offsets),
        "offsets": array(seconds for _, seconds in offsets),
    }
