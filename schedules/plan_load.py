"""The load that schedules make: how many of their events may start in each minute. Pure.

A cron's triggers lie on whole minutes, and stagger puts the events of a batch at the same places after each of them. So
a batch has one profile, events by minute after its trigger, and the load is that profile at each trigger: never an
event by itself. Where even that is too much to add up, a batch is taken as spread evenly, which stagger makes true to
within an event or two a minute.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import accumulate
from math import ceil

from schedules import stagger
from schedules.cron import Period

MINUTE = 60

EXACT_UP_TO = 5_000
"""Of larger batches only so many places are asked for, and at least one for each minute: a million take a second."""

MOST_ADDITIONS = 100_000
"""10 ms, for each of what may be hundreds of schedules that share a throttle. Every five minutes with an hour's window
is just below it, every minute is beyond."""


@dataclass(frozen=True)
class Planned:
    """A schedule as the planner sees it: `events` a trigger, spread over `window_for` seconds if `staggered`.

    `seconds_each`: how long one is in flight. `assumed`: nobody has measured that. `id` is that of the schedule, which
    its places in the window follow from; 0 for one that has none yet. `at_most`: there may be fewer events.
    """

    name: str
    cron: str
    zone: str
    events: int
    window_for: int = 0
    staggered: bool = False
    seconds_each: float = 1.0
    assumed: bool = True
    priority: int = 0
    id: int = 0
    at_most: bool = False

    @property
    def is_spread(self) -> bool:
        """Whether its events start one after another."""
        return self.staggered and self.window_for > 0


@lru_cache(maxsize=64)
def triggers(cron: str, zone: str, start: datetime, minutes: int) -> tuple[int, ...]:
    """The triggers after `start` (aware, a whole minute), as minutes since it, each below `minutes`.

    A trigger on `start` itself is past. Raises: ValueError for a cron or zone that cannot be read.
    """
    end = start + timedelta(minutes=minutes)
    found: list[int] = []
    for trigger_at in Period(cron, zone).after(start):
        if trigger_at >= end:
            break
        found.append(int((trigger_at - start).total_seconds()) // MINUTE)
    return tuple(found)


@dataclass(frozen=True)
class Profile:
    """When the events of a batch may start: `counts` are (minute after the trigger, events), each minute once.

    `last`: seconds from the trigger to its last event.
    """

    counts: tuple[tuple[int, float], ...]
    last: float


def profile_of(planned: Planned) -> Profile:
    """The profile of a batch, exact up to EXACT_UP_TO events."""
    if not planned.is_spread or not planned.events:
        return Profile(((0, planned.events),) if planned.events else (), 0.0)
    asked = min(planned.events, max(EXACT_UP_TO, ceil(planned.window_for / MINUTE)))
    places = stagger.offsets(asked, planned.window_for, planned.id)
    if planned.events > asked:
        return evenly(planned.events, max(places))
    by_minute: dict[int, float] = {}
    for place in places:
        minute = int(place // MINUTE)
        by_minute[minute] = by_minute.get(minute, 0) + 1
    return Profile(tuple(sorted(by_minute.items())), max(places))


def evenly(events: float, last: float) -> Profile:
    """`events` spread over the time up to the `last`, in seconds from the trigger."""
    whole, share = divmod(last / MINUTE, 1)
    a_minute = events / (whole + share)
    counts = [(minute, a_minute) for minute in range(int(whole))]
    return Profile((*counts, (int(whole), a_minute * share)), last)


def add_load(to: list[float], profile: Profile, at: Sequence[int], weight: float = 1.0) -> None:
    """Add to each minute of `to` the events that may start in it, each `weight`, of a batch at each minute in `at`."""
    if len(at) * len(profile.counts) > MOST_ADDITIONS:
        _add_even(to, weight * sum(count for _, count in profile.counts), profile.last, at)
        return
    for trigger in at:
        for minute, count in profile.counts:
            if trigger + minute >= len(to):
                break
            to[trigger + minute] += count * weight


def _add_even(to: list[float], amount: float, last: float, at: Sequence[int]) -> None:
    """The same for batches spread evenly, by where each begins and ends, whatever lies between."""
    minutes = len(to)
    whole, share = divmod(last / MINUTE, 1)
    steps = [0.0] * (minutes + 1)
    for trigger in at:
        steps[min(trigger, minutes)] += 1
        steps[min(trigger + int(whole), minutes)] -= 1 - share
        steps[min(trigger + int(whole) + 1, minutes)] -= share
    for minute, open_batches in enumerate(accumulate(steps[:minutes])):
        to[minute] += open_batches * amount / (whole + share)
