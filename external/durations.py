"""Durations as users write them, such as `90s`, `15m`, `2h` or `7d`, and as they read them. Stored they are seconds.
Pure.
"""

import re
from argparse import ArgumentTypeError
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise

UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400, "y": 365 * 86_400}
PATTERN = r"[0-9]{1,15}(\.[0-9]{1,6})?[smhdwy]?"
"""The pattern of a duration, for descriptions of accepted values."""

SIZES = {"d": 86_400, "h": 3600, "min": 60, "s": 1}
"""Units as users read them."""

WRITE = "write 90s, 15m, 2h, 7d or a number of seconds"
LONGEST = 10**10
"""Seconds: some 300 years."""


def parse(text: str, least: float = 0, most: float = LONGEST) -> float:
    """Seconds, an integer if they are whole. Raises: ValueError if it is not a duration, or not in `least` … `most`."""
    if not re.fullmatch(PATTERN, text):
        raise ValueError(f"{text!r:.60} is not a duration; {WRITE}")
    number = text.rstrip("smhdwy")
    seconds = float(number) * UNITS[text[len(number) :]]
    if not least <= seconds <= most:
        raise ValueError(f"{text!r} is not a duration from {least:,} to {most:,} seconds; {WRITE}")
    return int(seconds) if seconds.is_integer() else seconds


def duration(least: float = 0, most: float = LONGEST) -> Callable[[str], float]:
    """The type of a command's option: argparse prints the error next to the name of the option."""

    def read(text: str) -> float:
        try:
            return parse(text, least, most)
        except ValueError as error:
            raise ArgumentTypeError(str(error)) from None

    return read


def write(seconds: float) -> str:
    """A duration as users type it, in the largest unit of which it is a whole number: `parse` reads it as the same
    seconds.
    """
    unit = next((each for each in "dhm" if seconds and seconds % UNITS[each] == 0), "s")
    return f"{seconds / UNITS[unit]:.6f}".rstrip("0").rstrip(".") + unit


def instant(written: str, now: datetime) -> datetime:
    """`24h` before `now`, or an instant; in UTC if it has no offset. Raises: ValueError with an example."""
    try:
        if written[-1:] in UNITS and not written[-1:].isdigit():
            return now - timedelta(seconds=parse(written))
        parsed = datetime.fromisoformat(written)
        return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(
            f"{written!r:.60} is not an instant; write 24h, 7d, 2026-03-02T12:00 (UTC) or 2026-03-02T13:00+01:00"
        ) from None


def coming(written: str, now: datetime) -> datetime:
    """`24h` after `now`, or an instant, which may be over; in UTC if it has no offset. Raises: ValueError with an
    example.
    """
    at = now + (now - instant(written, now)) if written[-1:] in UNITS and not written[-1:].isdigit() else None
    return at or instant(written, now)


def span(seconds: float | None) -> str:
    """A duration in its two largest units, such as `2 h 5 min`, or in one, such as `2 h` or `40 ms`. Empty for None,
    and for a negative one: a clock was set back.
    """
    if seconds is None or seconds < 0:
        return ""
    if 0 < seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    whole = int(seconds)
    unit, smaller = next(pair for pair in pairwise(SIZES) if whole >= SIZES[pair[0]])
    rest = whole % SIZES[unit] // SIZES[smaller]
    return f"{whole // SIZES[unit]} {unit}" + (f" {rest} {smaller}" if rest else "")
