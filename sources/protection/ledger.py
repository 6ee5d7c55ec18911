"""The outcome of each day of an assignment, from its attempts: `sources/domain/days.py` has the words and the rule.

Nothing is kept in addition to the attempts except for times without any: pauses, holds, and the time in which a policy
was disabled (docs/decisions/0067). An attempt counts for each day on which it ran, so a row that represents many
silences counts for all days from the first to the last; a success counts for the day on which it began.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, NamedTuple

from django.db.models import DateTimeField, Q, Value

from jobs import conf
from jobs.clock import database_clock
from jobs.models import Attempt, BacklogRecord, Hold, PastHold
from jobs.prepared_statements import execute
from jobs.states import UNFINISHED, AttemptOutcome, Status
from sources.domain import days
from sources.domain.days import Day, DayFacts, DayStretch
from sources.models import Assignment, Pause, Policy
from sources.planning import AVAILABILITY, BACKUPS, KIND, subject_of

MOST_DAYS = 90


PAUSED, DISABLED = "It was paused or retired", "Its policy was disabled"
HELD = "Everything was on hold"


class Idle(NamedTuple):
    """A time in which no backup was wanted, and the reason. `until` is None if it has not ended."""

    why: str
    since: datetime
    until: datetime | None


# The records of an assignment are found by `backups_of_subject` and `one_unfinished_record_per_subject`, the attempts
# of a record by their key. OFFSET keeps the planner from joining all attempts of the installation first. A success is
# in its record, too, and decides its stretch: attempts are only read of records that ran in others.
FOUND = f"""
WITH stretch AS (
    SELECT policy, array_agg(bound ORDER BY bound) AS bounds
      FROM unnest(%(policy)s::bigint[], %(bounds)s::timestamptz[]) AS s(policy, bound)
     GROUP BY policy
), record AS (
    SELECT a.id AS assignment, stretch.bounds, r.*,
           r.status = {Status.SUCCEEDED} AND r.started_at IS NOT NULL AS is_done,
           width_bucket(r.started_at, stretch.bounds) AS first,
           width_bucket(GREATEST(r.finished_at, r.started_at), stretch.bounds) AS last
      FROM sources_assignment a
      JOIN stretch ON stretch.policy = a.policy_id
     CROSS JOIN LATERAL (
           SELECT id, status, queue, inserted_at, started_at, finished_at
             FROM jobs_backlogrecord
            WHERE kind = '{KIND}' AND subject = 'assignment:' || a.id AND finished_at >= stretch.bounds[1]
            UNION ALL
           SELECT id, status, queue, inserted_at, started_at, finished_at
             FROM jobs_backlogrecord
            WHERE kind = '{KIND}' AND subject = 'assignment:' || a.id AND status IN {tuple(map(int, UNFINISHED))}
           OFFSET 0) AS r
     WHERE a.id = ANY(%(assignments)s::bigint[])
), known AS MATERIALIZED (
    SELECT *, array_agg(first) FILTER (WHERE is_done) OVER (PARTITION BY assignment) AS decided FROM record
), ran AS (
    SELECT assignment, queue, {AttemptOutcome.SUCCEEDED} AS outcome, first, last FROM known WHERE is_done
     UNION ALL
    SELECT assignment, t.queue, t.outcome,
           width_bucket(t.started_at, known.bounds), width_bucket(t.ended_at, known.bounds)
      FROM known
     CROSS JOIN LATERAL (
           SELECT queue, outcome, started_at, ended_at
             FROM jobs_attempt
            WHERE record_id = known.id AND ended_at >= known.bounds[1]
            UNION ALL
           SELECT known.queue, 0, known.started_at, %(now)s::timestamptz
            WHERE known.status = {Status.RUNNING} AND known.queue = '{BACKUPS}'
           OFFSET 0) AS t
     WHERE NOT known.is_done OR NOT known.decided @> ARRAY(
           SELECT generate_series(
               GREATEST(width_bucket(LEAST(known.inserted_at, known.started_at), known.bounds), 1), known.last))
)
SELECT assignment, stretch,
       bool_or(outcome = {AttemptOutcome.SUCCEEDED} AND stretch = first),
       bool_or(queue <> '{AVAILABILITY}' OR outcome = {AttemptOutcome.HANDOFF}),
       bool_or(outcome = {AttemptOutcome.UNAVAILABLE})
  FROM ran
 CROSS JOIN LATERAL generate_series(GREATEST(first, 1), last) AS stretch
 GROUP BY assignment, stretch
