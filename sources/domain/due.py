"""The next-backup date of an assignment, and the day of that date. Pure: `now` is always an argument."""

from datetime import date, datetime

from jobs.zones import in_zone, zone_of
from schedules.cron import Period


def next_backup_at(period: Period, started_at: datetime, now: datetime) -> datetime:
    """The first trigger after the period in which the last backup started. Returns an aware UTC instant.

    Neither the end of the backup nor how late it began matters, so nothing drifts. A start in the future (the clock has
    been set back since) counts as `now`: it does not put the next backup off beyond the next trigger.
    """
    return period.next_after(min(started_at, now))


def due_day(next_backup_at: datetime | None, zone: str) -> date | None:
    """The local date of a next-backup date in the policy's zone. None if never backed up, which comes first."""
    return in_zone(next_backup_at, zone_of(zone)).date() if next_backup_at else None
