"""The interval in which a backup starts with nine tenths probability, by the starts of all runs. Pure.

The runs alone are too confident: they do not know how early a user comes today, nor which other sources do. So
the distance of each end from the median is widened by a factor for each group, which was calibrated on past errors: the
factor with which nine tenths of the starts of simulated fleets were inside (`simulate --accuracy` measures it on other
fleets than those).
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from fleet.foreseeing.runs import Contender


class ForecastGroup(StrEnum):
    """Groups of sources by their state at the instant from which the future is foreseen."""

    READY = "ready"
    """It has answered and waits for a unit."""
    ALWAYS = "always"
    """It never goes, and has to be asked."""
    THERE = "there"
    """It was seen a while ago, and has to be asked."""
    AWAY = "away"
    """It is silent, or nothing is known about it today."""


def group_of(contender: Contender, *, ready: bool) -> ForecastGroup:
    """The group of a contender. `ready`: it waits for a unit."""
    if ready:
        return ForecastGroup.READY
    if contender.habit.always:
        return ForecastGroup.ALWAYS
    return ForecastGroup.THERE if contender.today.is_there else ForecastGroup.AWAY


class Wider(NamedTuple):
    """`margin`: seconds added to each distance from the median, since runs that agree are not certain. The sum is
    multiplied by `factor`.
    """

    margin: float
    factor: float


WIDER = {
    ForecastGroup.READY: Wider(60.0, 2.5),
    ForecastGroup.ALWAYS: Wider(60.0, 1.0),
    ForecastGroup.THERE: Wider(600.0, 2.7),
    ForecastGroup.AWAY: Wider(600.0, 1.9),
}


class Interval(NamedTuple):
    """Seconds from now."""

    low: float
    median: float
    high: float


def interval(
    starts: Sequence[float], group: ForecastGroup, wider: float | None = None, in_turn: Sequence[float] = ()
) -> Interval:
    """The median of some starts, and the interval around it, not before now. `wider` replaces the group's factor.
    `in_turn`: the starts of a ready record if no source that still has to be asked comes before it. Their median is the
    estimate then: twice as many starts are within ten minutes of it.
    """
    ordered = sorted(starts)
    low, median, high = (ordered[round(share * (len(ordered) - 1))] for share in (0.05, 0.5, 0.95))
    if ordered[0] == ordered[-1]:
        return Interval(low, median, high)  # nothing was drawn on which it depends
    margin, usual = WIDER[group]
    factor = usual if wider is None else wider
    low, high = max(0.0, median - factor * (median - low + margin)), median + factor * (high - median + margin)
    at = sorted(in_turn)[round(0.5 * (len(in_turn) - 1))] if in_turn else median
    return Interval(min(low, at), at, max(at, high))


def error(starts: Sequence[float], group: ForecastGroup, came: float) -> float:
    """The factor with which the interval would just have contained `came`."""
    low, median, high = interval(starts, group, 1.0)
    return (median - came) / (median - low + 1.0) if came < median else (came - median) / (high - median + 1.0)
