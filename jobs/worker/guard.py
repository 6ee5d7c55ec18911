"""Stops what could not be renewed in time, before another worker may start it, and what hangs; and ends a worker whose
event loop does not turn. Touches no database.

At each beat of the guard the loop is asked for a sign of life, unless it still owes one. Time is counted in unanswered
beats, not by a clock: while a machine is suspended, or the whole process is, no beats pass.
"""

import logging
import os
import sys
import threading
import traceback
from collections.abc import Callable

from jobs import conf
from jobs.clock import boot_seconds
from jobs.handlers import Run
from jobs.worker.unit_tasks import EventLoop
from jobs.worker.units import Units

log = logging.getLogger(__name__)

NOTICED_AFTER_SECONDS = 5.0
"""Longer than a machine under load lets one of its threads wait; a twelfth of a short lease."""
LAST_RESORT_SECONDS = 60.0
"""How long a worker that was asked to end may take: longer than its own shutdown, without the grace."""
EXIT_CODE = 1
NAMED = 10
FRAMES = 12


class Guard(threading.Thread):
    """Watches the runs' own deadlines: two thirds of a lease since the last renewal was sent, and what they may take
    since they began. `beat()` is called after each look."""

    def __init__(self, units: Units, beat: Callable[[], object] = lambda: None) -> None:
        super().__init__(name="guard", daemon=True)
        self._units = units
        self._beat = beat
        self._ended = threading.Event()

    def end(self) -> None:
        self._ended.set()
        self.join(timeout=5)

    def run(self) -> None:
        while not self._ended.wait(conf.guard_seconds()):
            self.look(boot_seconds())
            self._beat()

    def look(self, now: float) -> None:
        """Stop every run that is past one of its deadlines at `now` (boot seconds)."""
        deadline = conf.deadline_seconds()
        for run in self._units.runs():
            if run.is_stopped:
                continue
            record, limit = run.record, run.limit
            if now - run.renewed_at > deadline:
                log.error(
                    "could not renew the lease of %s %s for %.0f s: stopping it before it expires",
                    record.kind,
                    record.subject,
                    now - run.renewed_at,
                )
                self._units.stop(run)
            elif limit is not None and run.began_at is not None and now - run.began_at > limit:
                log.error("%s %s has run for %.0f s: stopping it", record.kind, record.subject, now - run.began_at)
                run.ran_out = True
                self._units.stop(run)


class LoopWatch:
    """Watches `loop`, of which `busy()` returns the runs. `give_up()` asks the worker to end, after two thirds of a
    lease; a worker that does not is ended a minute later. Call `beat()` every `conf.guard_seconds()`."""

    def __init__(self, loop: EventLoop, busy: Callable[[], list[Run]], give_up: Callable[[], None]) -> None:
        self._loop, self._busy, self._give_up = loop, busy, give_up
        self._stuck_for = 0.0
        self._notice_after = min(NOTICED_AFTER_SECONDS, conf.lease_seconds() / 12)

    @property
    def is_stuck(self) -> bool:
        return self._stuck_for >= self._notice_after

    def beat(self) -> None:
        """Ask the loop, and act on how long it has not answered. May end the process."""
        before, self._stuck_for = self._stuck_for, self._loop.unanswered() * conf.guard_seconds()
        if before < self._notice_after <= self._stuck_for:
            log.error("%s", self._description())
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

    def _description(self) -> str:
        held = [f"{run.record.kind} {run.record.subject}" for run in self._busy()]
        more = f" and {len(held) - NAMED} more" if len(held) > NAMED else ""
        frame = sys._current_frames().get(self._loop.thread_id)
        stack = "".join(traceback.format_stack(frame, limit=FRAMES)) if frame else ""
        return (
            f"the event loop has not turned for {self._stuck_for:.1f} s: nothing is asked and nothing delivered "
            f"meanwhile; it runs {', '.join(held[:NAMED]) or 'no handler'}{more}, at\n{stack}"
        )
