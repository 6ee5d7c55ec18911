"""Cron expressions in a time zone: when a period begins. Pure; the rules of daylight saving are cronsim's.

A local time that does not exist (a gap) fires at the first valid instant; one that exists twice (a fold)
fires once. All instants that come out are aware and in UTC.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

_ANY = datetime(2000, 1, 1, tzinfo=UTC)


@cache
def _zones() -> frozenset[str]:
    return frozenset(available_timezones())


@cache
def check_zone(zone: str) -> None:
    """Raises: ValueError when `zone` is not the name of an IANA time zone."""
    if zone not in _zones():
        raise ValueError(f"unknown time zone {zone!r}; use an IANA name, as Europe/Berlin or UTC")


@cache
def check_expression(expression: str) -> None:
    """Raises: ValueError when `expression` is not five-field cron, or can never fire (30 February)."""
    if len(expression.split()) != 5:
        raise ValueError(
            f"cron {expression!r} has {len(expression.split())} fields, not 5 "
            "(minute, hour, day of month, month, day of week), as in `0 9 * * 1-5`"
        )
    try:
        next(CronSim(expression, _ANY))
    except CronSimError as error:
        raise ValueError(f"cron {expression!r}: {error}") from error
    except StopIteration:
        raise ValueError(f"cron {expression!r} never fires: no such date exists") from None


@dataclass(frozen=True)
class Period:
    """What a cron expression in a zone divides time into: each trigger begins a new period."""

    expression: str
    zone: str

    @property
    def tzinfo(self) -> ZoneInfo:
        """The zone in which its days are counted."""
        return ZoneInfo(self.zone)

    def next_after(self, instant: datetime) -> datetime:
        """The first trigger strictly after `instant` (aware). Returns an aware UTC instant."""
        return next(self.after(instant))

    def after(self, instant: datetime) -> Iterator[datetime]:
        """All triggers strictly after `instant`, in order."""
        previous = instant
        for trigger in CronSim(self.expression, instant.astimezone(self.tzinfo)):
            found = trigger.astimezone(UTC)
            if found > previous:
                previous = found
                yield found

    def current(self, instant: datetime) -> datetime:
        """The last trigger at or before `instant`: the start of the period that it lies in."""
        search = (instant + timedelta(seconds=1)).replace(microsecond=0).astimezone(self.tzinfo)
        for trigger in CronSim(self.expression, search, reverse=True):
            if (found := trigger.astimezone(UTC)) <= instant:
                return found
        raise ValueError(f"cron {self.expression!r} never fired before {instant.isoformat()}")
