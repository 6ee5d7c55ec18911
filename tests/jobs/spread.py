"""Measures of how evenly instants are spread."""

from bisect import bisect_left
from collections.abc import Sequence


def most_within(seconds: float, instants: Sequence[float]) -> int:
    """The most of these instants, which are in order, within any stretch of that many seconds."""
    return max(bisect_left(instants, began + seconds, place) - place for place, began in enumerate(instants))
