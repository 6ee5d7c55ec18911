"""How well an assignment is protected, and since when it is overdue. Pure: `now` is always an argument.

An assignment is overdue when its last success (or, without one, its insertion) lies too far back: `alert_after`
seconds, or, where the policy names none, a whole period missed: the trigger after its next-backup date has passed, too.
It stays overdue until a success that lies clearly nearer (0.8 × `alert_after`, or in the current period), so what
wobbles about the limit is told once and not each day.

The age counts from `counted_from`; both limits are the same for all assignments of a policy (`thresholds`), so one
statement can look at all of them.
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
    """What people are told of an assignment."""

    NEVER = "never"
    """No success yet. For too long: `overdue_since` is set, too."""
    PROTECTED = "protected"
    """Its next-backup date lies ahead."""
    DUE = "due"
    """Its next-backup date has come."""
    OVERDUE = "overdue"
    """It has a success, but has not been backed up for too long."""


@dataclass(frozen=True)
class AlertFacts:
    """What is stored of an assignment; all instants are aware."""

    inserted_at: datetime
    last_backup_at: datetime | None = None
    next_backup_at: datetime | None = None
    overdue_since: datetime | None = None

    @property
    def counted_from(self) -> datetime:
        """From when it is without a backup. A start that lies after its own next-backup date was a wrong clock's.

        In SQL: coalesce(least(last_backup_at, next_backup_at), inserted_at).
        """
        if self.last_backup_at is None:
            return self.inserted_at
        return min(self.last_backup_at, self.next_backup_at or self.last_backup_at)


@dataclass(frozen=True)
class Thresholds:
    """Overdue from `counted_from` < `raise_before`, until a success with `counted_from` > `clear_after`."""

    raise_before: datetime
    clear_after: datetime


def thresholds(period: Period, alert_after: float | None, now: datetime) -> Thresholds:
    """The limits of all assignments of a policy at `now`. `alert_after` in seconds; None: a whole period missed."""
    if alert_after is not None:
        clear_after = now - timedelta(seconds=CLEARED_BELOW * alert_after)
        return Thresholds(now - timedelta(seconds=alert_after) + SMALLEST_STEP, clear_after)
    before, began, _ = period.around(now)
    return Thresholds(before, began - SMALLEST_STEP)


def overdue_since(facts: AlertFacts, period: Period, alert_after: float | None, now: datetime) -> datetime | None:
    """The new value of `overdue_since`: `now` when it begins, the old one while it lasts, None when it is over."""
    limits = thresholds(period, alert_after, now)
    if facts.overdue_since is not None:
        over = facts.last_backup_at is not None and facts.counted_from > limits.clear_after
        return None if over else facts.overdue_since
    return now if facts.counted_from < limits.raise_before else None


def state(facts: AlertFacts, period: Period, alert_after: float | None, now: datetime) -> AlertState:
    """What is told of the assignment at `now`, whether or not `overdue_since` has been brought up to date yet."""
    if facts.last_backup_at is None:
        return AlertState.NEVER
    if overdue_since(facts, period, alert_after, now) is not None:
        return AlertState.OVERDUE
    if facts.next_backup_at is not None and now < facts.next_backup_at:
        return AlertState.PROTECTED
    return AlertState.DUE
