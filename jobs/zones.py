"""The time zone that a row names. Python's rules decide, never those of the database server: it may lack a zone that a
form has accepted, such as Debian's `US/Eastern` without tzdata-legacy, or have another year's rules.
"""

from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

OFFSETS_OF = timedelta(days=3 * 366)
"""The past for which the offsets of a zone are looked up; before that the earliest found holds."""
_STEP = timedelta(days=1)
_SECOND = timedelta(seconds=1)


def zone_of(name: str) -> ZoneInfo:
    """The zone of that name, or UTC if there is none, since the name was not written by a form: so days can be counted,
    records settled, and points restored. The doctor, the watchdog and the pages of sources report the wrong name."""
    try:
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError):
        return ZoneInfo("UTC")


def in_zone(instant: datetime, zone: tzinfo) -> datetime:
    """The instant in that zone; at an end of the calendar, where the zone's own time is one that Python does not have,
    the nearest that it has: tables accept the years 1 to 9999 in UTC, whose last second is of the year 10000 in Berlin.
    """
    try:
        return instant.astimezone(zone)
    except OverflowError:
        return datetime.max.replace(tzinfo=zone) if instant.year > 1 else datetime.min.replace(tzinfo=zone)


def utc_offsets(name: str, until: datetime) -> tuple[tuple[datetime | None, int], ...]:
    """The zone's offsets from UTC in the years before `until`, in order: since when (UTC; None for the first), and
    seconds east. For statements that count local days of many instants.
    """
    return _offsets(name, until.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0) + _STEP)


@lru_cache(maxsize=1000)
def _offsets(name: str, until: datetime) -> tuple[tuple[datetime | None, int], ...]:
    zone, at = zone_of(name), until - OFFSETS_OF
    found: list[tuple[datetime | None, int]] = [(None, _offset(zone, at))]
    while at < until:
        if _offset(zone, at + _STEP) != found[-1][1]:
            found.append(_change_after(zone, at))
        at += _STEP
    return tuple(found)


def _change_after(zone: ZoneInfo, low: datetime) -> tuple[datetime, int]:
    """The first second, within a step after `low`, with another offset, and that offset."""
    before, high = _offset(zone, low), low + _STEP
    while high - low > _SECOND:
        middle = low + (high - low) // 2
        middle = middle.replace(microsecond=0)
        low, high = (middle, high) if _offset(zone, middle) == before else (low, middle)
    return high, _offset(zone, high)


def _offset(zone: ZoneInfo, instant: datetime) -> int:
    offset = instant.astimezone(zone).utcoffset()
    return int(offset.total_seconds()) if offset else 0
