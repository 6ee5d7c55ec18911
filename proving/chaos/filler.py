"""Puts records on the backlog, in bulk at first and then a few at a time, and remembers each."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from django.db import connection
from django.db.utils import InterfaceError, InternalError, OperationalError

from jobs import backlog, throttles
from jobs.handlers import registry
from jobs.models import BacklogRecord, RetryPolicy, Throttle
from proving.chaos import kinds
from proving.chaos.facts import Deeds

KEYS = 30
"""Exclusive keys that the relays share: enough for all places, few enough to collide."""
BULK = 1000


@dataclass(frozen=True)
class Portion:
    """The records of one kind: `at_first`, and then `a_second`. `tries`: failures after which one gives up, or None."""

    kind: str
    at_first: int
    a_second: float
    tries: int | None = None
    capped: bool = False


PORTIONS = (
    Portion("quick", 3000, 150),
    Portion("answer", 2000, 80),
    Portion("flaky", 500, 20),
    Portion("booked", 500, 20),
    Portion("relay", 300, 6, capped=True),
    Portion("capped", 400, 12, capped=True),
    Portion("slow", 20, 1.2),
    Portion("long", 6, 0.3),
    Portion("leave", 3, 0.1, tries=2),
    Portion("hang", 2, 0.06, tries=2),
    Portion("unresponsive", 1, 0.03, tries=1),
    Portion("poison", 1, 0.03, tries=2),
)
LOST = (OperationalError, InterfaceError, InternalError)
"""Errors if the database did not answer, or is not a primary any more."""
CAPS = {"two at once": 2, "three at once": 3}


@dataclass
class Filler:
    """Fills the backlog of `seed`, at first with `share` (up to 1) of the portions. Its caps: throttle id → cap."""

    seed: int
    deeds: Deeds
    share: float = 1.0
    portions: tuple[Portion, ...] = PORTIONS
    caps: dict[int, int] = field(default_factory=dict)
    _lanes: list[tuple[int, list[int]]] = field(default_factory=list)
    _policies: dict[int | None, int] = field(default_factory=dict)
    _made: dict[str, int] = field(default_factory=dict)
    _in_doubt: dict[tuple[str, int], dict[str, dict[str, Any]]] = field(default_factory=dict)

    def prepare(self) -> None:
        """Make the throttles, their lanes and the retry policies."""
        ids = [Throttle.objects.create(name=name, max_in_flight=cap).pk for name, cap in CAPS.items()]
        self.caps = dict(zip(ids, CAPS.values(), strict=True))
        self._lanes = [(0, [])] + [(throttles.lane_of(named), named) for named in ([ids[0]], [ids[1]], ids)]
        for tries in {portion.tries for portion in self.portions}:
            self._policies[tries] = RetryPolicy.objects.create(
                name=f"up to {tries}", algorithm="constant", parameters={"base": 0.2}, max_failures=tries
            ).pk

    def top_up(self, seconds: float) -> None:
        """Enqueue the records that are due `seconds` after the start."""
        for portion in self.portions:
            wanted = math.ceil(portion.at_first * self.share) + int(portion.a_second * seconds)
            made = self._made.get(portion.kind, 0)
            self._made[portion.kind] = max(made, wanted)
            for batch in _batches(range(made, wanted)):
                self._put(portion, batch)

    def settle_doubts(self) -> bool:
        """Enqueue the records that a broken connection left in doubt, unless they are there. Returns True if none is
        in doubt any more."""
        for (kind, lane), items in list(self._in_doubt.items()):
            try:
                there = set(BacklogRecord.objects.filter(subject__in=list(items)).values_list("subject", flat=True))
                missing = [(subject, payload) for subject, payload in items.items() if subject not in there]
                portion = next(portion for portion in self.portions if portion.kind == kind)
                backlog.enqueue(kind, missing, lane=lane, retry_policy_id=self._policies[portion.tries])
            except LOST:
                connection.close()
                return False
            self.deeds.subjects.update(dict.fromkeys(items, kind))
            del self._in_doubt[kind, lane]
        return True

    def _put(self, portion: Portion, numbers: range) -> None:
        lanes: dict[int, dict[str, dict[str, Any]]] = {}
        for number in numbers:
            luck = Random(f"{self.seed} {portion.kind} {number}")  # noqa: S311 - no secret
            lane, named = luck.choice(self._lanes) if portion.capped else self._lanes[0]
            if portion.kind == "capped" and not lane:
                lane, named = self._lanes[-1]
            payload: dict[str, Any] = {"throttles": named} if named else {}
            if portion.kind == "relay":
                payload["key"] = f"key {luck.randrange(KEYS)}"
            lanes.setdefault(lane, {})[f"{portion.kind} {number}"] = payload
        for lane, items in lanes.items():
            self._enqueue(portion, lane, items)

    def _enqueue(self, portion: Portion, lane: int, items: dict[str, dict[str, Any]]) -> None:
        policy = self._policies[portion.tries]
        try:
            backlog.enqueue(portion.kind, items.items(), lane=lane, retry_policy_id=policy)
        except LOST:
            connection.close()
            self._in_doubt.setdefault((portion.kind, lane), {}).update(items)
        else:
            self.deeds.subjects.update(dict.fromkeys(items, portion.kind))


def _batches(numbers: range) -> Iterator[range]:
    for start in range(numbers.start, numbers.stop, BULK):
        yield range(start, min(start + BULK, numbers.stop))


assert all(portion.kind in registry.kinds for portion in PORTIONS), kinds.__name__  # noqa: S101 - the table above