"""


def span_of_days(today: date) -> list[date]:
    """The dates that can be judged, oldest first: as far back as finished records are kept."""
    count = max(1, min(MOST_DAYS, conf.keep_finished() // timedelta(days=1)))
    return [today - timedelta(days=back) for back in reversed(range(count))]


def latest_date(assignments: Sequence[Assignment], now: datetime) -> date:
    """The date of `now` in the easternmost zone of their policies."""
    zones = {assignment.policy.schedule.period.tzinfo for assignment in assignments}
    return max((now.astimezone(zone).date() for zone in zones), default=now.date())


def days_of(
    assignments: Sequence[Assignment],
    dates: Sequence[date],
    now: datetime,
    idle: Mapping[int, Sequence[Idle]] | None = None,
) -> dict[int, list[Day]]:
    """Assignment id → the outcomes of `dates` (consecutive), in three statements, one if their `idle` times are known.

    Needs their `source` and `policy__schedule`. If a policy cannot be read, nothing was due.
    """
    by_policy = {each.policy_id: stretches_of(each, dates[0], dates[-1]) for each in assignments}
    found = _found(assignments, by_policy, now)
    pauses = idle_of(assignments) if idle is None else idle
    judged = {}
    for each in assignments:
        stretches = by_policy[each.policy_id]
        numbers = _numbers(stretches)
        judged[each.pk] = [
            days.judge(
                stretch,
                found.get((each.pk, numbers[stretch]), days.NOTHING),
                assigned_at=each.inserted_at,
                retired_at=each.source.retired_at,
                pauses=[(since, until) for _, since, until in pauses[each.pk]],
                now=now,
            )
            for stretch in stretches
        ] or [Day.NONE] * len(dates)
    return judged


def stretches_of(assignment: Assignment, first: date, last: date) -> tuple[DayStretch, ...]:
    """The stretch by which each date from `first` to `last` is judged. Empty if its policy cannot be read."""
    policy = assignment.policy
    try:
        return days.stretches(policy.schedule.period, policy.weekly_window, first, last)
    except ValueError:
        return ()


def _numbers(stretches: Sequence[DayStretch]) -> dict[DayStretch, int]:
    """The number of each stretch, as `width_bucket` counts them."""
    return {stretch: number for number, stretch in enumerate(dict.fromkeys(stretches), 1)}


def _found(
    assignments: Sequence[Assignment], by_policy: dict[int, tuple[DayStretch, ...]], now: datetime
) -> dict[tuple[int, int], DayFacts]:
    bounds = [
        (policy, instant)
        for policy, all_of in by_policy.items()
        for instant in sorted({each.begins for each in all_of} | {each.ends for each in all_of})
    ]
    values: dict[str, Any] = {
        "policy": [policy for policy, _ in bounds],
        "bounds": [instant for _, instant in bounds],
        "assignments": [each.pk for each in assignments],
        "now": now,
    }
    return {(assignment, number): DayFacts(*facts) for assignment, number, *facts in execute(FOUND, values).fetchall()}


def idle_of(assignments: Sequence[Assignment]) -> dict[int, list[Idle]]:
    """Assignment id → the times in which no backup of it was wanted."""
    sources, policies = ({getattr(each, name) for each in assignments} for name in ("source_id", "policy_id"))
    of_sources, of_policies = defaultdict[int | None, list[Idle]](list), defaultdict[int | None, list[Idle]](list)
    for each in Pause.objects.filter(Q(source__in=sources) | Q(policy__in=policies)).order_by("since"):
        of_sources[each.source_id].append(Idle(PAUSED, each.since, each.until))
        of_policies[each.policy_id].append(Idle(DISABLED, each.since, each.until))
    present = Hold.objects.values_list("since", Value(None, DateTimeField()))
    past = PastHold.objects.values_list("since", "until")
    holds = [Idle(HELD, *times) for times in past.union(present).order_by("since")]
    return {each.pk: [*of_sources[each.source_id], *of_policies[each.policy_id], *holds] for each in assignments}


def note_enabled(policy: Policy, now: datetime | None = None) -> None:
    """Keep from when until when a policy is disabled. Called when that may have changed, with the policy locked."""
    is_open = Pause.objects.filter(policy=policy, until=None)
    if policy.schedule.enabled:
        is_open.update(until=now or database_clock())
    elif not is_open.exists():
        Pause.objects.create(policy=policy, since=now or database_clock())


def prune(before: datetime) -> int:
    """Forget the pauses and holds that were over by then: no day is judged by them. Returns how many."""
    return sum(model._default_manager.filter(until__lt=before).delete()[0] for model in (Pause, PastHold))


@dataclass(frozen=True)
class Account:
    """The events of an assignment in the stretch by which a day is judged."""

    assignment: Assignment
    day: Day
    stretch: DayStretch | None
    attempts: list[Attempt]
    idle: list[Idle]


def account_of(assignment: Assignment, day: date, now: datetime) -> Account:
    """A day of an assignment, to the attempt."""
    [judged] = days_of([assignment], [day], now)[assignment.pk]
    stretch = next(iter(stretches_of(assignment, day, day)), None)
    if stretch is None:
        return Account(assignment, judged, None, [], [])
    records = BacklogRecord.objects.filter(kind=KIND, subject=subject_of(assignment.pk))
    ids = [
        *records.filter(finished_at__gte=stretch.begins).values_list("pk", flat=True),
        *records.unfinished().values_list("pk", flat=True),
    ]
    attempts = Attempt.objects.filter(record__in=ids, ended_at__gte=stretch.begins, started_at__lt=stretch.ends)
    idle = [
        each
        for each in idle_of([assignment])[assignment.pk]
        if each.since < stretch.ends and (each.until is None or each.until > stretch.begins)
    ]
    return Account(assignment, judged, stretch, list(attempts.order_by("started_at", "record_id", "number")), idle)
