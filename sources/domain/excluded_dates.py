"""Local dates on which no range of a window begins: holidays, the days of a move. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from sources.domain.public_holidays import Place, holidays_of, parse_place

DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
DAY_OF_YEAR = re.compile(r"[0-9]{2}-[0-9]{2}", re.ASCII)
SPAN = ".."
LEAP_YEAR = 2000
"""The year in which a date without a year is looked up, so that 02-29 is one."""

FORMS = 'write 2026-12-24, 12-25 (each year), 2026-12-27..2026-12-31 or {"holidays": "DE"}'


@dataclass(frozen=True)
class ExcludedDates:
    """Excluded dates: `spans` are first and last date, both excluded; `yearly` are (month, day); `places` are those
    whose public holidays are excluded.
    """

    spans: tuple[tuple[date, date], ...] = ()
    yearly: frozenset[tuple[int, int]] = frozenset()
    places: tuple[Place, ...] = ()

    @classmethod
    def parse(cls, entries: Any) -> "ExcludedDates":
        """Build from JSON entries "2026-12-24", "12-25" (each year), "2026-12-27..2026-12-31" and {"holidays": "DE"}.

        Raises: ValueError naming the wrong entry, and the right form.
        """
        if not isinstance(entries, Sequence) or isinstance(entries, str):
            raise ValueError(f"excluded dates are a list; {FORMS}")
        spans, yearly, places = [], set(), []
        for number, entry in enumerate(entries, 1):
            where = f"excluded date {number}"
            if isinstance(entry, Mapping):
                places.append(parse_place(entry, where))
            elif isinstance(entry, str) and DAY_OF_YEAR.fullmatch(entry):
                found = _date(f"{LEAP_YEAR}-{entry}", entry, where)
                yearly.add((found.month, found.day))
            else:
                spans.append(_span(entry, where))
        return cls(tuple(spans), frozenset(yearly), tuple(places))

    def __contains__(self, day: date) -> bool:
        return (
            (day.month, day.day) in self.yearly
            or any(first <= day <= last for first, last in self.spans)
            or any(day in holidays_of(place, day.year) for place in self.places)
        )

    def __bool__(self) -> bool:
        return bool(self.spans or self.yearly or self.places)

    def holidays(self, first: date, last: date) -> Iterator[tuple[date, str]]:
        """The public holidays in [first, last] with their names, in order."""
        years = range(first.year, last.year + 1)
        found = {day: name for place in self.places for year in years for day, name in holidays_of(place, year).items()}
        return ((day, found[day]) for day in sorted(found) if first <= day <= last)


def _span(entry: Any, where: str) -> tuple[date, date]:
    first, dots, last = entry.partition(SPAN) if isinstance(entry, str) else ("", "", "")
    last = last if dots else first
    if not DATE.fullmatch(first) or not DATE.fullmatch(last):
        raise ValueError(f"{where}: {entry!r} is not a date; {FORMS}")
    begins, ends = _date(first, first, where), _date(last, last, where)
    if ends < begins:
        raise ValueError(f"{where}: {entry!r} ends before it begins; write the earlier date first")
    return begins, ends


def _date(text: str, written: str, where: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{where}: {written!r} does not exist in the calendar; {FORMS}") from None
