"""The places of a queue, in which handlers run: threads for sync ones, tasks of one event loop for async ones.

A run waits until a place takes it. Each run has exactly one outcome, whatever its handler does.
"""

import asyncio
import logging
import threading
import traceback
from collections.abc import Awaitable, Callable
from queue import Empty, SimpleQueue
from typing import Any, cast

from jobs import conf
from jobs.clock import boot_seconds
from jobs.handlers import Handler, Run, registry
from jobs.log_fields import handled
from jobs.outcomes import OUTCOMES, Failed, Outcome, Released

log = logging.getLogger(__name__)

LOOP_SHARE_SECONDS = 0.005
"""A task that ends one run after another lets the loop do other things after this time."""

Done = Callable[[Run, Outcome], None]
"""Called with the one outcome of each run, from the thread in which it ended."""

NOT_BEGUN = Released("stopped before it began")


def may_begin(run: Run, now: float, deadline: float) -> bool:
    """True if a run that was taken at `now` (boot seconds) may begin: not if it was stopped while it waited, nor if it
    was last renewed longer than `deadline` seconds ago, since a machine that slept may have lost it.
    """
    return now - run.renewed_at <= deadline and not run.is_stopped


def ended(run: Run, outcome: Any) -> Outcome:
    """The outcome of a handler that returned `outcome`."""
    if type(outcome) not in OUTCOMES and not isinstance(outcome, Outcome):  # the first test is ten times faster
        return Failed(f"the handler returned {outcome!r:.200}, which is not an outcome")
    if run.ran_out and isinstance(outcome, Released):
        text = f"stopped: it ran for longer than the {run.limit:g} s that it may take"
        return Failed(text, result=outcome.result)
    return cast("Outcome", outcome)


def _failure(run: Run, error: BaseException) -> Failed:
    """The outcome of a handler that raised."""
    record = run.record
    log.error("handler of %s %s raised", record.kind, record.subject, exc_info=error)
    last = traceback.extract_tb(error.__traceback__)[-1]
    return Failed(f"{type(error).__name__}: {error} (in {last.name}, line {last.lineno} of {last.filename})")


def _handler_of(run: Run) -> Handler:
    """The handler of a run. Must be called where the handler runs: log lines from there name its record."""
    handled.set(run.record)
    return registry.find(run.record.kind, run.record.queue)


class Places:
    """Up to `concurrency` places, made when they are first needed. `put`, `take_back`: from the main thread only."""

    def __init__(self, concurrency: int, done: Done) -> None:
        self._concurrency, self._done = concurrency, done
        self._inbox: SimpleQueue[Run | None] = SimpleQueue()
        self._busy: dict[Run, None] = {}
        self._counting = threading.Lock()
        self._put = self._count = 0
        self._seconds = 0.0
        self._closed = False
        self._deadline = conf.deadline_seconds()

    def put(self, runs: list[Run]) -> None:
        """Hand over runs in the order in which they should begin."""
        self._put += len(runs)
        for run in runs:
            self._inbox.put(run)

    def take_back(self) -> list[Run]:
        """The runs that no place has taken yet, taken back."""
        taken: list[Run] = list(iter(self._next, None))
        self._put -= len(taken)
        return taken

    def in_hand(self) -> int:
        """The number of runs that were put in and have not ended."""
        return self._put - self._count

    def waiting(self) -> int:
        """The number of runs that no place has taken yet."""
        return self._inbox.qsize()

    def busy(self) -> list[Run]:
        """The runs whose handler runs now."""
        return list(self._busy)

    def spent(self) -> tuple[float, int]:
        """Seconds that handlers have taken since the start, and how many have ended."""
        return self._seconds, self._count

    def stop(self, run: Run) -> None:
        """Tell the handler of a run to end, or keep it from beginning."""
        run.stop.set()

    def close(self) -> None:
        """Begin nothing more. Handlers that are busy are left behind."""
        self._closed = True
        self.take_back()

    def _next(self) -> Run | None:
        try:
            return self._inbox.get_nowait()
        except Empty:
            return None

    def _begins(self, run: Run, now: float) -> bool:
        """A place has taken it. Returns whether its handler is to be called."""
        run.began_at = now
        self._busy[run] = None
        return may_begin(run, now, self._deadline)

    def _end(self, run: Run, outcome: Outcome) -> float:
        """Its place is free again. Returns the present, in boot seconds."""
        now = boot_seconds()
        with self._counting:
            self._seconds += now - cast("float", run.began_at)
            self._count += 1
        del self._busy[run]
        self._done(run, outcome)
        return now


