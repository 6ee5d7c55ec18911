"""What a plan is made from: the schedule as edited, those that share its throttle, how long events take, who works."""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from django.db import connection

from jobs import conf
from jobs.clock import database_clock
from jobs.handlers import registry
from jobs.models import Worker
from jobs.states import AttemptOutcome
from schedules.cron import check_expression, check_zone
from schedules.models import Schedule, Stagger
from schedules.plan import Plan, plan
from schedules.plan_load import Planned
from schedules.plan_queue import Gate
from schedules.plan_sentences import Sentence
from schedules.plan_warnings import sentences_of

ASSUMED_SECONDS = 1.0
"""In flight, of an event of a schedule of which nothing has succeeded yet."""

Sizes = Callable[[list[int]], dict[int, int]]
sizes: dict[str, Sizes] = {}
"""By provider: how many records a batch has at most, of schedules by id."""

# The latest five triggers by steps along `one_record_per_trigger_and_subject`, and 200 records of each: enough for a
# median, and no more to read when a batch has a million.
SECONDS = f"""
SELECT asked.id, percentile_cont(0.5) WITHIN GROUP (ORDER BY CASE
           WHEN jsonb_typeof(a.facts -> 'seconds') = 'number' THEN (a.facts ->> 'seconds')::float8
           ELSE EXTRACT(epoch FROM a.ended_at - a.started_at)
       END)
  FROM unnest(%(ids)s::bigint[]) AS asked(id)
 CROSS JOIN LATERAL (
       WITH RECURSIVE latest(trigger_at, number) AS (
            SELECT (SELECT max(trigger_at)
                      FROM jobs_backlogrecord
                     WHERE origin_id = asked.id AND trigger_at IS NOT NULL), 1
             UNION ALL
            SELECT (SELECT max(r.trigger_at)
                      FROM jobs_backlogrecord r
                     WHERE r.origin_id = asked.id AND r.trigger_at < latest.trigger_at), latest.number + 1
              FROM latest
             WHERE latest.trigger_at IS NOT NULL AND latest.number < 5)
       SELECT trigger_at FROM latest) AS trigger
 CROSS JOIN LATERAL (
       SELECT id
         FROM jobs_backlogrecord r
        WHERE r.origin_id = asked.id AND r.trigger_at = trigger.trigger_at
        LIMIT 200) AS record
  JOIN jobs_attempt a ON a.record_id = record.id AND a.outcome = {AttemptOutcome.SUCCEEDED}
 GROUP BY asked.id
"""


def plan_of(schedule: Schedule, now: datetime | None = None) -> Plan:
    """The plan of a schedule, saved or as it is edited, from `now` on (aware; the database's clock).

    It is planned as if it were enabled. Raises: ValueError for a cron or zone that cannot be read.
    """
    check_expression(schedule.cron)
    check_zone(schedule.zone)
    now = now or database_clock()
    beside: list[Schedule] = []
    if schedule.throttle is not None:
        sharing = Schedule.objects.filter(throttle=schedule.throttle, enabled=True).exclude(pk=schedule.pk)
        beside = [other for other in sharing.order_by("pk") if _can_be_read(other)]
    planned = _planned([schedule, *beside])
    return plan(planned[0], planned[1:], gate_of(schedule, now), now)


def told_plan(schedule: Schedule, now: datetime | None = None) -> tuple[Plan, list[Sentence]]:
    """The plan of a schedule as `plan_of` makes it, and everything that is said about it, the verdict first."""
    found = plan_of(schedule, now)
    return found, sentences_of(found, schedule.overlap, enabled=schedule.enabled)


def gate_of(schedule: Schedule, now: datetime) -> Gate:
    """What holds its events back: its throttle, and the workers that live at `now`."""
    throttle, served = schedule.throttle, _served(schedule.kind, now)
    places = sum(served) if served else None
    if throttle is None:
        return Gate(places=places, workers=len(served))
    burst = throttle.bucket_size if throttle.rate else 0.0
    return Gate(throttle.max_in_flight, throttle.rate, burst, places, throttle.name, len(served))


def _served(kind: str, now: datetime) -> list[int]:
    """How many records of a kind each worker that lives at `now` and serves its queue runs at once."""
    home_queue = registry.kind(kind).home_queue
    rule = conf.queue_rules().get(home_queue)
    queue = rule.feeds if rule and rule.feeds else home_queue
    alive = Worker.objects.filter(stopped_at=None, heartbeat_at__gt=now - timedelta(seconds=conf.lease_seconds()))
    return [worker.queues[queue] for worker in alive if worker.queues.get(queue)]


def seconds_each(ids: Iterable[int]) -> dict[int, float]:
    """How long an event of these schedules is in flight, by the median of their latest successes; without: left out."""
    with connection.cursor() as cursor:
        cursor.execute(SECONDS, {"ids": list(ids)})
        return dict(cursor.fetchall())


def _planned(schedules: list[Schedule]) -> list[Planned]:
    took = seconds_each(schedule.pk for schedule in schedules if schedule.pk)
    counted = _sizes_of(schedules)
    return [
        Planned(
            name=schedule.name,
            cron=schedule.cron,
            zone=schedule.zone,
            events=counted.get(schedule.pk, 0) if schedule.provider else schedule.event_count or 0,
            window_for=schedule.window_for,
            staggered=schedule.stagger == Stagger.EVEN,
            seconds_each=took.get(schedule.pk, ASSUMED_SECONDS),
            assumed=schedule.pk not in took,
            priority=schedule.priority,
            id=schedule.pk or 0,
            at_most=bool(schedule.provider),
        )
        for schedule in schedules
    ]


def _sizes_of(schedules: list[Schedule]) -> dict[int, int]:
    found: dict[int, int] = {}
    for provider, ask in sizes.items():
        if ids := [schedule.pk for schedule in schedules if schedule.provider == provider and schedule.pk]:
            found |= ask(ids)
    return found


def _can_be_read(schedule: Schedule) -> bool:
    """Whether its cron and zone are valid: rows written past the forms must not spoil the plan of another."""
    try:
        check_expression(schedule.cron)
        check_zone(schedule.zone)
    except ValueError:
        return False
    return True
