"""Days of an assignment, and the outcome of each: the cells of the matrix. Pure: `now` is always an argument.

A day is a local date in the zone of the policy. It is judged by the periods that begin on it, from the first trigger of
that date to the first one after it: a night from 22:00 to 06:00 counts for the evening on which it began. A date
without a trigger belongs to the period that contains it, so each day of a weekly policy shows the outcome of its week.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from enum import StrEnum
from functools import lru_cache

from schedules.cron import Period, instant_of
from sources.domain.windows import Window

SMALLEST = timedelta(microseconds=1)


class Day(StrEnum):
    """Worst first: of a source under several policies the worst is shown."""

    PRESENT = "missed while present"
    """No backup, although the source answered or checked in."""
    UNASKED = "missed, not asked"
    """No backup, and no attempt that would show whether the source was there: the scheduler did not get to it."""
    ABSENT = "missed while absent"
    """No backup: each time it was asked, the source did not answer."""
    OPEN = "still open"
    """No backup yet, and its period is not over."""
    PROTECTED = "protected"
    """A backup that succeeded began in it."""
    PAUSED = "paused"
    """No backup was wanted when its last opening ended: it was paused, its policy was disabled, or
    everything was on hold."""
    EXCLUDED = "excluded"
    """The window of the policy had no opening in it."""
    RETIRED = "retired"
    NONE = "nothing was due"
    """The day had not begun, or the source was under no policy yet."""


SIGNS = {
    Day.PRESENT: ("m", "!"), Day.UNASKED: ("u", "?"), Day.ABSENT: ("a", "–"), Day.OPEN: ("o", "…"),
    Day.PROTECTED: ("p", "✓"), Day.PAUSED: ("h", "||"), Day.EXCLUDED: ("x", "×"), Day.RETIRED: ("r", "·"),
}  # fmt: skip
"""The class of a cell, and its sign: two days never differ by colour alone."""

RANK = {day: rank for rank, day in enumerate(Day)}


@dataclass(frozen=True)
class DayStretch:
    """The stretch by which a day is judged: `begins` ≤ t < `ends`, aware UTC. `closes`: the end of its last opening, or
    None if it has none.
    """

    begins: datetime
    ends: datetime
    closes: datetime | None


@dataclass(frozen=True)
class DayFacts:
    """The facts of a stretch that the attempts of an assignment give."""

    succeeded: bool = False
    answered: bool = False
    silent: bool = False


NOTHING = DayFacts()

Pauses = Collection[tuple[datetime, datetime | None]]
"""The beginning and the end of each time in which no backups were wanted. The end is None if it has not ended."""


@lru_cache(maxsize=5000)
def stretches(period: Period, window: Window, first: date, last: date) -> tuple[DayStretch, ...]:
    """The stretch of each local date from `first` to `last`. Raises: ValueError when the period or window cannot be
    read.
    """
    days = [first + timedelta(days=number) for number in range((last - first).days + 2)]
    midnights = [instant_of(datetime.combine(day, time(0)), period.tzinfo) for day in days]
    coming, triggers = period.after(midnights[0] - SMALLEST), list[datetime]()
    for midnight in midnights:
        # still ahead on a date without a trigger
        trigger = triggers[-1] if triggers and triggers[-1] >= midnight else next(coming)
        if trigger < midnight:  # one of several on the date before
            coming = period.after(midnight - SMALLEST)
            trigger = next(coming)
        triggers.append(trigger)
    found: list[DayStretch] = []
    for trigger, following, tomorrow in zip(triggers, triggers[1:], midnights[1:], strict=False):
        if trigger >= tomorrow and found:
            found.append(found[-1])
            continue
        begins = trigger if trigger < tomorrow else period.current(midnights[0])
        opening = window.last_opening(begins, following)
        found.append(DayStretch(begins, following, min(opening.closes_at, following) if opening else None))
    return tuple(found)


def judge(
    stretch: DayStretch,
    found: DayFacts,
    *,
    assigned_at: datetime,
    retired_at: datetime | None,
    pauses: Pauses,
    now: datetime,
) -> Day:
    """The outcome of a stretch for an assignment. `assigned_at`: when the source came under the policy."""
    over = min(stretch.ends, now)
    if found.succeeded:
        return Day.PROTECTED
    if max(assigned_at, stretch.begins) >= over:
        return Day.NONE
    if retired_at is not None and retired_at < over:
        return Day.RETIRED
    last = min(stretch.closes or stretch.ends, over)
    if any(since < last and (until is None or until >= last) for since, until in pauses):
        return Day.PAUSED
    if stretch.closes is None:
        return Day.EXCLUDED
    if now < stretch.ends:
        return Day.OPEN
    if found.answered:
        return Day.PRESENT
    return Day.ABSENT if found.silent else Day.UNASKED


def worst(days: Sequence[Day]) -> Day:
    """The worst outcome of one day under several policies."""
    return min(days, key=RANK.__getitem__, default=Day.NONE)
