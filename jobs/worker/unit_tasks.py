"""The places of async handlers: tasks of one event loop that take the next run when they are free."""

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable
from typing import Any, cast

from jobs import conf
from jobs.clock import boot_seconds
from jobs.handlers import Run
from jobs.outcomes import Outcome, Released
from jobs.worker.places import NOT_BEGUN, Done, ended, failure, handler_of, may_begin

LOOP_SHARE_SECONDS = 0.005
"""A task that ends one run after another lets the loop do other things after this time."""


class EventLoop:
    """The worker's one event loop, in a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="event-loop", daemon=True)
        self._thread.start()
        self._owes_an_answer = False
        self._unanswered = 0

    @property
    def thread_id(self) -> int:
        return self._thread.ident or 0

    def unanswered(self) -> int:
        """Ask the loop for a sign of life, unless it still owes one: then, how often in a row that was so."""
        if self._owes_an_answer:
            self._unanswered += 1
        else:
            self._owes_an_answer, self._unanswered = True, 0
            self.loop.call_soon_threadsafe(self._answer)
        return self._unanswered

    def _answer(self) -> None:
        self._owes_an_answer = False

    def current_task(self) -> "asyncio.Task[Any] | None":
        """What it executes now, seen from another thread."""
        return asyncio.current_task(self.loop)

    def close(self) -> None:
        """End the tasks and the thread. A handler that blocks the loop is left behind."""
        self.loop.call_soon_threadsafe(lambda: self.loop.create_task(self._end()))
        self._thread.join(timeout=5)
        if not self._thread.is_alive():
            self.loop.close()

    async def _end(self) -> None:
        if others := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in others:
                task.cancel()
            await asyncio.wait(others, timeout=2)
        self.loop.stop()


class UnitTasks:
    """Up to `concurrency` tasks, started when they are first needed. `grows`: as many more as there are runs.

    Each wakes at most one other, and only when there is more to take: quick handlers end in a single task.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, concurrency: int, done: Done, *, grows: bool = False) -> None:
        self._loop, self._concurrency, self._done, self._grows = loop, concurrency, done, grows
        self._inbox: deque[Run] = deque()
        self._idle: list[asyncio.Future[None]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._busy: dict[int, Run] = {}
        self._put = self._taken = self._count = 0
        self._seconds = 0.0
        self._closed = False
        self._deadline = conf.deadline_seconds()

    def put(self, runs: list[Run]) -> None:
        self._put += len(runs)
        self._inbox.extend(runs)  # not on the loop, or what a stuck one never saw could not be taken back
        self._loop.call_soon_threadsafe(self._wake_one)

    def take_back(self) -> list[Run]:
        taken = []
        try:
            while True:
                taken.append(self._inbox.pop())
        except IndexError:
            self._put -= len(taken)
            return taken[::-1]

    def in_hand(self) -> int:
        return self._put - self._count

    def waiting(self) -> int:
        return self._put - self._taken

    def busy(self) -> list[Run]:
        return list(self._busy.values())

    def spent(self) -> tuple[float, int]:
        return self._seconds, self._count

    def stop(self, run: Run) -> None:
        run.stop.set()
        self._loop.call_soon_threadsafe(self._cancel, run)

    def close(self) -> None:
        self._closed = True
        self.take_back()

    def _wake_one(self) -> None:
        while self._idle:
            if not (sleeping := self._idle.pop()).done():
                sleeping.set_result(None)
                return
        if (self._grows or len(self._tasks) < self._concurrency) and not self._closed:
            self._tasks.add(self._loop.create_task(self._work()))

    def _cancel(self, run: Run) -> None:
        if run.task is not None and id(run) in self._busy:
            run.task.cancel()

    async def _work(self) -> None:
        task = cast("asyncio.Task[None]", asyncio.current_task())
        now = since = boot_seconds()
        while not self._closed:
            try:
                run = self._inbox.popleft()
            except IndexError:
                if len(self._tasks) > self._concurrency:
                    break
                sleeping = self._loop.create_future()
                self._idle.append(sleeping)
                await sleeping
                now = since = boot_seconds()
                continue
            self._taken += 1
            if self._inbox:
                self._wake_one()
            run.task, run.began_at = task, now
            self._busy[id(run)] = run
            begins = may_begin(run, now, self._deadline)
            outcome = await self._outcome_of(run, task) if begins else ended(run, NOT_BEGUN)
            del self._busy[id(run)]
            run.task = None
            now = boot_seconds()
            self._seconds += now - run.began_at
            self._count += 1
            self._done(run, outcome)
            if now - since > LOOP_SHARE_SECONDS:
                await asyncio.sleep(0)
                now = since = boot_seconds()
        self._tasks.discard(task)

    async def _outcome_of(self, run: Run, task: "asyncio.Task[None]") -> Outcome:
        try:
            return ended(run, await cast("Awaitable[Outcome]", handler_of(run)(run)))
        except asyncio.CancelledError as error:
            # what was not cancelled would be released, claimed and raised again for ever
            outcome = ended(run, Released()) if task.cancelling() else failure(run, error)
            while task.cancelling():
                task.uncancel()
            return outcome
        except BaseException as error:
            return failure(run, error)
