"""Which triggers of a schedule are due, and how far its watermark moves. Pure.

The watermark (`Schedule.next_trigger_at`) is the first trigger that nobody has dealt with yet. What lies between it and
the present is due, whether the emitter slept for a second or was down for three days:

* a schedule that catches up within N seconds gets every trigger not older than that, the oldest first;
* one that does not say gets only the last;
* what is passed over is counted, for one line in the log of decisions.

A schedule without a watermark is new: a policy begins with the period that runs, an event schedule with the next.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice, takewhile

from jobs.cron import Period, check_expression, check_zone
from jobs.models import Schedule

log = logging.getLogger(__name__)

ON_TIME_FOR = timedelta(seconds=90)
"""A trigger seen so long after its instant was not missed: without any worker the tick comes once a minute."""

AT_ONCE = 100
"""Triggers of one schedule that a tick takes on; the others follow at the next. A year has 525,600 minutes."""

COUNTED = 1000
"""Triggers passed over are counted up to here: a year of minutes takes half a minute to count."""

LOOK_AT_BROKEN_AGAIN = timedelta(minutes=1)
"""After which a schedule whose cron or zone is invalid is complained about again, unless it is saved before."""

_INSTANT = timedelta(microseconds=1)


@dataclass(frozen=True)
class Due:
    """What a schedule has to emit: `triggers`, the oldest first. `next_trigger_at`: its watermark after that.

    `passed_over`: how many older triggers are not made up for; COUNTED means that many or more.
    """

    triggers: tuple[datetime, ...]
    next_trigger_at: datetime
    passed_over: int = 0


def due(schedule: Schedule, now: datetime) -> Due:
    """What `schedule`, whose cron and zone are valid, has to emit at `now` (aware)."""
    period, watermark = schedule.period, schedule.next_trigger_at
    if watermark is None:
        return Due((period.current(now),) if schedule.provider else (), period.next_after(now))
    if schedule.catch_up_for is None:
        return _only_the_last(schedule, watermark, now)
    since = max(watermark, now - oldest_made_up_for(schedule.catch_up_for))
    taken = tuple(islice(_between(period, since, now), AT_ONCE))
    more = len(taken) == AT_ONCE
    return Due(
        triggers=taken,
        next_trigger_at=period.next_after(taken[-1]) if more else period.next_after(now),
        passed_over=_count(period, watermark, since),
    )


def oldest_made_up_for(catch_up_for: int) -> timedelta:
    """How old a trigger may be: `catch_up_for` in seconds, and never so little that one on time counts as missed."""
    return max(timedelta(seconds=catch_up_for), ON_TIME_FOR)


def _only_the_last(schedule: Schedule, watermark: datetime, now: datetime) -> Due:
    period = schedule.period
    last = period.current(now)
    if last < watermark:  # its cron was changed past the forms: no trigger of the new one lies in between
        return Due((last,) if schedule.provider else (), period.next_after(now))
    return Due((last,), period.next_after(now), _count(period, watermark, last))


def _count(period: Period, since: datetime, before: datetime) -> int:
    """How many triggers lie in [since, before), up to COUNTED."""
    if since >= before:
        return 0
    return sum(1 for _ in islice(_between(period, since, before - _INSTANT), COUNTED))


def _between(period: Period, first: datetime, last: datetime) -> Iterator[datetime]:
    """The triggers in [first, last], in order."""
    return takewhile(lambda trigger_at: trigger_at <= last, period.after(first - _INSTANT))


def can_emit(schedule: Schedule) -> bool:
    """Whether its cron and zone are valid: rows written past the forms must not stop the others."""
    try:
        check_expression(schedule.cron)
        check_zone(schedule.zone)
    except ValueError as error:
        log.error("schedule %s emits nothing: %s", schedule, error)
        return False
    return True
