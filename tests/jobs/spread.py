"""How even instants lie."""

from bisect import bisect_left
from collections.abc import Sequence


def most_within(seconds: float, instants: Sequence[float]) -> int:
    """How many of these instants, in order, lie in the fullest stretch of so many seconds, wherever that begins."""
    return max(bisect_left(instants, began + seconds, place) - place for place, began in enumerate(instants))
