"""The worker's one event loop, and the watch that ends a worker whose loop does not turn. Touches no database.

At each beat of the guard the loop has to give a sign of life, unless it still owes one. Time is counted in unanswered
beats, not by a clock: while a machine is suspended, or the whole process is, no beats pass.
"""

import asyncio
import logging
import os
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any

from external.formatting import some_of
from jobs import conf
from jobs.handlers import Run

log = logging.getLogger(__name__)

NOTICED_AFTER_SECONDS = 5.0
"""Longer than a machine under load lets one of its threads wait; a twelfth of a short lease."""
LAST_RESORT_SECONDS = 60.0
"""The longest that a worker that was asked to end may take: longer than its own shutdown, without the grace."""
EXIT_CODE = 1
NAMED = 10
FRAMES = 12


class EventLoop:
    """An event loop in its own thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="event-loop", daemon=True)
        self._thread.start()
        self._owes_an_answer = False
        self._unanswered = 0

    def unanswered(self) -> int:
        """Ask the loop for a sign of life, unless it still owes one. Returns how many times in a row it owed one."""
        if self._owes_an_answer:
            self._unanswered += 1
        else:
            self._owes_an_answer, self._unanswered = True, 0
            self.loop.call_soon_threadsafe(self._answer)
        return self._unanswered

    def _answer(self) -> None:
        self._owes_an_answer = False

    def current_task(self) -> "asyncio.Task[Any] | None":
        """The task that it executes now, seen from another thread."""
        return asyncio.current_task(self.loop)

    def stack(self) -> str:
        """The present stack of its thread."""
        frame = sys._current_frames().get(self._thread.ident or 0)
        return "".join(traceback.format_stack(frame, limit=FRAMES)) if frame else ""

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


class LoopWatch:
    """Watches `loop`, whose runs `busy()` returns. `give_up()` asks the worker to end, after two thirds of a
    lease; a worker that does not is ended a minute later. Call `beat()` every `conf.guard_seconds()`."""

    def __init__(self, loop: EventLoop, busy: Callable[[], list[Run]], give_up: Callable[[], None]) -> None:
        self._loop, self._busy, self._give_up = loop, busy, give_up
        self._stuck_for = 0.0
        self._notice_after = min(NOTICED_AFTER_SECONDS, conf.lease_seconds() / 12)

    @property
    def is_stuck(self) -> bool:
        return self._stuck_for >= self._notice_after

    def beat(self) -> None:
        """Ask the loop, and log or end the worker if it has not answered for too long. May end the process."""
        before, self._stuck_for = self._stuck_for, self._loop.unanswered() * conf.guard_seconds()
        if before < self._notice_after <= self._stuck_for:
            self._describe()
        elif before >= self._notice_after > self._stuck_for:
            log.warning("the event loop turns again, after %.1f s", before)
        deadline = conf.deadline_seconds()
        if before < deadline <= self._stuck_for:
            log.error("that was two thirds of a lease: this worker ends, to be started again by its service manager")
            self._give_up()
        elif self._stuck_for >= deadline + LAST_RESORT_SECONDS:
            log.error("this worker cannot end by itself: it is ended now")
            logging.shutdown()
            os._exit(EXIT_CODE)

    def _describe(self) -> None:
        held = [f"{run.record.kind} {run.record.subject}" for run in self._busy()]
        text = (
            f"the event loop has not turned for {self._stuck_for:.1f} s: nothing is asked and nothing delivered in the "
            f"meantime; it runs {some_of(held, NAMED) or 'no handler'}, at"
        )
        # the stack of another thread, which `log.error` has no argument for; a message has one line only
        log.handle(
            log.makeRecord(log.name, logging.ERROR, __file__, 0, text, (), None, sinfo=self._loop.stack().rstrip())
        )
