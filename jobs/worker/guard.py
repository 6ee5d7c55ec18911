"""Stops what could not be renewed in time, before anybody else may start it. Touches no database."""

import logging
import threading

from jobs import conf
from jobs.clock import boot_seconds
from jobs.worker.runner import Runner

log = logging.getLogger(__name__)

LOOK_EVERY_SECONDS = 0.5


class Guard(threading.Thread):
    """Watches the runs' own deadlines: two thirds of a lease since the last renewal was sent."""

    def __init__(self, runner: Runner) -> None:
        super().__init__(name="guard", daemon=True)
        self._runner = runner
        self._ended = threading.Event()

    def end(self) -> None:
        self._ended.set()
        self.join(timeout=5)

    def run(self) -> None:
        while not self._ended.wait(LOOK_EVERY_SECONDS):
            self.look(boot_seconds())

    def look(self, now: float) -> None:
        """Stop every run that was not renewed for two thirds of a lease at `now` (boot seconds)."""
        deadline = conf.lease_seconds() * 2 / 3
        for run in self._runner.runs():
            if now - run.renewed_at > deadline and not run.stop.is_set():
                log.error(
                    "could not renew the lease of %s %s for %.0f s: stopping it before it expires",
                    run.record.kind,
                    run.record.subject,
                    now - run.renewed_at,
                )
                run.stop.set()
