"""Renews all leases of a worker, on a connection of its own, so a busy main loop cannot lose them."""

import logging
import threading
from datetime import UTC, datetime

from django.db import connection
from django.db.models.functions import Now
from django.db.utils import Error

from jobs import claiming, clock, conf
from jobs.clock import MAX_SKEW_SECONDS, boot_seconds, database_clock
from jobs.database_errors import is_away
from jobs.handlers import Run, registry
from jobs.models import Hold, Worker
from jobs.prepared import prepare_in_this_thread
from jobs.worker import outage
from jobs.worker.units import CANCELLED, LOST, Units, give_up

log = logging.getLogger(__name__)

TRY_AGAIN_AFTER_SECONDS = 1.0


class Heartbeat(threading.Thread):
    """Beats four times a lease until `end()`. What it no longer owns, or a person cancelled or holds, it stops.
    What it could not renew it tries again each second."""

    def __init__(self, worker_id: int, units: Units) -> None:
        super().__init__(name="heartbeat", daemon=True)
        self._worker_id = worker_id
        self._units = units
        self._ended = threading.Event()
        self._unknown: list[Run] = []

    def end(self) -> None:
        """Stop beating, after the beat under way."""
        self._ended.set()
        self.join(timeout=10)

    def run(self) -> None:
        prepare_in_this_thread()
        beat_at = boot_seconds() + conf.heartbeat_seconds()
        try:
            while not self._ended.wait(self._pause(beat_at)):
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
        """Renew once; what ran for too long is renewed no more. Raises: django.db.Error when there is no answer."""
        runs = self._units.runs()
        self._renew(runs)
        if runs and Hold.objects.exists():  # an idle worker asks no more than it must
            self._units.stop_for_a_hold()
        clock.skew = clock_skew()
        Worker.objects.filter(pk=self._worker_id).update(heartbeat_at=Now(), clock_skew=clock.skew)
        registry.beat()

    def _renew(self, held: list[Run]) -> None:
        self._unknown = held
        sent_at = boot_seconds()
        runs = {run.record.id: run for run in held if not run.ran_out}
        tokens = {record_id: run.record.lease_token for record_id, run in runs.items()}
        renewed = claiming.renew(tokens, worker_id=self._worker_id)
        for record_id in renewed.owned:
            runs[record_id].renewed_at = sent_at
        for record_id in renewed.cancelled:
            give_up(self._units, runs[record_id], CANCELLED)
        busy = set(self._units.busy())
        for record_id in runs.keys() - renewed.owned - renewed.unknown:
            run = runs[record_id]
            if run.began_at is None or run in busy:  # what has ended is settled, or soon will be
                give_up(self._units, run, LOST)
        self._unknown = [runs[record_id] for record_id in renewed.unknown]


def clock_skew() -> float:
    """Seconds by which this machine's clock is ahead of the database's. Warns when it is far off."""
    skew = (datetime.now(UTC) - database_clock()).total_seconds()
    if abs(skew) > MAX_SKEW_SECONDS:
        log.error("this machine's clock is %.0f s off the database's: synchronise it (NTP)", skew)
    return skew
