"""*phased*: retries at fixed places of a line that is the same for all, each record at its own phase between two.

    base(k) = (k³ + 3k) · unit            the mean of *buckets*, U((k − 1)³, (k + 1)³)
    T(k)    = base(1) + … + base(k)
    place k = T(k) + u · (T(k + 1) − T(k)), in seconds since the first failure

u is the record's own phase in [0, 1): the fractional part of (id + 1) · 0.771…, so that phases of successive ids cut
the interval into almost equal parts (the three-gap theorem; Knuth, The Art of Computer Programming, vol. 3, 6.4), and
so do those of every second to twelfth id. The load is even because phases are spread evenly; waits differ little
because a record keeps its phase. T starts with the whole first base delay: one that started at 0 would bunch the
first retries.

On time, failure k comes soon after place k − 1 and place k follows. Otherwise a record stays on its places:

* late (a long attempt, silence, downtime): the next place that is still to come. It is not tried at once:
  after ten days without workers that would be twenty retries in a row.
* early (a user retried it, or it comes from a policy that retried more often): the last place that is not beyond the
  wait that k failures have on time. Place k itself may be weeks away.

docs/decisions/0027-phased-retries-keep-their-places.md has the figures.
"""

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property

from jobs.retries.waits import Failure, Parameters, Rng

STEP = 0xC569_2BA5_C6C6_E471
"""0.771…, the continued fraction [0; 1, 3, 2, 1, 2, 2, 2, 2, 1, 1, 2, …], times 2^64: exact for ids of any size.

The golden ratio is slightly more even for successive ids, but bunches every eighth, twelfth or sixteenth: those of one
repository of several. This one was searched for (decision 0027).
"""

LAST_PLACE = 10**12
"""The last place. With a cap of one second it is more than thirty thousand years after the first failure, beyond every
date."""

GRAIN = 0.001
"""Seconds. Instants are stored in microseconds, so an attempt may start slightly before its place."""


def phase(record_id: int) -> float:
    """The phase of a record, in [0, 1)."""
    return ((record_id + 1) * STEP % 2**64 >> 11) / 2**53


def base(k: int, unit: float = 1.0) -> float:
    """The base delay before the cap, in seconds: the mean wait of *buckets* after k failures."""
    return (k**3 + 3 * k) * unit


def _sum_of_bases(k: int) -> int:
    """base(1) + … + base(k) for a unit of 1."""
    half = k * (k + 1) // 2
    return half * half + 3 * half


@dataclass(frozen=True)
class PhasePlaces:
    """The places of one unit and cap, both in seconds, at least a millisecond and a second; the cap may be infinite.

    No wait is longer than the cap. The first one spans up to two base delays, so each of these is at most half of it.
    """

    unit: float
    cap: float

    def delay(self, k: int) -> float:
        """base(k), capped: how far T(k) is from T(k − 1)."""
        return min(base(min(k, LAST_PLACE), self.unit), self.cap / 2 if k <= 2 else self.cap)

    def start(self, k: int) -> float:
        """T(k), in constant time; T(0) = 0."""
        if k <= 2:
            return sum(self.delay(i) for i in range(1, k + 1))
        uncapped = max(2, min(k, self._last_uncapped))
        grown = self.unit * (_sum_of_bases(uncapped) - _sum_of_bases(2))
        at_the_cap = self.cap * (k - uncapped) if k > uncapped else 0.0  # the cap may be infinite
        return self.delay(1) + self.delay(2) + grown + at_the_cap

    def place(self, k: int, u: float) -> float:
        """The instant of retry k of the phase u, in seconds since the first failure; place 0 is the failure itself."""
        return self.start(k) + u * self.delay(k + 1) if k else 0.0

    def gap(self, k: int, u: float) -> float:
        """Seconds from place k − 1 to place k: the wait after k failures on time. It never shrinks as k grows."""
        if k == 1:
            return self.place(1, u)
        return self.delay(k) + u * (self.delay(k + 1) - self.delay(k))

    def wait(self, k: int, u: float, elapsed: float | None) -> float:
        """Seconds from the k-th failure, `elapsed` seconds after the first one, to the next retry; at most the cap.

        If `elapsed` is None, it was on time, at place k − 1.
        """
        on_time = self.gap(k, u)
        if elapsed is None:
            return on_time
        place = self.place(self._next_place(elapsed, elapsed + on_time + GRAIN, u), u)
        return min(place - elapsed, self.cap)

    def _next_place(self, elapsed: float, furthest: float, u: float) -> int:
        """The last place up to `furthest`, if that is after `elapsed`; else the first one after. On time: k."""
        last = bisect_right(range(LAST_PLACE), furthest, key=lambda k: self.place(k, u)) - 1
        return last if self.place(last, u) > elapsed else last + 1

    @cached_property
    def _last_uncapped(self) -> int:
        """The largest k whose base delay is not above the cap; 0: none."""
        k = int(min(self.cap / self.unit, LAST_PLACE**3) ** (1 / 3)) + 2
        while k > 0 and base(k, self.unit) > self.cap:
            k -= 1
        return k


def phased(failure: Failure, given: Parameters, cap: float, rng: Rng) -> float:
    """Seconds until the record's own place on the line of `unit` seconds and the cap."""
    elapsed = failure.failing_for if failure.first_at is not None else None
    return PhasePlaces(float(given["unit"]), cap).wait(failure.number, phase(failure.record_id), elapsed)
