"""The times at which a source was there, by its sightings: answers, silences, copies and check-ins.

Between the sightings of one day it was there, except for silences in between. It came half-way between the last silence
before them and the first sighting, and left half-way between the last sighting and the next silence; without such a
silence, as on its other days. A day on which it was neither seen nor asked is like the nearest same weekday with known
presence. A source that was silent on one day in ten, or fewer, is there except for those silences; one that was never
seen is never there. Instants are seconds since the beginning of the history.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal, NamedTuple

HARDLY_EVER = 0.1
"""Share of the days with known presence: silences on this share, or less, are not a habit."""


DAY = 86_400.0


class Stay(NamedTuple):
    """The time in which a source was there. `state`: `asleep`, if only a packet could wake it."""

    from_s: float
    to_s: float
    state: Literal["awake", "asleep"] = "awake"


class Sighting(NamedTuple):
    """The time in which a source was there, or was silent."""

    begins: float
    ends: float
    there: bool


@dataclass
class _DayOfSightings:
    first: float
    last: float


def presence_of(seen: Sequence[Sighting], days: int, midnight: float, *, wakes: bool) -> list[Stay]:
    """Its presence in that many days. `midnight`: the first local one, in seconds from 0 to a day. `wakes`: True if a
    source that was silent between two answers of a day was asleep, and not away.
    """
    there = [each for each in seen if each.there]
    silent = sorted(each for each in seen if not each.there)
    end = days * DAY
    if not there:
        return []
    known = _days_of(there, midnight)
    asked = {number for each in silent for number in _numbers(each, midnight)}
    if len(asked) <= HARDLY_EVER * len(asked | known.keys()):
        return list(_cut(0.0, end, [each for each in silent if each.ends > 0.0 and each.begins < end], wakes=wakes))
    edges = {number: _edges(day, midnight + (number - 1) * DAY, silent) for number, day in known.items()}
    arrives = _usual([came - dawn for dawn, came, _ in edges.values() if came is not None], 0.0)
    leaves = _usual([left - dawn for dawn, _, left in edges.values() if left is not None], DAY)
    found: dict[int, list[Stay]] = {}
    for number, day in known.items():
        dawn, came, left = edges[number]
        begins = min(day.first, dawn + arrives) if came is None else came
        ends = max(day.last, dawn + leaves) if left is None else left
        within = [each for each in silent if day.first <= each.begins < each.ends <= day.last]
        found[number] = list(_cut(begins, ends, within, wakes=wakes))
    for number in range(days + 1):
        if number not in found and number not in asked and (like := _alike(number, found)) is not None:
            by = (number - like) * DAY
            found[number] = [Stay(each.from_s + by, each.to_s + by, each.state) for each in found[like]]
    return list(_joined([each for number in sorted(found) for each in found[number]], end))


def _numbers(each: Sighting, midnight: float) -> range:
    """The local days that it touches; day 1 begins at the first midnight."""
    return range(int((each.begins - midnight) // DAY) + 1, int((each.ends - midnight) // DAY) + 2)


def _edges(day: _DayOfSightings, dawn: float, silent: Sequence[Sighting]) -> tuple[float, float | None, float | None]:
    """The beginning of its date, and when it came and left on it; None for an instant that no silence shows."""
    before = max((each.ends for each in silent if each.ends <= day.first), default=dawn)
    after = min((each.begins for each in silent if each.begins >= day.last), default=dawn + 2 * DAY)
    came = (before + day.first) / 2 if before > dawn else None
    left = min((after + day.last) / 2, dawn + DAY) if after < dawn + 1.5 * DAY else None
    return dawn, came, left


def _usual(found: Sequence[float], otherwise: float) -> float:
    return median(found) if found else otherwise


def _days_of(there: Sequence[Sighting], midnight: float) -> dict[int, _DayOfSightings]:
    found: dict[int, _DayOfSightings] = {}
    for each in there:
        for number in _numbers(each, midnight):
            dawn = midnight + (number - 1) * DAY
            first, last = max(each.begins, dawn), min(each.ends, dawn + DAY)
            day = found.setdefault(number, _DayOfSightings(first, last))
            day.first, day.last = min(day.first, first), max(day.last, last)
    return dict(sorted(found.items()))


def _cut(begins: float, ends: float, silent: Sequence[Sighting], *, wakes: bool) -> list[Stay]:
    found, now = list[Stay](), begins
    for each in silent:
        if each.begins > now:
            found.append(Stay(now, each.begins))
        if wakes and each.ends > max(now, each.begins):
            found.append(Stay(max(now, each.begins), each.ends, "asleep"))
        now = max(now, each.ends)
    return [*found, Stay(now, ends)] if ends > now else found


def _alike(number: int, found: dict[int, list[Stay]]) -> int | None:
    """The nearest known day of the same weekday."""
    same = [each for each in found if (each - number) % 7 == 0]
    return min(same, key=lambda each: abs(each - number), default=None)


def _joined(found: Sequence[Stay], end: float) -> list[Stay]:
    """The stays cut to the history, in order, without overlaps."""
    kept: list[Stay] = []
    for each in found:
        begins = max(0.0, each.from_s, kept[-1].to_s if kept else 0.0)
        if begins < (ends := min(each.to_s, end)):
            kept.append(Stay(round(begins, 3), round(ends, 3), each.state))
    return kept
