"""What the axes of a picture span. Pictures that are compared share them. Pure."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from operations.backoff.axes import scale_for
from operations.backoff.figures import MINUTE, per_minute
from operations.backoff.subjects import Study

SHORTEST = 1.0
"""Seconds: on a log axis, what is shorter is drawn here."""

COLUMNS = 400
"""The load is drawn in at most so many columns, about one a pixel."""


@dataclass(frozen=True)
class Frame:
    """From where to where, all in seconds but for the load, in retries per minute.

    The load reaches to what comes after the first three retries, whose peak would press down all the rest.
    """

    scale: str
    start: float
    end: float
    load: int
    least_wait: float
    most_wait: float


def frame_of(studies: Sequence[Study], scale: str = "auto") -> Frame:
    """The frame that holds all of them; `scale` is one of `axes.SCALES`. The end is that of the last retry or more."""
    instants = [at for study in studies for job in study.series.jobs for at in (*job[:1], *job[-1:])]
    spreads = [spread for study in studies for spread in study.figures.spreads]
    first = min((spread.median for study in studies for spread in study.figures.spreads[:1]), default=0.0)
    end = max(instants, default=0.0) or float(MINUTE)
    chosen = scale_for(scale, first, end)
    start = max(SHORTEST, min(instants, default=0.0)) if chosen == "log" else 0.0
    most = max(SHORTEST, *(spread.most for spread in spreads), 0.0)
    return Frame(
        scale=chosen,
        start=min(start * 0.8, end / 2),
        end=end * (1.3 if chosen == "log" else 1.02),
        load=max(1, *(study.figures.peak_after_three or study.figures.peak_per_minute for study in studies)),
        least_wait=min(max(SHORTEST, min((spread.least for spread in spreads), default=0.0)), most),
        most_wait=most,
    )


def columns(jobs: Sequence[Sequence[float]], frame: Frame) -> tuple[list[float], list[int]]:
    """The load as a line of steps: the edges of the columns in seconds, and in each the busiest minute's retries.

    The columns are minutes where these are not too many.
    """
    load = per_minute(jobs)
    edges = _edges(frame)
    busy = sorted(load)
    return edges, [_busiest(load, busy, low, high) for low, high in pairwise(edges)]


def _edges(frame: Frame) -> list[float]:
    if frame.scale == "log":
        growth = (frame.end / frame.start) ** (1 / COLUMNS)
        return [frame.start * growth**number for number in range(COLUMNS + 1)]
    minutes = int(frame.end // MINUTE) + 1
    width = MINUTE if minutes <= COLUMNS else frame.end / COLUMNS
    return [width * number for number in range(min(minutes, COLUMNS) + 1)]


def _busiest(load: Mapping[int, int], busy: Sequence[int], low: float, high: float) -> int:
    """The most retries in one of the minutes that [low, high) touches."""
    first = bisect_left(busy, int(low // MINUTE))
    found = 0
    for minute in busy[first:]:
        if minute * MINUTE >= high:
            break
        found = max(found, load[minute])
    return found
