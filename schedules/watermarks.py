"""The due triggers of a schedule, and the new position of its watermark. Pure.

The watermark (`Schedule.next_trigger_at`) is the first trigger that has not been dealt with. Every trigger between it
and the present is due, whether the emitter slept for a second or was down for three days:

* a schedule that catches up within N seconds gets every trigger not older than that, the oldest first;
* one without such a limit gets only the last;
* skipped triggers are named by the first and last instant, in one line of the log of decisions. Counting them took
  15 ms a thousand: 3,000 schedules of `*/5` that were off for a week held up their worker for 45 s.

A schedule without a watermark is new: a policy begins with the period that runs, an event schedule with the next.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice, takewhile

from jobs.set_aside import name_once
from schedules.cron import Period
from schedules.models import Schedule

ON_TIME_FOR = timedelta(seconds=90)
"""A trigger that is seen this late was not missed: without any worker the tick comes only once a minute."""

AT_ONCE = 100
"""The most triggers of one schedule in one tick; the others follow at the next. A year has 525,600 minutes."""

_INSTANT = timedelta(microseconds=1)


@dataclass(frozen=True)
class DueTriggers:
    """The triggers that a schedule has to emit, the oldest first. `next_trigger_at`: its watermark after that.

    `skipped`: the first and the last of the older triggers that are not caught up, None if there are none.
    """

    triggers: tuple[datetime, ...]
    next_trigger_at: datetime
    skipped: tuple[datetime, datetime] | None = None


def due(schedule: Schedule, now: datetime) -> DueTriggers:
    """The triggers that `schedule` has to emit at `now` (aware). Raises: ValueError if its cron or zone is invalid."""
    period, watermark = schedule.period, schedule.next_trigger_at
    if watermark is None:
        return DueTriggers((period.current(now),) if schedule.provider else (), period.next_after(now))
    if schedule.catch_up_for is None:
        return _only_the_last(schedule, period, watermark, now)
    since = max(watermark, now - oldest_caught_up(schedule.catch_up_for))
    taken = tuple(islice(_between(period, since, now), AT_ONCE))
    more = len(taken) == AT_ONCE
    return DueTriggers(
        triggers=taken,
        next_trigger_at=period.next_after(taken[-1]) if more else period.next_after(now),
        skipped=_skipped(period, watermark, since),
    )


def oldest_caught_up(catch_up_for: int) -> timedelta:
    """The greatest age of a trigger: `catch_up_for` in seconds, and never so little that one on time
    counts as missed.
    """
    return max(timedelta(seconds=catch_up_for), ON_TIME_FOR)


def _only_the_last(schedule: Schedule, period: Period, watermark: datetime, now: datetime) -> DueTriggers:
    last = period.current(now)
    if last < watermark:  # its cron was changed outside of the forms: no trigger of the new one is in between
        return DueTriggers((last,) if schedule.provider else (), period.next_after(now))
    return DueTriggers((last,), period.next_after(now), _skipped(period, watermark, last))


def _skipped(period: Period, since: datetime, before: datetime) -> tuple[datetime, datetime] | None:
    """The first and the last trigger in [since, before)."""
    first = period.next_after(since - _INSTANT)
    return (first, period.current(before - _INSTANT)) if first < before else None


def _between(period: Period, first: datetime, last: datetime) -> Iterator[datetime]:
    """The triggers in [first, last], in order."""
    return takewhile(lambda trigger_at: trigger_at <= last, period.after(first - _INSTANT))


def can_emit(schedule: Schedule) -> bool:
    """True if its cron and zone are valid: rows written outside of the forms must not stop the others."""
    try:
        schedule.period.check()
    except ValueError as error:
        name_once(f"schedule {schedule} emits nothing: {error}")
        return False
    return True
