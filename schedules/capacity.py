"""The check whether the batches of a schedule complete in their windows, with one curve of its load.

    check(schedule, now) -> Capacity

Arrivals follow from cron, events and stagger, minute by minute over seven days, with those of the schedules that share
its throttle. They fill a fluid queue, which is emptied at the least pace that the throttle and the workers allow. A
batch is through when the work that is in the queue at its last event is. Not considered: docs/decisions/0037.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import accumulate, islice, takewhile
from math import inf
from typing import NamedTuple

from django.db import connection

from jobs import conf
from jobs.clock import database_clock
from jobs.handlers import registry
from jobs.models import Throttle, Worker
from jobs.states import AttemptOutcome
from schedules import stagger
from schedules.cron import Period
from schedules.models import Schedule, Stagger
from schedules.time_limits import LONGEST_SECONDS, TimeCheck, within, without_limit

MINUTE, MINUTES = 60, 7 * 24 * 60
WORKER_PACE = 1_500.0
"""Events a second of one worker, however short: 2,000 to 3,000 callbacks were measured on two cores."""
ASSUMED_SECONDS = 1.0  # in flight, of an event of a schedule of which nothing has succeeded yet
LATE_FROM = 0.1  # seconds after the close of its window from which a batch is late: less is rounding
EXACT_EVENTS, MOST_STEPS = 5_000, 100_000
"""Beyond this many events per batch, or steps per week (10 ms) over all schedules, events count as spread evenly: exact
to one event per minute and batch.
"""

batches_provided: list[Callable[[list[int], TimeCheck], dict[int, tuple[int, float]]]] = []
"""One function for each provider: schedule ids → for the provider's schedules, the largest number of records of a
batch, and the least seconds for which they may run in a period. The second argument limits its time.
"""

SAMPLE, LEAST_SAMPLE = 200, 10
"""Records of each of the latest five triggers that are read for a median, also of a batch of a million: of all
schedules together, but at least this many of each."""

# `one_trigger_per_launch_time` has the latest triggers.
SECONDS = f"""
SELECT schedule.id, percentile_cont(0.5) WITHIN GROUP (ORDER BY CASE
           WHEN jsonb_typeof(a.facts -> 'seconds') = 'number' THEN (a.facts ->> 'seconds')::float8
           ELSE EXTRACT(epoch FROM a.ended_at - a.started_at) END)
  FROM unnest(%s::bigint[]) AS schedule(id)
 CROSS JOIN LATERAL (
       SELECT trigger_at FROM schedules_trigger
        WHERE schedule_id = schedule.id AND events > 0 ORDER BY trigger_at DESC LIMIT 5) AS trigger
 CROSS JOIN LATERAL (
       SELECT r.id FROM jobs_backlogrecord r
        WHERE r.origin_id = schedule.id AND r.trigger_at = trigger.trigger_at LIMIT %s) AS record
  JOIN jobs_attempt a ON a.record_id = record.id AND a.outcome = {AttemptOutcome.SUCCEEDED}
 GROUP BY schedule.id