class UnitThreads(Places):
    """Threads. `after` is called after each handler.

    They live as long as the worker, since the parent-death signal of an engine is tied to the thread that started it.
    """

    def __init__(self, queue: str, concurrency: int, done: Done, after: Callable[[], None]) -> None:
        super().__init__(concurrency, done)
        self._queue, self._after = queue, after
        self._threads = 0

    def put(self, runs: list[Run]) -> None:
        super().put(runs)
        # not by which threads are idle: one that has just taken a run looks idle for a moment
        for _ in range(self._threads, min(self.in_hand(), self._concurrency)):
            self._threads += 1
            threading.Thread(target=self._work, name=f"{self._queue}-{self._threads}", daemon=True).start()

    def close(self) -> None:
        super().close()
        for _ in range(self._threads):
            self._inbox.put(None)

    def _work(self) -> None:
        while (run := self._inbox.get()) is not None:
            outcome: Outcome = NOT_BEGUN
            if self._begins(run, boot_seconds()):
                try:
                    outcome = ended(run, _handler_of(run)(run))
                except BaseException as error:  # SystemExit in a handler must not end a unit
                    outcome = _failure(run, error)
                finally:
                    self._after()
            self._end(run, outcome)


class UnitTasks(Places):
    """Tasks of `loop`. `grows`: as many more as there are runs.

    Each wakes at most one other, and only when there is more to take: quick handlers end in a single task.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, concurrency: int, done: Done, *, grows: bool = False) -> None:
        super().__init__(concurrency, done)
        self._loop, self._grows = loop, grows
        self._idle: list[asyncio.Future[None]] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def put(self, runs: list[Run]) -> None:
        super().put(runs)  # not on the loop: runs that a stuck loop never saw could not be taken back
        self._loop.call_soon_threadsafe(self._wake_one)

    def stop(self, run: Run) -> None:
        super().stop(run)
        self._loop.call_soon_threadsafe(self._cancel, run)

    def _wake_one(self) -> None:
        while self._idle:
            if not (sleeping := self._idle.pop()).done():
                sleeping.set_result(None)
                return
        if (self._grows or len(self._tasks) < self._concurrency) and not self._closed:
            self._tasks.add(self._loop.create_task(self._work()))

    def _cancel(self, run: Run) -> None:
        if run.task is not None:
            run.task.cancel()

    async def _work(self) -> None:
        task = cast("asyncio.Task[None]", asyncio.current_task())
        now = since = boot_seconds()
        while not self._closed:
            run = self._next()
            if run is None:
                if len(self._tasks) > self._concurrency:
                    break
                sleeping = self._loop.create_future()
                self._idle.append(sleeping)
                await sleeping
                now = since = boot_seconds()
                continue
            if not self._inbox.empty():
                self._wake_one()
            run.task = task
            outcome = await self._outcome_of(run, task) if self._begins(run, now) else NOT_BEGUN
            run.task = None
            now = self._end(run, outcome)
            if now - since > LOOP_SHARE_SECONDS:
                await asyncio.sleep(0)
                now = since = boot_seconds()
        self._tasks.discard(task)

    async def _outcome_of(self, run: Run, task: "asyncio.Task[None]") -> Outcome:
        try:
            return ended(run, await cast("Awaitable[Outcome]", _handler_of(run)(run)))
        except asyncio.CancelledError as error:
            # a handler that was not cancelled would be released, claimed and raised again for ever
            outcome = ended(run, Released()) if task.cancelling() else _failure(run, error)
            while task.cancelling():
                task.uncancel()
            return outcome
        except BaseException as error:
            return _failure(run, error)
