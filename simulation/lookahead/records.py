"""A record of the backlog in memory, and the order in which a queue of them is claimed."""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, cast

from jobs import priorities
from jobs.order import claim_key
from jobs.outcomes import ClaimedRecord
from jobs.states import Status, WaitingFor
from sources.planning.names import KIND


@dataclass(slots=True, eq=False)
class MemoryRecord:
    """A record with the fields of `ClaimedRecord`, so that the same functions decide about both."""

    id: int
    number: int
    """The number of the machine."""
    subject: str
    queue: str
    status: Status
    waiting_for: WaitingFor | None
    inserted_at: datetime
    run_after: datetime
    closes_at: datetime | None
    due_day: date | None
    rank_day: date | None
    expected_seconds: float | None
    failures: int
    first_failure_at: datetime | None
    last_failure_at: datetime | None = None
    tried_at: datetime | None = None
    priority: int = 0
    attempt: int = 0
    started_at: datetime | None = None
    kind: str = KIND
    lane: int = 0
    origin_id: int | None = None
    retry_policy_id: int | None = None
    exclusive_key: str | None = None
    payload: dict[str, Any] = field(default_factory=dict)
    moves: int = 0
    """The number of times that its place changed: an older entry in a heap is out of date."""

    @property
    def as_claimed(self) -> ClaimedRecord:
        return cast("ClaimedRecord", self)


class ReadyQueue:
    """The ready records of one queue, in claim order."""

    def __init__(self) -> None:
        self._heap: list[tuple[Any, int, MemoryRecord]] = []
        self.count = self.woken = 0

    def put(self, record: MemoryRecord) -> None:
        heapq.heappush(self._heap, (claim_key(record.as_claimed), record.moves, record))
        self._counts(record, 1)

    def left(self, record: MemoryRecord) -> None:
        """Uncount a record that is no longer ready. Must be called before its `moves` change."""
        self._counts(record, -1)

    def first(self) -> tuple[Any, int, MemoryRecord] | None:
        """The key of the first one, its moves and itself."""
        while self._heap and self._heap[0][1] != self._heap[0][2].moves:
            heapq.heappop(self._heap)
        return self._heap[0] if self._heap else None

    def take(self, limit: int, *, woken_only: bool = False) -> Iterator[MemoryRecord]:
        """Up to `limit` records; each has to be moved before the next is drawn."""
        for _ in range(limit):
            if not (found := self.first()) or (woken_only and not priorities.is_woken(found[2].priority)):
                return
            heapq.heappop(self._heap)
            yield found[2]

    def _counts(self, record: MemoryRecord, change: int) -> None:
        self.count += change
        if priorities.is_woken(record.priority):
            self.woken += change


class Timeline:
    """Records by an instant at which time moves them."""

    def __init__(self) -> None:
        self._heap: list[tuple[datetime, int, int, MemoryRecord]] = []

    def put(self, at: datetime, record: MemoryRecord) -> None:
        heapq.heappush(self._heap, (at, record.id, record.moves, record))

    def next_at(self) -> datetime | None:
        while self._heap and self._heap[0][2] != self._heap[0][3].moves:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def take(self, now: datetime) -> Iterator[MemoryRecord]:
        """The records whose instant has come; each has to be moved before the next is drawn."""
        while (at := self.next_at()) is not None and at <= now:
            yield heapq.heappop(self._heap)[3]
