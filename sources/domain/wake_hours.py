"""The hours of the day in which a source was ever there: outside them there is nothing for a magic packet to wake.

A set of hours is a number: bit n is the hour from n o'clock UTC on. Summer time moves a habit by one hour, and an hour
on either side of each counts as well.
"""

from datetime import datetime, timedelta

HOUR = timedelta(hours=1)
OUTSIDE_THEM_EACH = timedelta(hours=12)
"""A packet is sent nevertheless: a source may have taken up other hours."""


def seen(since: datetime, until: datetime) -> int:
    """The hours that the time from `since` to `until` (aware UTC, not before `since`) touches."""
    first = since.replace(minute=0, second=0, microsecond=0)
    count = min(24, int((until - first) / HOUR) + 1)
    found = 0
    for hour in range(first.hour, first.hour + count):
        found |= 1 << hour % 24
    return found


def allow(hours: int, last_woken_at: datetime | None, now: datetime) -> bool:
    """True if a packet may be sent at `now` to a source that was there in `hours`. 0 if none is known,
    and any will do.
    """
    if not hours or last_woken_at is None or abs(now - last_woken_at) >= OUTSIDE_THEM_EACH:
        return True
    return any(hours >> (now.hour + step) % 24 & 1 for step in (-1, 0, 1))
