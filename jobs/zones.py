"""The time zone that a row names."""

from zoneinfo import ZoneInfo


def zone_of(name: str) -> ZoneInfo:
    """UTC where `name`, which was written past the forms, is that of none: days are counted in that, so that records
    are settled, and points restored. The doctor, the watchdog and the pages of sources say what has to be corrected."""
    try:
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError):
        return ZoneInfo("UTC")
