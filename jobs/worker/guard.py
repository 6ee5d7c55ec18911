"""Stops what could not be renewed in time, before anybody else may start it, and what hangs. Touches no database."""

import logging
import threading
from collections.abc import Callable

from jobs import conf
from jobs.clock import boot_seconds
from jobs.worker.units import Units

log = logging.getLogger(__name__)


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
