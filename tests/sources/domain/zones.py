"""Days on which the clocks of a zone jump, and instants as people write them."""

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

from sources.domain.windows import Opening, Window

MISSING_MIDNIGHTS = [
    ("Africa/Cairo", date(2024, 4, 26), "2024-04-25T22:00"),
    ("Asia/Beirut", date(2022, 3, 27), "2022-03-26T22:00"),
    ("America/Havana", date(2024, 3, 10), "2024-03-10T05:00"),
    ("America/Santiago", date(2023, 9, 3), "2023-09-03T04:00"),
]
"""Zone, a date whose midnight its clocks skip, and the UTC instant at which they jump to 01:00."""

CHANGES = [
    ("Europe/Berlin", date(2026, 3, 29)),
    ("Europe/Berlin", date(2026, 10, 25)),
    ("Australia/Lord_Howe", date(2026, 10, 4)),
    ("Australia/Lord_Howe", date(2026, 4, 5)),
    ("America/Havana", date(2026, 11, 1)),
    ("Africa/Cairo", date(2024, 11, 1)),
    ("Pacific/Apia", date(2011, 12, 31)),
    ("America/St_Johns", date(2010, 11, 7)),
    *((zone, day) for zone, day, _ in MISSING_MIDNIGHTS),
]
"""Zones and dates on which their clocks jump; in Cairo and St John's back over midnight."""


def utc(text: str) -> datetime:
    """A UTC instant written without an offset."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def wall(text: str, zone: str, fold: int = 0) -> datetime:
    """The UTC instant at which the clocks of `zone` show `text`, which has no offset."""
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold).astimezone(UTC)


def opening_of(window: Window, now: str) -> Opening:
    found = window.current_or_next(utc(now))
    assert found is not None
    return found


def window(zone: str, start: str, end: str, days: str = "mon-sun") -> Window:
    return Window.parse([{"days": days, "start": start, "end": end}], zone)
