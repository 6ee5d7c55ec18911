"""The rest of a source's day, by its earlier days. Pure.

One of its days of the same sort (Monday to Friday, or the weekend) is drawn; days that agree with today's sightings are
drawn more often than others. If its agent has not checked in today, days on which it had come by this hour are drawn
less often; without an agent it may be asleep, or may not have been asked. A source that was never silent is always
there. If it has fewer than LEAST_DAYS days, the days of all sources are drawn from.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from math import erfc, exp, inf, sqrt

from fleet.foreseeing.presence import DAY, Stay

LEAST_DAYS = 3
NEAR = 1_800.0
"""Seconds by which a day may differ from today and still agree with it."""
STILL_THERE = 1_200.0
"""Seconds for which a source that was seen is taken to be there."""
DISAGREES = 0.02
"""Weight of a day that differs from today."""
AWAY = 0.5
"""Weight of a day without the source, in addition to the days on record."""
SHIFTED_BY = 1_500.0
"""Standard deviation of the seconds by which a day is earlier or later than the one that was drawn."""
SLEEPS_FOR = 2_400.0
"""Seconds: the longer a source is silent while it used to be there, the less likely it sleeps."""

Past = Sequence[Sequence[Stay]]
"""Days, each with its stays in seconds of that local day."""


@dataclass(frozen=True)
class Today:
    """A source at an instant, in seconds of its local day. `seen`: when it was last seen there today; `silent`: True if
    it was asked after that, or today, and was silent. `reports`: True if its agent checks in whenever it comes.
    """

    now: float
    weekday: int
    seen: float | None = None
    silent: bool = False
    reports: bool = False

    @property
    def is_there(self) -> bool:
        return self.seen is not None and not self.silent and self.now - self.seen <= STILL_THERE


@dataclass(frozen=True)
class Habit:
    """The earlier days of a source: those of the working week, and those of weekends. `always`: it never goes."""

    week: Past = ()
    weekend: Past = ()
    always: bool = False

    @classmethod
    def of(cls, stays: Sequence[Stay], days: int, midnight: float, first_weekday: int, skipped: int = 0) -> "Habit":
        """The habit by its stays in a history of that many days, in seconds since its beginning. `midnight`: the first
        local one; `first_weekday`: that of the date that begins there; `skipped`: days from there on for which nothing
        is known.
        """
        if len(stays) == 1 and stays[0].from_s <= 0 and stays[0].to_s >= days * DAY:
            return cls(always=True)
        week, weekend = list[list[Stay]](), list[list[Stay]]()
        for number in range(skipped, days - (midnight > 0)):
            dawn = midnight + number * DAY
            within = [each for each in stays if each.to_s > dawn and each.from_s < dawn + DAY]
            cut = [Stay(max(0.0, a - dawn), min(DAY, b - dawn), state) for a, b, state in within]
            (weekend if (first_weekday + number) % 7 > 4 else week).append(cut)
        return cls(week, weekend)

    def days(self, weekday: int) -> Past:
        """Days of the same sort as this weekday (0: Monday)."""
        return self.weekend if weekday > 4 else self.week

    def draw(self, today: Today, rng: random.Random, others: Past = ()) -> Stay | None:
        """Draw the stay for the rest of today, in seconds of the day; None if it does not come."""
        if self.always:
            return Stay(today.now, inf)
        own = self.days(today.weekday)
        days = own if len(own) >= LEAST_DAYS or not others else [*own, *others]
        if not days:
            return Stay(today.now, DAY) if today.is_there else None
        weights = [_likelihood(each, today) for each in days]
        away = AWAY * (1.0 if today.seen is None else DISAGREES)
        [day] = rng.choices([*days, ()], [*weights, away])
        return _rest(_shifted(day, rng.gauss(0.0, SHIFTED_BY)), today, rng)


def _likelihood(day: Sequence[Stay], today: Today) -> float:
    weight = 1.0
    if today.seen is not None and not _covers(day, today.seen, NEAR):
        weight *= DISAGREES
    if today.reports and today.seen is None:
        weight *= _comes_after(day, today.now)
    elif today.silent:
        since = 0.0 if today.seen is None else today.seen
        there = sum(max(0.0, min(each.to_s, today.now) - max(each.from_s, since)) for each in day)
        weight *= exp(-there / SLEEPS_FOR)
    if today.is_there and not _covers(day, today.now, 0.0):
        weight *= DISAGREES
    return weight


def _comes_after(day: Sequence[Stay], now: float) -> float:
    """The share of days like this one on which it comes after `now`, or not at all."""
    return 0.5 * erfc((now - day[0].from_s) / (SHIFTED_BY * sqrt(2.0))) if day else 1.0


def _shifted(day: Sequence[Stay], by: float) -> list[Stay]:
    return [Stay(each.from_s + by, each.to_s + by) for each in day]


def _covers(day: Sequence[Stay], instant: float, by: float) -> bool:
    return any(each.from_s - by <= instant <= each.to_s + by for each in day)


def _rest(day: Sequence[Stay], today: Today, rng: random.Random) -> Stay | None:
    """Its stays from now on as one: a source that sleeps in between is woken."""
    ahead = [each for each in day if each.to_s > today.now]
    if not ahead:
        return Stay(today.now, today.now + rng.uniform(600.0, 7_200.0)) if today.is_there else None
    begins = today.now if today.is_there else max(today.now, ahead[0].from_s)
    return Stay(begins, ahead[-1].to_s)
