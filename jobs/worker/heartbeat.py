"""Renewal of all leases of a worker, on a separate connection, so a busy main loop cannot lose them; and the guard,
which touches no database: it stops runs that could not be renewed in time, before another worker may start them, and
those that hang.
"""

import logging
import threading
from collections.abc import Callable
from datetime import datetime

from django.db import connection
from django.db.utils import Error

from jobs import claiming, clock, conf
from jobs.clock import MAX_SKEW_SECONDS, ahead_of_database, boot_seconds
from jobs.database_errors import is_away
from jobs.handlers import Run, registry
from jobs.models import Hold, Worker
from jobs.prepared_statements import execute, prepare_in_this_thread
from jobs.worker import outage
from jobs.worker.hints import Bell
from jobs.worker.units import CANCELLED, LOST, Units

log = logging.getLogger(__name__)

TRY_AGAIN_AFTER_SECONDS = 1.0

NOTEWORTHY_SECONDS = 1.0
"""A larger change of the skew is written at once, and not with the next heartbeat."""

BEAT = """
UPDATE jobs_worker
   SET heartbeat_at = statement_timestamp(), clock_skew = %(skew)s::float8
 WHERE id = %(worker)s::bigint
RETURNING clock_timestamp()
"""


class Heartbeat(threading.Thread):
    """Beats four times per lease, and on request, until `end()`. It stops runs whose lease the worker has lost, and
    those that a user has cancelled or put on hold. It retries each second the leases that it could not renew.
    """

    def __init__(self, worker_id: int, units: Units) -> None:
        super().__init__(name="heartbeat", daemon=True)
        self._worker_id = worker_id
        self._units = units
        self._bell = Bell()
        self._is_ended = False
        self._unknown: list[Run] = []
        self._skew = 0.0

    def beat_now(self) -> None:
        """Beat at once: the database may be another one, which does not know the runs here and gives them away."""
        self._bell.ring()

    def end(self) -> None:
        """Stop beating, after the beat under way."""
        self._is_ended = True
        self._bell.ring()
        self.join(timeout=10)

    def run(self) -> None:
        prepare_in_this_thread()
        beat_at = boot_seconds() + conf.heartbeat_seconds()
        try:
            while True:
                if self._bell.wait(self._pause(beat_at)):
                    beat_at = boot_seconds()
                if self._is_ended:
                    return
                try:
                    if boot_seconds() < beat_at:
                        self._renew(self._unknown)
                    else:
                        beat_at = boot_seconds() + conf.heartbeat_seconds()
                        self.beat()
                except Error as error:
                    if is_away(error):
                        outage.begins(error)
                    else:
                        log.warning("heartbeat failed, trying again: %s", str(error).strip())
                else:
                    outage.is_over()
        finally:
            connection.close()

    def _pause(self, beat_at: float) -> float:
        until_beat = max(0.0, beat_at - boot_seconds())
        return min(until_beat, TRY_AGAIN_AFTER_SECONDS) if self._unknown else until_beat

    def beat(self) -> None:
        """Renew once; runs that took too long are no longer renewed. Raises: django.db.Error if there is no
        answer."""
        runs = self._units.runs()
        self._renew(runs)
        if runs and Hold.objects.exists():  # an idle worker asks no more than it must
            self._units.stop_for_a_hold()
        known, self._skew = self._skew, clock_skew(self._write_down)
        clock.skew = self._skew
        if abs(self._skew - known) > NOTEWORTHY_SECONDS:
            Worker.objects.filter(pk=self._worker_id).update(clock_skew=self._skew)
        registry.beat()

    def _write_down(self) -> datetime:
        """Write the heartbeat, with the skew of the one before. Returns the database's clock, from the same statement,
        which saves half of an idle worker's queries.
        """
        row = execute(BEAT, {"worker": self._worker_id, "skew": self._skew}).fetchone()
        return row[0] if row else clock.database_clock()

    def _renew(self, held: list[Run]) -> None:
        self._unknown = held
        sent_at = boot_seconds()
        runs = {run.record.id: run for run in held if not run.ran_out}
        tokens = {record_id: run.record.lease_token for record_id, run in runs.items()}
        renewed = claiming.renew(tokens, worker_id=self._worker_id)
        for record_id in renewed.owned:
            runs[record_id].renewed_at = sent_at
        for record_id in renewed.cancelled:
            self._units.give_up(runs[record_id], CANCELLED)
        busy = set(self._units.busy())
        for record_id in runs.keys() - renewed.owned - renewed.unknown:
            run = runs[record_id]
            if run.began_at is None or run in busy:  # ended runs are settled, or soon will be
                self._units.give_up(run, LOST)
        self._unknown = [runs[record_id] for record_id in renewed.unknown]


class Guard(threading.Thread):
    """Watches the runs' deadlines: two thirds of a lease since the last renewal was sent, and their longest duration
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


def clock_skew(ask: Callable[[], datetime] = clock.database_clock) -> float:
    """Seconds by which this machine's clock is ahead of the database's, which `ask` returns. Warns when far off."""
    skew = ahead_of_database(ask)
    if abs(skew) > MAX_SKEW_SECONDS:
        log.error("this machine's clock is %.0f s off the database's: synchronise it (NTP)", skew)
    return skew
