"""The places of sync handlers: threads that take the next run when they are free.

They live as long as the worker, since the parent-death signal of an engine is tied to the thread that started it.
"""

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

from jobs import conf
from jobs.clock import boot_seconds
from jobs.handlers import Run
from jobs.worker.places import NOT_BEGUN, Done, ended, failure, handler_of, may_begin


class UnitThread(threading.Thread):
    """One execution unit."""

    def __init__(self, name: str, inbox: "SimpleQueue[Run | None]", done: Done, after: Callable[[], None]) -> None:
        super().__init__(name=name, daemon=True)
        self.current: Run | None = None
        self.seconds, self.count = 0.0, 0
        self._inbox, self._done, self._after = inbox, done, after
        self._deadline = conf.deadline_seconds()

    def run(self) -> None:
        while (run := self._inbox.get()) is not None:
            self.current = run
            run.began_at = began_at = boot_seconds()
            if not may_begin(run, began_at, self._deadline):
                outcome = ended(run, NOT_BEGUN)
            else:
                try:
                    outcome = ended(run, handler_of(run)(run))
                except BaseException as error:  # SystemExit in a handler must not end a unit
                    outcome = failure(run, error)
                finally:
                    self._after()
            self.seconds += boot_seconds() - began_at
            self.count += 1
            self.current = None
            self._done(run, outcome)


class UnitThreads:
    """Up to `concurrency` threads, started when they are first needed. `after` is called after each handler."""

    def __init__(self, queue: str, concurrency: int, done: Done, after: Callable[[], None]) -> None:
        self._queue, self._concurrency, self._done, self._after = queue, concurrency, done, after
        self._inbox: SimpleQueue[Run | None] = SimpleQueue()
        self._threads: list[UnitThread] = []
        self._put = 0

    def put(self, runs: list[Run]) -> None:
        self._put += len(runs)
        for run in runs:
            self._inbox.put(run)
        # not by which of them are idle: one that has just taken a run looks idle for a moment
        for _ in range(len(self._threads), min(self.in_hand(), self._concurrency)):
            name = f"{self._queue}-{len(self._threads) + 1}"
            thread = UnitThread(name, self._inbox, self._done, self._after)
            self._threads.append(thread)
            thread.start()

    def take_back(self) -> list[Run]:
        taken = []
        try:
            while True:
                if run := self._inbox.get_nowait():
                    taken.append(run)
        except Empty:
            self._put -= len(taken)
            return taken

    def in_hand(self) -> int:
        return self._put - sum(thread.count for thread in self._threads)

    def waiting(self) -> int:
        return self._inbox.qsize()

    def busy(self) -> list[Run]:
        return [run for thread in self._threads if (run := thread.current)]

    def spent(self) -> tuple[float, int]:
        return sum(thread.seconds for thread in self._threads), sum(thread.count for thread in self._threads)

    def stop(self, run: Run) -> None:
        run.stop.set()

    def close(self) -> None:
        self.take_back()
        for _ in self._threads:
            self._inbox.put(None)
