"""Weekly windows: when a policy's backups may run. Pure: `now` is always an argument.

A window is a list of ranges in the policy's zone, less excluded dates. A range is half-open, belongs to the date of its
start (on an excluded date none begins; one that began the evening before continues), may cross midnight, and lasts 24
hours when start and end are equal. Local times are turned into UTC before any arithmetic, since same-zone aware
datetimes compare by wall clock: a start in a gap is the end of the gap, one in a fold is the first of the two.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from schedules.cron import check_zone, instant_of
from sources.domain.excluded_dates import ExcludedDates

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
DAY = timedelta(days=1)

SEARCHED_DAYS = 731
"""Two years. No opening is looked for beyond that, and none is followed for longer."""

LOOKED_BACK_DAYS = (4, 40, SEARCHED_DAYS)
"""The number of days to look back for the beginning of an opening: nearly always four are enough."""

TOUCHED_DAYS = 2
"""A range lasts less than two days; so openings that begin two days after the first day looked at are whole."""


@dataclass(frozen=True)
class Range:
    """A range from `start` to `end` (local wall clock) on each of `days` (0 = Monday)."""

    days: frozenset[int]
    start: time
    end: time


ALL_DAY = Range(frozenset(range(7)), time(0), time(0))


@dataclass(frozen=True)
class Opening:
    """An open stretch: `opens_at` ≤ t < `closes_at`, aware UTC instants."""

    opens_at: datetime
    closes_at: datetime


@dataclass(frozen=True)
class Window:
    """Weekly ranges in a zone, less excluded dates. No ranges: open on every date that is not excluded."""

    ranges: tuple[Range, ...]
    zone: str
    excluded: ExcludedDates = field(default_factory=ExcludedDates)

    @classmethod
    def parse(cls, rows: Any, zone: str, excluded: Any = ()) -> "Window":
        """Build from JSON rows `{"days": "mon-fri", "start": "22:00", "end": "06:00"}`.

        `excluded` are local dates, such as "2026-12-24", "12-25" (each year), "2026-12-27..2026-12-31". Raises:
        ValueError naming the row and field, the excluded date, or the zone that is wrong.
        """
        check_zone(zone)
        if not isinstance(rows, list):
            raise ValueError(
                "a window is a list of ranges, such as [{'days': 'mon-fri', 'start': '22:00', 'end': '06:00'}]"
            )
        ranges = tuple(_parse_range(row, number) for number, row in enumerate(rows, 1))
        return cls(ranges, zone, ExcludedDates.parse(excluded))

    @property
    def always_open(self) -> bool:
        """True if it never closes."""
        return not self.excluded and (not self.ranges or _covers_the_week(self.ranges))

    @property
    def doubts(self) -> list[str]:
        """Ranges that may not be intended: those that end when they begin, except one from midnight, which is a whole
        day.
        """
        found = [each for each in self.ranges if each.start == each.end != time(0)]
        return [
            f"its range {each.start:%H:%M}–{each.end:%H:%M} lasts 24 hours; write another end if it is to close, or "
            "00:00 twice for whole days"
            for each in found
        ]

    def current_or_next(self, now: datetime) -> Opening | None:
        """The opening that contains `now`, else the next one. None if always open.

        Ranges that touch or overlap are one opening. One that lasts for more than two years may come in parts. Raises:
        ValueError when no opening exists in the two years after `now`.
        """
        if self.always_open:
            return None
        for found in self._from(now):
            if found.closes_at > now:
                return found
        raise ValueError("the window has no opening within two years; change its ranges or its excluded dates")

    def openings(self, start: datetime, end: datetime) -> Iterator[Opening]:
        """The openings that overlap [start, end), whole, in order. A window that is always open has one, from `start`
        to `end`. There may be any number of them.
        """
        if self.always_open and start < end:
            yield Opening(start, end)
            return
        now = start
        while now < end:
            following = [found for found in self._from(now) if found.closes_at > now]
            if not following:
                return
            for found in following:
                if found.opens_at >= end:
                    return
                # the rest of an opening that came in parts does not begin before it
                yield found if now == start else Opening(max(found.opens_at, now), found.closes_at)
                now = found.closes_at

    def last_opening(self, start: datetime, end: datetime) -> Opening | None:
        """The last of `openings`, found by bisection; None if there is none."""
        while end - start > 2 * DAY:
            middle = start + (end - start) / 2
            start, end = (middle, end) if any(self.openings(middle, end)) else (start, middle)
        return next(iter(deque(self.openings(start, end), maxlen=1)), None)

    def _from(self, now: datetime) -> tuple[Opening, ...]:
        return _openings_from(self, now.astimezone(ZoneInfo(self.zone)).date())

    @lru_cache(maxsize=64)  # noqa: B019 - each day is asked for with those before and after it
    def _begun_on(self, day: date) -> list[Opening]:
        """The openings that its ranges make of one local date, in order. A range within a gap makes none."""
        if day in self.excluded:
            return []
        zone = ZoneInfo(self.zone)
        found = []
        for span in self.ranges or (ALL_DAY,):
            if day.weekday() in span.days:
                last = day if span.end > span.start else day + DAY
                opens_at = instant_of(datetime.combine(day, span.start), zone)
                closes_at = instant_of(datetime.combine(last, span.end), zone)
                if opens_at < closes_at:
                    found.append(Opening(opens_at, closes_at))
        return sorted(found, key=lambda opening: opening.opens_at)


@lru_cache(maxsize=4096)
def _openings_from(window: Window, today: date) -> tuple[Opening, ...]:
    """The openings within the local date `today`, whole, and the first one after it if there is any.

    The emission asks for each policy: within one day it is answered from here.
    """
    zone = ZoneInfo(window.zone)
    midnight = instant_of(datetime.combine(today, time(0)), zone)
    found: list[Opening] = []
    for days in LOOKED_BACK_DAYS:
        first = today - days * DAY
        found = [opening for opening in _joined(window, first, today) if opening.closes_at > midnight]
        if not found or found[0].opens_at >= instant_of(datetime.combine(first + TOUCHED_DAYS * DAY, time(0)), zone):
            break
    return tuple(found)


def _joined(window: Window, first: date, today: date) -> Iterator[Opening]:
    """The openings of the ranges that begin from `first` on, up to the first that begins after `today`."""
    tomorrow = instant_of(datetime.combine(today + DAY, time(0)), ZoneInfo(window.zone))
    current: Opening | None = None
    for offset in range((today - first).days + SEARCHED_DAYS + 1):
        for following in window._begun_on(first + offset * DAY):
            if current and following.opens_at <= current.closes_at:
                current = Opening(current.opens_at, max(current.closes_at, following.closes_at))
                continue
            if current:
                yield current
                if current.opens_at >= tomorrow:
                    return
            current = following
    if current:
        yield current


@lru_cache(maxsize=1024)
def _covers_the_week(ranges: tuple[Range, ...]) -> bool:
    """True if no minute of the week is left out. A change of clocks opens no hole: ranges that touch by the wall clock
    touch.
    """
    spans = sorted(
        (begins + week, begins + week + _length(span))
        for span in ranges
        for day in span.days
        for begins in [timedelta(days=day, hours=span.start.hour, minutes=span.start.minute)]
        for week in (timedelta(weeks=-1), timedelta(0))
    )
    covered = timedelta(0)
    for begins, ends in spans:
        if begins <= covered:
            covered = max(covered, ends)
    return covered >= timedelta(weeks=1)


def _length(span: Range) -> timedelta:
    """The length of a range by the wall clock."""
    since_midnight = [timedelta(hours=wall.hour, minutes=wall.minute) for wall in (span.start, span.end)]
    return since_midnight[1] - since_midnight[0] + (DAY if span.end <= span.start else timedelta(0))


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
        raise ValueError(f"{where}: {text!r} is not a time of day, such as 22:00") from None


def _parse_days(text: Any, where: str) -> frozenset[int]:
    days: set[int] = set()
    for part in str(text).lower().replace(" ", "").split(","):
        first, dash, last = part.partition("-")
        last = last if dash else first
        if first not in DAYS or last not in DAYS:
            raise ValueError(f"{where}, days: {text!r} is not a list of weekdays, such as mon-fri or sat,sun")
        start, end = DAYS.index(first), DAYS.index(last)
        days |= {(start + step) % 7 for step in range((end - start) % 7 + 1)}
    return frozenset(days)