"""


class Demand(NamedTuple):
    """A schedule, the number of its batches' events (the largest, if a provider yields them), and the seconds that one
    takes. `open_for`: seconds of a period in which those of a provider may run.
    """

    schedule: Schedule
    events: int
    seconds_each: float = ASSUMED_SECONDS
    is_measured: bool = False
    open_for: float = 0

    @property
    def window(self) -> float:
        """Seconds in which a batch is to complete. 0 if it may take any time."""
        return self.schedule.window_for or self.open_for


class Limits(NamedTuple):
    """A throttle, and the workers that live and serve the queue. Without one, one is assumed as the
    settings have it."""

    throttle: Throttle | None = None
    places: int = 0
    workers: int = 0

    def pace(self, seconds_each: float) -> tuple[float, str]:
        """Events per second if each is in flight for that long, and the name of the limit that is reached first."""
        each, throttle = max(seconds_each, 1e-9), self.throttle
        found = [(WORKER_PACE * max(1, self.workers), "the speed of the workers")]
        if self.places:
            found.append((self.places / each, "the concurrency of the workers"))
        if throttle:
            found.append((min(throttle.max_in_flight / each, throttle.rate or inf), f"the throttle {throttle.name}"))
        return min(found)


class Capacity(NamedTuple):
    """Seven days from `start` (aware UTC, a whole minute), which is just before its next trigger if that is later.

    `pace`, `needed_pace`: events per second that get through, 0 if the throttle is paused, and that a batch alone needs
    to complete in its window. `batch_takes`: the seconds of a batch alone. `load`: events that may start in each
    minute, with those of `others` that share its throttle. `ended`: each trigger and the seconds to the end of its
    batch; `late`: those that end after their window. `busy`: the requested share of the time.
    """

    demand: Demand
    others: list[str]
    limits: Limits
    pace: float
    limited_by: str
    needed_pace: float
    batch_takes: float
    start: datetime
    next_triggers: list[datetime]
    load: list[float]
    busiest: datetime
    ended: list[tuple[datetime, float]]
    late: list[tuple[datetime, float]]
    busy: float

    def columns(self, number: int) -> list[float]:
        """The load in that many columns, each as high as its busiest minute."""
        width = MINUTES // number
        return [max(self.load[first : first + width]) for first in range(0, MINUTES, width)]


def check(schedule: Schedule, now: datetime | None = None, seconds: float = LONGEST_SECONDS) -> Capacity:
    """The capacity of a schedule, saved or as it is edited, as if it were enabled, from `now` on (aware, by the
    database's clock).

    Raises: ValueError for a cron or zone that cannot be read, or when it takes more than `seconds`.
    """
    now = now or database_clock()
    what = f"the load of so many schedules under one throttle: `{conf.PROGRAM} schedules plan` does"
    check_time = within(seconds, what)
    sharing = Schedule.objects.filter(throttle=schedule.throttle, enabled=True).exclude(pk=schedule.pk).order_by("pk")
    demands = _demands([schedule, *(sharing if schedule.throttle else ())], check_time)
    return assess(demands, limits_of(schedule, now), now, check_time)


def assess(demands: Sequence[Demand], limits: Limits, now: datetime, check_time: TimeCheck = without_limit) -> Capacity:
    """The capacity of the schedule of the first of `demands`; the others are those that share its throttle. Pure.

    Schedules of a lower priority do not delay it; those of a higher or the same one are assumed to go first if they
    come first. Batches under way at the start are left out: an edit does not change them. `check_time` is called before
    each of the others, and may raise.
    """
    demand, schedule = demands[0], demands[0].schedule
    upcoming = list(islice(Period(schedule.cron, schedule.zone).after(now), 10))
    start = now.replace(second=0, microsecond=0)
    if upcoming[0] >= start + timedelta(minutes=MINUTES):
        start = upcoming[0] - timedelta(minutes=1)
    at = triggers(schedule.cron, schedule.zone, start, MINUTES)
    steps, last = steps_of_batch(demand, len(at), len(demands))
    behind = int(last // MINUTE)
    minutes = MINUTES + behind + 1  # the last batch is followed to its end
    pace, limited_by = limits.pace(demand.seconds_each)
    arriving = [(demand, at, steps)]
    for each in demands[1:]:
        check_time()
        with suppress(ValueError):  # stored past its form
            at_other = triggers(each.schedule.cron, each.schedule.zone, start, minutes)
            arriving.append((each, at_other, steps_of_batch(each, len(at_other), len(demands))[0]))
    load, work = [0.0] * minutes, [0.0] * minutes
    _add(load, ((at_each, steps, 1.0) for _, at_each, steps in arriving))
    if pace:
        _add(work, (
            (at_each, steps, 1 / limits.pace(each.seconds_each)[0])
            for each, at_each, steps in arriving if each.schedule.priority >= schedule.priority
        ))  # fmt: skip
    load, work, window = _levels(load)[:MINUTES], _levels(work), demand.window
    queue = queued(work)
    ends = [max(behind * MINUTE + queue[minute + behind], last) + demand.seconds_each for minute in at]
    ended = [(start + timedelta(minutes=minute), end) for minute, end in zip(at, ends, strict=True) if pace]
    return Capacity(
        demand, [each.schedule.name for each, *_ in arriving[1:]], limits, pace, limited_by,
        demand.events / window if window else 0.0,
        max(demand.events / pace, demand.seconds_each) if pace else inf, start, upcoming, load,
        start + timedelta(minutes=load.index(max(load))), ended,
        [each for each in ended if window and each[1] >= window + LATE_FROM], sum(work[:MINUTES]) / (MINUTES * MINUTE),
    )  # fmt: skip


@lru_cache(maxsize=64)
def triggers(cron: str, zone: str, start: datetime, minutes: int) -> tuple[int, ...]:
    """Triggers after `start` (aware, a whole minute), as minutes since it, each below `minutes`. Raises: ValueError."""
    found = (int((trigger_at - start).total_seconds()) // MINUTE for trigger_at in Period(cron, zone).after(start))
    return tuple(takewhile(lambda minute: minute < minutes, found))


def steps_of_batch(demand: Demand, batches: int, among: int = 1) -> tuple[list[tuple[int, float]], float]:
    """The arrivals of each of `batches` batches, and the seconds from its trigger to its last event.

    Cron's triggers are on whole minutes and stagger puts each batch's events at the same places, so batches are alike.
    They are steps (minute after the trigger, change in events per minute): a spread batch is nearly level and has few.
    `among`: the number of schedules in the assessment.
    """
    schedule, window = demand.schedule, demand.schedule.window_for
    if schedule.stagger != Stagger.EVEN or not window or not demand.events:
        return [(0, demand.events), (1, -demand.events)], 0.0
    if demand.events * among <= EXACT_EVENTS:
        places = stagger.offsets(demand.events, window, schedule.pk or 0)
        count = Counter(int(place // MINUTE) for place in places)
        edges = sorted({edge for minute in count for edge in (minute, minute + 1)})
        steps = [(minute, float(step)) for minute in edges if (step := count[minute] - count[minute - 1])]
        if len(steps) * batches * among <= MOST_STEPS:
            return steps, max(places)
    usable = stagger.usable_for(window)
    whole, part = int(usable // MINUTE), usable / MINUTE % 1
    level = demand.events / (usable / MINUTE)
    return [(0, level), (whole, level * (part - 1)), (whole + 1, -level * part)], usable


def queued(work: Iterable[float]) -> list[float]:
    """Seconds of work in the queue once each minute's `work` has come to it, before that minute is worked off."""
    return list(accumulate(work, lambda left, coming: max(0.0, left - MINUTE) + coming))


def _add(to: list[float], arriving: Iterable[tuple[tuple[int, ...], Sequence[tuple[int, float]], float]]) -> None:
    """Add the steps of batches, weighted, at each minute at which they trigger. Those that trigger together are one."""
    together: dict[tuple[int, ...], dict[int, float]] = {}
    for at, steps, weight in arriving:
        at_these = together.setdefault(at, defaultdict(float))
        for after, step in steps:
            at_these[after] += step * weight
    for at, at_these in together.items():
        for after, step in at_these.items():
            for trigger in at[: bisect_left(at, len(to) - after)]:
                to[trigger + after] += step


def _levels(steps: Iterable[float]) -> list[float]:
    """The sums of steps, minute by minute, without rounding errors."""
    return [max(0.0, round(level, 5)) for level in accumulate(steps)]


def limits_of(schedule: Schedule, now: datetime) -> Limits:
    """Its throttle, and the workers that are alive at `now` and serve the queue in which its records do their work."""
    rules, home_queue = conf.queue_rules(), registry.kind(schedule.kind).home_queue
    queue = (home_queue in rules and rules[home_queue].feeds) or home_queue
    places = [worker.queues[queue] for worker in Worker.alive(now) if worker.queues.get(queue)]
    assumed = rules[queue].concurrency if queue in rules else 0
    return Limits(schedule.throttle, sum(places) or assumed, len(places))


def _demands(schedules: Sequence[Schedule], check_time: TimeCheck) -> list[Demand]:
    ids = [schedule.pk for schedule in schedules if schedule.pk]
    with connection.cursor() as cursor:
        cursor.execute(SECONDS, [ids, max(LEAST_SAMPLE, SAMPLE // max(1, len(ids)))])
        took = dict(cursor.fetchall())
    provided = [schedule.pk for schedule in schedules if schedule.provider]
    found = {pk: batch for ask in batches_provided for pk, batch in ask(provided, check_time).items()}
    demands = []
    for each in schedules:
        events, open_for = found.get(each.pk, (0, 0)) if each.provider else (each.event_count or 0, 0)
        seconds_each = took.get(each.pk, ASSUMED_SECONDS)
        demands.append(Demand(each, events, seconds_each, each.pk in took, open_for))
    return demands
