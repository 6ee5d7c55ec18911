"""Whether batches get through what they share: a queue filled by the load and emptied at a pace. Pure.

Events are not followed one by one: the queue holds seconds of work, each minute adds what may start in it and takes 60
away. Who comes first goes first, so a batch is through when what lay in the queue at its last event is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from schedules.plan_load import MINUTE

FAST = 1_500
"""Events a second of one worker, however short they are: 2,000 to 3,000 callbacks were measured on two cores."""


@dataclass(frozen=True)
class Gate:
    """What lets events through: at most `in_flight` at the same instant and `rate` a second; None: no such limit.

    `burst`: how many the rate lets through at once after a pause. `places`: how many the workers that live run at once;
    None: not known. `name` is that of the throttle; empty: there is none. `workers`: how many live; one is reckoned
    with where none does.
    """

    in_flight: int | None = None
    rate: float | None = None
    burst: float = 0
    places: int | None = None
    name: str = ""
    workers: int = 0

    @property
    def is_shut(self) -> bool:
        return self.in_flight == 0

    @property
    def fastest(self) -> int:
        """Events a second that the workers deliver at most, however short an event is."""
        return FAST * max(1, self.workers)

    @property
    def is_open(self) -> bool:
        """Whether nothing is known that limits it: no throttle, no workers."""
        return self.in_flight is None and self.rate is None and self.places is None

    def pace(self, seconds_each: float) -> float:
        """Events a second that it lets through when each is in flight for so long: at most the `fastest`."""
        at_once = min((limit for limit in (self.in_flight, self.places) if limit is not None), default=inf)
        by_flight = at_once / seconds_each if seconds_each else inf
        return min(inf if self.rate is None else self.rate, by_flight, self.fastest)

    def cost(self, seconds_each: float) -> float:
        """Seconds for which one event keeps it from letting others through; infinity when it is shut."""
        pace = self.pace(seconds_each)
        return 1 / pace if pace else inf

    def credit(self, seconds_each: float) -> float:
        """Seconds of work that it lets through at once after a pause: none where the rate is not what limits."""
        if self.rate is None or self.pace(seconds_each) < self.rate:
            return 0.0
        return self.burst / self.rate


def queued(work: Sequence[float], credit: float = 0.0) -> list[float]:
    """Seconds of work in the queue once each minute's `work` (seconds) has come to it, before that minute is worked.

    `credit`: seconds of work that go through at once after a pause.
    """
    found, left = [], -credit
    for coming in work:
        left += coming
        found.append(max(0.0, left))
        left = max(-credit, left - MINUTE)
    return found


@dataclass(frozen=True)
class Ending:
    """When one batch is through, in seconds from its trigger, which is `trigger` minutes from the start."""

    trigger: int
    seconds: float


def endings(at: Sequence[int], last: float, queue: Sequence[float], seconds_each: float) -> list[Ending]:
    """When the batches at the minutes `at` are through; those are left out whose last event lies beyond the `queue`.

    `last`: seconds from a trigger to its last event.
    """
    behind = int(last // MINUTE)
    return [
        Ending(trigger, max(behind * MINUTE + queue[trigger + behind], last) + seconds_each)
        for trigger in at
        if trigger + behind < len(queue)
    ]
