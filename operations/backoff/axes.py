"""The time axis of the pictures: which scale suits, and where its ticks stand. Pure."""

import math
from collections.abc import Sequence

from jobs.durations import span

SCALES = ("auto", "linear", "log")

LOG_FROM = 3_000
"""So many times the median first retry is the longest time that is read well on a linear axis."""

MINUTE, HOUR, DAY = 60, 3_600, 86_400
UNITS = {"s": 1, "min": MINUTE, "h": HOUR, "d": DAY}
STEPS = {
    "s": (1, 2, 5, 10, 15, 20, 30),
    "min": (1, 2, 5, 10, 15, 20, 30),
    "h": (1, 2, 3, 6, 12),
    "d": (1, 2, 5, 7, 14, 30, 60, 90, 180, 360, 720, 3_600),
}
ROUND = [step * size for unit, size in UNITS.items() for step in STEPS[unit]]
"""Distances between ticks that people know, in seconds, increasing."""

ON_A_LOG_AXIS = (
    0.001, 0.01, 0.1, 1, 3, 10, 30, MINUTE, 3 * MINUTE, 10 * MINUTE, 30 * MINUTE, HOUR, 3 * HOUR, 12 * HOUR, DAY,
    3 * DAY, 10 * DAY, 30 * DAY, 90 * DAY, 360 * DAY, 1_000 * DAY, 10_000 * DAY, 100_000 * DAY, 1_000_000 * DAY,
    10_000_000 * DAY,
)  # fmt: skip


def told(seconds: float) -> str:
    """A tick's words, as `30 s` or `1 h 15 min`."""
    if seconds >= MINUTE:
        return span(seconds)
    return f"{seconds:g} s" if seconds else "0"


def scale_for(asked: str, first_retry: float, last_retry: float) -> str:
    """`linear` or `log`; asked `auto`, log where a linear axis would press the first retries together."""
    if asked != "auto":
        return asked
    return "log" if last_retry > LOG_FROM * max(first_retry, 0.001) else "linear"


def linear_ticks(end: float, most: int) -> list[float]:
    """Ticks from 0 to `end` seconds, at most `most` beside the one at 0."""
    step: float = next((step for step in ROUND if end / step <= most), 0)
    if not step:
        step = 10 ** math.ceil(math.log10(end / DAY / most)) * DAY
    return [step * number for number in range(int(end / step) + 1)]


def log_ticks(start: float, end: float, most: int) -> Sequence[float]:
    """Round instants from `start` to `end` seconds, at most `most`; where there are none, the one in the middle."""
    within = [tick for tick in ON_A_LOG_AXIS if start <= tick <= end * 1.001]
    every = max(1, math.ceil(len(within) / most))
    return within[::every] or [round(math.sqrt(start * end), 2)]
