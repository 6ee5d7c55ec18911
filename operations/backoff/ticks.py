"""Marks of an axis of time, at distances that people know."""

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

from jobs.durations import span
from operations.backoff.study import DAY, HOUR, MINUTE

ROUND = (
    *(n * unit for unit in (1, MINUTE) for n in (1, 2, 5, 10, 15, 30)), *(n * HOUR for n in (1, 2, 3, 6, 12)),
    *(n * DAY for n in (1, 2, 5, 7, 14, 30, 60, 90, 180, 360, 720)), *(3_600 * DAY * 10**n for n in range(9)),
)  # fmt: skip
"""Distances between ticks that people know, in seconds, increasing."""
ON_A_LOG_AXIS = (
    0.001, 0.01, 0.1, 1, 3, 10, 30, MINUTE, 3 * MINUTE, 10 * MINUTE, 30 * MINUTE, HOUR, 3 * HOUR, 12 * HOUR,
    *(n * DAY for n in (1, 3, 10, 30, 90, 360, 1_000, 10_000, 100_000, 1_000_000, 10_000_000)),
)  # fmt: skip


def ticks(start: float, end: float, most: int, *, log: bool) -> list[float]:
    """Round instants from `start` to `end` seconds, about `most` of them, one at least."""
    if log:
        within = [tick for tick in ON_A_LOG_AXIS if start <= tick <= end * 1.001]
        return within[:: max(1, math.ceil(len(within) / most))] or [round(math.sqrt(start * end), 2)]
    step = next(step for step in ROUND if end / step <= most)
    return [step * number for number in range(int(end / step) + 1)]


def set_ticks(axis: Any, places: Sequence[float]) -> None:
    axis.set_major_locator(FixedLocator(places))
    axis.set_major_formatter(FixedFormatter([span(place) for place in places]))
    axis.set_minor_locator(NullLocator())
