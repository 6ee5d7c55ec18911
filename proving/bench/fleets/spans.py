"""Spans of time from recorded attempts, in seconds on one clock. Pure."""

from collections.abc import Iterable
from typing import NamedTuple


class UnitSpan(NamedTuple):
    """The time from `start` to `end`, in seconds."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.start

    def within(self, other: "UnitSpan") -> "UnitSpan":
        """The part of this span that is in `other`; its length is 0 if there is none."""
        start = max(self.start, other.start)
        return UnitSpan(start, max(start, min(self.end, other.end)))


def unit_seconds(spans: Iterable[UnitSpan]) -> float:
    """The time for which units were taken, all together."""
    return sum(span.seconds for span in spans)


def busy_share(spans: Iterable[UnitSpan], units: int, whole: UnitSpan) -> float:
    """The share (0 to 1) of the time of `units` that `spans` took during `whole`."""
    return unit_seconds(span.within(whole) for span in spans) / (units * whole.seconds)


def seconds_of_one_pass(sources: int, at_once: int, timeout: float) -> float:
    """The least time that it takes to ask silent `sources`, `at_once` at a time, for `timeout` seconds each."""
    return max(1.0, sources / at_once) * timeout
