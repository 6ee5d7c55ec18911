"""The part *share*: at most half of the units make first backups while later ones are there.

First backups have a separate heap next to that of the others. A claim merges both in claim order, until first ones have
their half; beyond that they are claimed only if no later one is left. Woken sources are claimed anyway.
"""

from collections.abc import Sequence
from datetime import datetime

from jobs import priorities
from jobs.outcomes import ClaimedRecord
from jobs.worker.claimer import ASKED_PER_PLACE, Shortage
from simulation.lookahead.memory import MemoryWorld
from simulation.lookahead.records import MemoryRecord, ReadyQueue
from sources.planning.names import BACKUPS

OF_FIRSTS = " of first backups"


class SharingWorld(MemoryWorld):
    """The backlog in memory with that part."""

    _firsts_at_work = 0

    def has_ready(self, queue: str) -> bool:
        return super().has_ready(queue) or self._ready[queue + OF_FIRSTS].count > 0

    def shortage(self, feeder: str, now: datetime) -> Shortage:
        missing, feeders, woken = super().shortage(feeder, now)
        ready = self._ready[BACKUPS + OF_FIRSTS].count
        return Shortage(missing - ready, feeders, woken + self._ready[feeder + OF_FIRSTS].woken)

    def claim(self, queue: str, limit: int, now: datetime) -> Sequence[ClaimedRecord]:
        firsts, laters = self._ready[queue + OF_FIRSTS], self._ready[queue]
        left, claimed = self._left_for_firsts(queue), list[ClaimedRecord]()
        while len(claimed) < limit:
            first, later = firsts.first(), laters.first()
            if first and later and left <= 0 and not priorities.is_woken(first[2].priority):
                first = None
            if not (first or later):
                break
            is_first = first is not None and (later is None or first[0] < later[0])
            left -= is_first
            claimed += [self._run(each, now) for each in (firsts if is_first else laters).take(1)]
        return claimed

    def claim_woken(self, queue: str, limit: int, now: datetime) -> Sequence[ClaimedRecord]:
        firsts = self._ready[queue + OF_FIRSTS].take(limit, woken_only=True)
        claimed = [self._run(record, now) for record in firsts]
        return [*claimed, *super().claim_woken(queue, limit - len(claimed), now)]

    def _left_for_firsts(self, queue: str) -> int:
        """The number of further first backups that may be claimed from a queue while later ones are there."""
        if queue == BACKUPS:
            return self._units // 2 - self._firsts_at_work
        with_those_ahead = (self._units + (self._units + 1) // 2) // 2
        return ASKED_PER_PLACE * (with_those_ahead - self._firsts_at_work - self._ready[BACKUPS + OF_FIRSTS].count)

    def _run(self, record: MemoryRecord, now: datetime) -> ClaimedRecord:
        self._firsts_at_work += record.queue == BACKUPS and record.due_day is None
        return super()._run(record, now)

    def _ended(self, record: MemoryRecord) -> None:
        super()._ended(record)
        self._firsts_at_work -= record.queue == BACKUPS and record.due_day is None

    def _queue_of(self, record: MemoryRecord) -> ReadyQueue:
        return self._ready[record.queue + (OF_FIRSTS if record.due_day is None else "")]
