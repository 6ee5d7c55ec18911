"""Starts of the events of a staggered batch: evenly over the window, each by its number alone. Pure.

The window, less a margin for the last delivery, is cut into the minutes from its start. A *turn* gives each minute one
event, in golden-ratio order, and all at the same second; the seconds of the turns again follow the golden ratio. So any
60 s, wherever they begin, get one event of each turn. The last minute is mostly a part of one: it takes part in as many
turns as it has of the 60 seconds, which keeps the end of a window as even as the rest.

`frac(offset + n · 0.618…)` over the whole window is nearly as good, and no more: 89 events over a quarter of an hour
then have a minute with the mean and 2.5 more; here it is the mean and 1.5.

No event's start depends on how many there are: one more moves no other. The schedule's id turns the order, so that
schedules of few events do not all start in the same minute.
"""

from functools import cache
from math import ceil, floor, gcd, sqrt
from typing import NamedTuple

MINUTE = 60
GOLDEN = (sqrt(5) - 1) / 2
TURN = sqrt(2) - 1
"""The step from one schedule's id to the next. Not the golden ratio again: then event 2 of one would be event 1 of the
next.
"""

LAST_DELIVERY_FOR = 30.0
"""Seconds before the close of the window in which no event starts, so that the last one can still be delivered: the
default time for the answer of an endpoint.
"""
MARGIN = 1 / 20
"""The most of a window that is left for that: the rest is fuller by it."""


class StaggerWindow(NamedTuple):
    """A window of `minutes`, in the last of which events start for `last_width` seconds only, and in that `share` of
    the turns, counted from `start`. `stride` minutes are between one event and the next; event 1 starts in minute
    `first`, and the last minute has its place at step `last` of a turn.
    """

    minutes: int
    last_width: float
    share: float
    start: float
    stride: int
    first: int
    last: int
    phase: float

    def before(self, turn: int) -> int:
        """The number of events of the turns before `turn`."""
        return turn * (self.minutes - 1) + self.in_last_minute(turn)

    def in_last_minute(self, turn: int) -> int:
        """The number of these events that start in the last minute."""
        return floor(turn * self.share + self.start)

    def turn_of(self, place: int) -> int:
        """The turn of the event at `place`, counted from 0."""
        turn = int(place / (self.minutes - 1 + self.share))
        while self.before(turn) > place:
            turn -= 1
        while self.before(turn + 1) <= place:
            turn += 1
        return turn


def offsets(count: int, window_for: float, schedule_id: int, first: int = 1) -> list[float]:
    """The seconds from the start of a window of `window_for` seconds at which its events `first` … `count` start.

    Events are numbered from 1. In whole milliseconds, at least 0 and before the close. Without a window: all 0.
    """
    if window_for <= 0:
        return [0.0] * max(0, count + 1 - first)
    window = _window(window_for, schedule_id)
    return [_offset(number - 1, window) for number in range(first, count + 1)]


def _offset(place: int, window: StaggerWindow) -> float:
    turn = window.turn_of(place)
    step = place - window.before(turn)
    skips_last = window.in_last_minute(turn) == window.in_last_minute(turn + 1)
    minute = (window.first + (step + (skips_last and step >= window.last)) * window.stride) % window.minutes
    if minute == window.minutes - 1:
        within = _frac(window.phase + window.in_last_minute(turn) * GOLDEN) * window.last_width
    else:
        within = _frac(window.phase + turn * GOLDEN) * MINUTE
    return floor((minute * MINUTE + within) * 1000) / 1000


def usable_for(window_for: float) -> float:
    """The seconds from the start of a window in which events start."""
    return window_for - min(LAST_DELIVERY_FOR, window_for * MARGIN)


def _window(window_for: float, schedule_id: int) -> StaggerWindow:
    usable = usable_for(window_for)
    count = ceil(usable / MINUTE)
    last_width = usable - (count - 1) * MINUTE
    share = last_width / min(MINUTE, usable)
    phase, stride = _frac(schedule_id * TURN), _stride(count)
    first = floor(phase * (count - 1 + share))
    start = _frac(phase * (count - 1 + share) - share)  # so that turn 0 has the last minute if event 1 starts there
    last = (count - 1 - first) * pow(stride, -1, count) % count
    return StaggerWindow(count, last_width, share, start, stride, first, last, phase)


@cache
def _stride(count: int) -> int:
    """The number nearest to the golden ratio of `count` that leads through all minutes."""
    wanted = count * GOLDEN
    return min((step for step in range(1, count + 1) if gcd(step, count) == 1), key=lambda step: abs(step - wanted))


def _frac(number: float) -> float:
    return number - floor(number)
