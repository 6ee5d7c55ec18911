"""Execution units whose results a test waits for, and handlers that wait for a test."""

import asyncio
import threading
from queue import SimpleQueue

from jobs.clock import boot_seconds
from jobs.conf import QueueRule
from jobs.handlers import Run
from jobs.outcomes import ClaimedRecord, Outcome, Released, Succeeded
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


class Gate:
    """A sync and an async handler that run until `open` is called, and count how many began."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._counting = threading.Lock()
        self.began = self.at_once = self.peak = 0

    def _enter(self) -> None:
        with self._counting:
            self.began += 1
            self.at_once += 1
            self.peak = max(self.peak, self.at_once)

    def sync(self, run: Run) -> Outcome:
        self._enter()
        try:
            while not self._open.wait(0.01):
                if run.stop.is_set():
                    return Released()
            return Succeeded()
        finally:
            with self._counting:
                self.at_once -= 1

    async def asynchronous(self, run: Run) -> Outcome:
        self._enter()
        try:
            while not self._open.is_set():
                await asyncio.sleep(0.01)
            return Succeeded()
        finally:
            with self._counting:
                self.at_once -= 1

    def open(self) -> None:
        self._open.set()
