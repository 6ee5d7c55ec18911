"""Weekly windows: when a policy's backups may run. Pure: `now` is always an argument.

A window is a list of ranges in the policy's zone. A range is half-open, belongs to the weekday of its start, may
cross midnight, and lasts 24 hours when start and end are equal. Local times are turned into UTC before any
arithmetic, since same-zone aware datetimes compare by wall clock.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


@dataclass(frozen=True)
class Range:
    """From `start` to `end` (local wall clock) on each of `days` (0 = Monday)."""

    days: frozenset[int]
    start: time
    end: time


@dataclass(frozen=True)
class Opening:
    """An open stretch: `opens_at` ≤ t < `closes_at`, aware UTC instants."""

    opens_at: datetime
    closes_at: datetime


@dataclass(frozen=True)
class Window:
    """Weekly ranges in a zone. No ranges: always open."""

    ranges: tuple[Range, ...]
    zone: str

    @classmethod
    def parse(cls, rows: Any, zone: str, excluded: Any = ()) -> "Window":
        """Build from JSON rows `{"days": "mon-fri", "start": "22:00", "end": "06:00"}`.

        Raises: ValueError saying which row and field is wrong.
        """
        if not isinstance(rows, list):
            raise ValueError("a window is a list of ranges, as [{'days': 'mon-fri', 'start': '22:00', 'end': '06:00'}]")
        return cls(tuple(_parse_range(row, number) for number, row in enumerate(rows, 1)), zone)

    def current_or_next(self, now: datetime) -> Opening | None:
        """The opening that `now` lies in, else the next one; None when always open.

        Raises: ValueError when no opening exists in the two weeks after `now`.
        """
        if not self.ranges:
            return None
        today = now.astimezone(ZoneInfo(self.zone)).date()
        openings = sorted(
            (
                opening
                for offset in range(-2, 15)
                for opening in self._openings_on(today + timedelta(days=offset))
                if opening.closes_at > now
            ),
            key=lambda opening: opening.opens_at,
        )
        if not openings:
            raise ValueError("the window has no opening within two weeks")
        return _joined(openings)

    def _openings_on(self, day: date) -> list[Opening]:
        found = []
        for span in self.ranges:
            if day.weekday() not in span.days:
                continue
            last = day if span.end > span.start else day + timedelta(days=1)
            opens_at, closes_at = _instant(day, span.start, self.zone), _instant(last, span.end, self.zone)
            if opens_at < closes_at:
                found.append(Opening(opens_at, closes_at))
        return found


def _joined(openings: list[Opening]) -> Opening:
    """The first of `openings` (sorted), grown by those that touch or overlap it."""
    first = openings[0]
    closes_at = first.closes_at
    for following in openings[1:]:
        if following.opens_at > closes_at:
            break
        closes_at = max(closes_at, following.closes_at)
    return Opening(first.opens_at, closes_at)


def _instant(day: date, wall: time, zone: str) -> datetime:
    """A local wall clock time as UTC: the first of two in a fold, the first valid instant after a gap."""
    naive = datetime.combine(day, wall)
    local = naive.replace(tzinfo=ZoneInfo(zone))
    instant = local.astimezone(UTC)
    if instant.astimezone(ZoneInfo(zone)).replace(tzinfo=None) == naive:
        return instant
    # in a gap: fold 0 reads it with the offset before the gap, fold 1 with the one after; the gap ends where the
    # offset changes, between those two readings
    low, high = local.replace(fold=1).astimezone(UTC), instant
    while high - low > timedelta(seconds=1):
        middle = low + (high - low) / 2
        if middle.astimezone(ZoneInfo(zone)).replace(tzinfo=None) < naive:
            low = middle
        else:
            high = middle
    return high.replace(microsecond=0)


def _parse_range(row: Any, number: int) -> Range:
    where = f"range {number}"
    if not isinstance(row, dict):
        raise ValueError(f"{where} is not an object")
    if unknown := set(row) - {"days", "start", "end"}:
        raise ValueError(f"{where}: unknown field {min(unknown)!r}; a range has days, start and end")
    if missing := {"start", "end"} - set(row):
        raise ValueError(f"{where}: {min(missing)!r} is missing")
    return Range(
        _parse_days(row.get("days", "mon-sun"), where),
        _parse_time(row["start"], f"{where}, start"),
        _parse_time(row["end"], f"{where}, end"),
    )


def _parse_time(text: Any, where: str) -> time:
    try:
        hour, minute = (int(part) for part in str(text).split(":"))
        return time(hour, minute)
    except ValueError:
        raise ValueError(f"{where}: {text!r} is not a time of day, as 22:00") from None


def _parse_days(text: Any, where: str) -> frozenset[int]:
    days: set[int] = set()
    for part in str(text).lower().replace(" ", "").split(","):
        first, dash, last = part.partition("-")
        last = last if dash else first
        if first not in DAYS or last not in DAYS:
            raise ValueError(f"{where}, days: {text!r} is not a list of weekdays, as mon-fri or sat,sun")
        start, end = DAYS.index(first), DAYS.index(last)
        days |= {(start + step) % 7 for step in range((end - start) % 7 + 1)}
    return frozenset(days)
