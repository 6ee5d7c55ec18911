"""When the events of a staggered batch start: evenly over the window, each by its number alone. Pure.

The window is cut into the minutes from its start. Event after event goes to the minute that lies a golden ratio of the
window further on, so that any few are far apart; after as many events as there are minutes each minute has had exactly
one, and the next round begins. So a minute has at most one event more than the mean, whatever the numbers are. Within
its minute an event's place is again by the golden ratio, from round to round. `frac(offset + n · 0.618…)` over the
whole window does nearly that, and no more: 239 events over an hour then have a minute with the mean and 2.02 more.

No event's start depends on how many there are: one more moves no other. The schedule's id turns the order, so that
schedules of few events do not all start in the same minute.
"""

from math import ceil, floor, gcd, sqrt
from typing import NamedTuple

MINUTE = 60
GOLDEN = (sqrt(5) - 1) / 2
TURN = sqrt(2) - 1
"""From one schedule's id to the next. Not the golden ratio again: then event 2 of one would be event 1 of the next."""

LAST_DELIVERY_FOR = 30.0
"""Seconds before the close of the window in which no event starts, so that the last one can still be delivered: what
an endpoint gets for an answer by default. Half of the last minute at most."""


class Window(NamedTuple):
    """A window of so many `minutes`, in the last of which events start for `last_width` seconds only. `stride` minutes
    lie between one event and the next; event 1 starts in minute `first`."""

    minutes: int
    stride: int
    first: int
    last_width: float


def offsets(count: int, window_for: float, schedule_id: int, first: int = 1) -> list[float]:
    """The seconds from the start of a window of `window_for` seconds at which its events `first` … `count` start.

    Events are numbered from 1. In whole milliseconds, at least 0 and before the close. Without a window: all 0.
    """
    if window_for <= 0:
        return [0.0] * max(0, count + 1 - first)
    window = _window(window_for, schedule_id)
    phase = _frac(schedule_id * TURN)
    return [_offset(number - 1, window, phase) for number in range(first, count + 1)]


def _offset(place: int, window: Window, phase: float) -> float:
    turn, step = divmod(place, window.minutes)
    minute = (window.first + step * window.stride) % window.minutes
    width = window.last_width if minute == window.minutes - 1 else MINUTE
    within = _frac(phase + (step + turn) * GOLDEN)
    return floor((minute * MINUTE + within * width) * 1000) / 1000


def _window(window_for: float, schedule_id: int) -> Window:
    count = ceil(window_for / MINUTE)
    last = window_for - (count - 1) * MINUTE
    first = floor(_frac(schedule_id * TURN) * count)
    return Window(count, _stride(count), first, last - min(LAST_DELIVERY_FOR, last / 2))


def _stride(count: int) -> int:
    """The number nearest to the golden ratio of `count` that leads through all minutes."""
    wanted = count * GOLDEN
    return min((step for step in range(1, count + 1) if gcd(step, count) == 1), key=lambda step: abs(step - wanted))


def _frac(number: float) -> float:
    return number - floor(number)
