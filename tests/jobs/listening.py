"""Execution units whose results a test waits for."""

import threading
from queue import SimpleQueue

from jobs.clock import boot_seconds
from jobs.conf import QueueRule
from jobs.outcomes import ClaimedRecord, Outcome
from jobs.worker.units import Units
from tests.waiting import PATIENCE

PLACES = 2


class Listening(Units):
    """Two places of the queue `default`; keeps what came of its runs."""

    def __init__(self, **rule: str) -> None:
        self.ended: SimpleQueue[tuple[ClaimedRecord, Outcome]] = SimpleQueue()
        self.room_was_made = threading.Event()
        super().__init__(
            [QueueRule("default", PLACES, **rule)],
            lambda record, outcome: self.ended.put((record, outcome)),
            room_made=self.room_was_made.set,
            after_thread=lambda: None,
        )

    def run(self, *records: ClaimedRecord) -> None:
        self.start(list(records), boot_seconds())

    def outcome(self) -> Outcome:
        return self.ended.get(timeout=PATIENCE)[1]

    def outcomes(self, count: int) -> list[Outcome]:
        return [self.outcome() for _ in range(count)]
