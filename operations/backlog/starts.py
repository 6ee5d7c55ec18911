"""The starts of records of a queue, by running its claims forward from a state: units that end, records that come, and
throttles. Pure; a property test plays the same on real claims.

A free unit claims by the claim order the records that the throttles let through (`operations/backlog/throttling.py`).
Rates are not followed: a throttle with one has no estimate.
"""

from bisect import insort
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from heapq import heapify, heappop, heappush
from math import inf
from typing import Any

from jobs.order import claim_key
from operations.backlog.ends import RunProgress
from operations.backlog.throttling import Head, let_through


@dataclass(frozen=True)
class Waiter:
    """A record that is ready, or will be at `ready_at`, and is not begun from `closes_at` on. `leaves_at`: when its
    source goes away: from then on the record is not begun, and if it runs it ends.
    """

    head: Head
    ready_at: datetime
    closes_at: datetime | None = None
    is_first: bool = False
    """True if its duration is a guess."""
    leaves_at: datetime | None = None


@dataclass(frozen=True)
class Runner:
    """A record that runs since `began_at`; `expected_seconds` is the duration of its last success, None
    if it has none; `progress`: as it reports it.
    """

    id: int
    lane: int
    began_at: datetime
    expected_seconds: float | None
    progress: RunProgress | None = None


@dataclass(frozen=True)
class QueueState:
    """A queue at an instant. `lanes`: lane → its throttles; `most`: throttle → how many of its records run at once."""

    now: datetime
    units: int
    running: Sequence[Runner]
    waiting: Collection[Waiter]
    lanes: Mapping[int, Sequence[int]]
    most: Mapping[int, int]


Seconds = Callable[[Waiter | Runner], float]
"""The whole duration from the beginning; infinite if that is not known, and then its unit is never free again."""


def starts(
    state: QueueState, seconds: Seconds, wanted: int | None = None, check_time: Callable[[], object] = lambda: None
) -> dict[int, datetime]:
    """Record → its start, until all have one that can, or the record `wanted` has. A record that does not start is not
    in it. `check_time` is called at each step, and may raise.
    """
    ends = [(_end(each, seconds, state.now), each.lane) for each in state.running]
    heapify(ends)
    coming = sorted(state.waiting, key=lambda each: each.ready_at, reverse=True)
    line = _ReadyLine(state)
    for _, lane in ends:
        line.take(lane, 1)
    found: dict[int, datetime] = {}
    now = state.now.timestamp()
    while True:
        check_time()
        while ends and ends[0][0] <= now:
            line.take(heappop(ends)[1], -1)
        while coming and coming[-1].ready_at.timestamp() <= now:
            line.add(coming.pop())
        for each in line.claim(state.units - len(ends), now):
            found[each.head.id] = datetime.fromtimestamp(now, state.now.tzinfo)
            leaves = inf if each.leaves_at is None else each.leaves_at.timestamp()
            heappush(ends, (min(now + seconds(each), leaves), each.head.lane))
        following = [end for end, _ in ends[:1]] + [each.ready_at.timestamp() for each in coming[-1:]]
        is_over = not (line.records or coming) or not following or min(following) == inf
        if is_over or (wanted is not None and wanted in found):
            return found
        now = max(now, min(following))


class _ReadyLine:
    """The ready records, one sorted list for each lane, and the number of each throttle's records that run."""

    def __init__(self, state: QueueState) -> None:
        self._state = state
        self._lanes: dict[int, list[tuple[Any, Waiter]]] = defaultdict(list)
        self._busy = defaultdict[int, int](int)

    @property
    def records(self) -> bool:
        return any(self._lanes.values())

    def add(self, waiter: Waiter) -> None:
        insort(self._lanes[waiter.head.lane], (claim_key(waiter.head), waiter), key=lambda each: each[0])

    def take(self, lane: int, count: int) -> None:
        for throttle in self._state.lanes.get(lane, ()):
            self._busy[throttle] += count

    def claim(self, free: int, now: float) -> list[Waiter]:
        """The records that this number of free units claims at once, in order; their places are then taken."""
        if free <= 0 or not self.records:
            return []
        first = {lane: found for lane in self._lanes if (found := self._first(lane, free, now))}
        if not any(self._state.lanes.get(lane) for lane in first):
            claimed = sorted((each for found in first.values() for each in found), key=lambda each: each[0])[:free]
            return self._taken(claimed)
        rooms = {throttle: most - self._busy[throttle] for throttle, most in self._state.most.items()}
        heads = {lane: [each.head for _, each in found] for lane, found in first.items()}
        through = let_through(heads, {lane: self._state.lanes.get(lane, ()) for lane in heads}, rooms, spends=True)
        passing = [each for found in first.values() for each in found if each[1].head.id in through]
        return self._taken(sorted(passing, key=lambda each: each[0])[:free])

    def _taken(self, claimed: list[tuple[Any, Waiter]]) -> list[Waiter]:
        for each in claimed:
            self._lanes[each[1].head.lane].remove(each)
            self.take(each[1].head.lane, 1)
        return [waiter for _, waiter in claimed]

    def _first(self, lane: int, most: int, now: float) -> list[tuple[Any, Waiter]]:
        """The first records of a lane that may be begun; records before them that no longer may are dropped."""
        found, place = self._lanes[lane], 0
        while place < min(most, len(found)):
            if _closed(found[place][1], now):
                del found[place]
            else:
                place += 1
        return found[:place]


def _closed(waiter: Waiter, now: float) -> bool:
    closes_at, leaves_at = waiter.closes_at, waiter.leaves_at
    return (closes_at is not None and closes_at.timestamp() <= now) or (
        leaves_at is not None and leaves_at.timestamp() <= now
    )


def _end(each: Runner, seconds: Seconds, now: datetime) -> float:
    took = seconds(each)
    return inf if took == inf else max(now, each.began_at + timedelta(seconds=took)).timestamp()
