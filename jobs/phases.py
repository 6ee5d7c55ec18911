"""*phased*: retries at fixed places of a line that is the same for all, each record at its own phase between two.

    base(k) = (k³ + 3k) · unit            the mean of *buckets*, U((k − 1)³, (k + 1)³)
    T(k)    = base(1) + … + base(k)
    place k = T(k) + u · (T(k + 1) − T(k)), in seconds since the first failure

u is the record's own phase in [0, 1): the fractional part of (id + 1) · 0.618…, so that phases of successive ids cut
the interval into almost equal parts (the three-gap theorem; Knuth, The Art of Computer Programming, vol. 3, 6.4). The
load is even because phases are spread evenly; waits differ little because a record keeps its phase. T starts with the
whole first base delay: one that started at 0 would bunch the first retries.

A record that comes late (a long attempt, an absent source, downtime) takes the next place that is still to come. It
is not tried at once: after ten days without workers that would be forty retries in a row. docs/decisions tells more.
"""

from dataclasses import dataclass

GOLDEN = 0x9E37_79B9_7F4A_7C15
"""The fractional part of the golden ratio, 0.618…, times 2^64: exact for ids of any size, as floats are not."""

LAST_PLACE = 10**12
"""More retries than there are seconds in thirty thousand years."""


def phase(record_id: int) -> float:
    """The phase of a record, in [0, 1)."""
    return ((record_id + 1) * GOLDEN % 2**64 >> 11) / 2**53


def base(k: int, unit: float = 1.0) -> float:
    """The base delay before the cap, in seconds: the mean wait of *buckets* after k failures."""
    return (k**3 + 3 * k) * unit


def _sum_of_bases(k: int) -> int:
    """base(1) + … + base(k) for a unit of 1."""
    half = k * (k + 1) // 2
    return half * half + 3 * half


@dataclass(frozen=True)
class Line:
    """The places of one unit and cap, both in seconds and above 0.

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
        k = min(k, LAST_PLACE)
        uncapped = max(2, min(k, self._last_uncapped()))
        grown = self.unit * (_sum_of_bases(uncapped) - _sum_of_bases(2))
        return self.delay(1) + self.delay(2) + grown + self.cap * (k - uncapped)

    def place(self, k: int, u: float) -> float:
        """When retry k of the phase u happens, in seconds since the first failure; place 0 is the failure itself."""
        return self.start(k) + u * self.delay(k + 1) if k else 0.0

    def wait(self, k: int, u: float, elapsed: float | None) -> float:
        """Seconds from the k-th failure, `elapsed` seconds after the first one, to the next place from k on.

        None: it was on time, at place k − 1.
        """
        if elapsed is None:
            return self.place(k, u) - self.place(k - 1, u)
        return self.place(self._next_place(k, u, elapsed), u) - elapsed

    def _next_place(self, k: int, u: float, elapsed: float) -> int:
        """The first place from k on that is after `elapsed`: by doubling, then by halving."""
        step = 1
        while self.place(k + step - 1, u) <= elapsed and step < LAST_PLACE:
            step *= 2
        low, high = k + step // 2, k + step - 1
        if step == 1:
            return k
        while low < high:
            middle = (low + high) // 2
            if self.place(middle, u) > elapsed:
                high = middle
            else:
                low = middle + 1
        return low

    def _last_uncapped(self) -> int:
        """The largest k whose base delay is not above the cap; 0: none."""
        k = int(min(self.cap / self.unit, 1e36) ** (1 / 3)) + 2
        while k > 0 and base(k, self.unit) > self.cap:
            k -= 1
        return k
