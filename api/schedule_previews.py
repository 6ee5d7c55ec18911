"""The next triggers of a schedule, with when their first and last events may start. Pure but for the clock."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from jobs.clock import database_clock
from schedules.cron import check_expression, check_zone
from schedules.models import Schedule, Stagger
from schedules.stagger import offsets


def preview(schedule: Schedule, count: int, start: datetime | None = None) -> list[dict[str, Any]]:
    """The first `count` triggers after `start` (aware; None: now).

    Raises: ValueError, OverflowError for a cron or zone that cannot be read, or a start that leads out of the calendar.
    """
    check_expression(schedule.cron)
    check_zone(schedule.zone)
    first, last = _bounds(schedule)
    window = timedelta(seconds=schedule.window_for) if schedule.window_for else None
    return [
        {
            "trigger_at": at,
            "trigger_at_local": at.astimezone(schedule.period.tzinfo).isoformat(),
            "events": schedule.event_count or 0,
            "first_at": at + first,
            "last_at": at + last,
            "closes_at": at + window if window else None,
        }
        for at in _triggers(schedule, count, start or database_clock())
    ]


def _triggers(schedule: Schedule, count: int, start: datetime) -> Iterator[datetime]:
    return islice(schedule.period.after(start), count)


def _bounds(schedule: Schedule) -> tuple[timedelta, timedelta]:
    """How long after a trigger its first and its last event may start."""
    if schedule.stagger != Stagger.EVEN or not schedule.event_count:
        return timedelta(0), timedelta(0)
    found = offsets(schedule.event_count, schedule.window_for, schedule.pk)
    return timedelta(seconds=min(found)), timedelta(seconds=max(found))
