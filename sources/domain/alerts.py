"""How well an assignment is protected, and between which limits it is overdue. Pure: `now` is always an argument.

An assignment is overdue when its last success (or, without one, its insertion) lies too far back: `alert_after`
seconds, or, where the policy names none, a whole period missed: the trigger after its next-backup date has passed, too.
It stays overdue until a success that lies clearly nearer (0.8 × `alert_after`, or in the current period), so what
wobbles about the limit raises one alert and not one each day.

The age counts from the last success, or from its next-backup date if that is earlier (a start that lies after it was a
wrong clock's). Both limits are the same for all assignments of a policy, so one statement looks at all of them
(`sources/alerts.py`).
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from schedules.cron import Period

CLEARED_BELOW = 0.8
"""Of `alert_after`: how old the last success may be for an alert to end."""

SMALLEST_STEP = timedelta(microseconds=1)
"""Of PostgreSQL's timestamps and of Python's: what makes `<` of `≤`."""


class AlertState(StrEnum):
    """What people read of an assignment."""

    NEVER = "never"
    """No success yet. For too long: `overdue_since` is set, too."""
    PROTECTED = "protected"
    """Its next-backup date lies ahead."""
    DUE = "due"
    """Its next-backup date has come."""
    OVERDUE = "overdue"
    """It has a success, but has not been backed up for too long."""


@dataclass(frozen=True)
class Thresholds:
    """Overdue when it counts from before `raise_before`, until it counts from after `clear_after`."""

    raise_before: datetime
    clear_after: datetime


def thresholds(period: Period, alert_after: float | None, now: datetime) -> Thresholds:
    """The limits of all assignments of a policy at `now`. `alert_after` in seconds; None: a whole period missed."""
    if alert_after is not None:
        clear_after = now - timedelta(seconds=CLEARED_BELOW * alert_after)
        return Thresholds(now - timedelta(seconds=alert_after) + SMALLEST_STEP, clear_after)
    before, began, _ = period.around(now)
    return Thresholds(before, began - SMALLEST_STEP)
