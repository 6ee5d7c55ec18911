"""Renews all leases of a worker, on a connection of its own, so a busy main loop cannot lose them."""

import logging
import threading
from datetime import UTC, datetime

from django.db import connection
from django.db.models.functions import Now
from django.db.utils import Error

from jobs import claiming, conf
from jobs.clock import MAX_SKEW_SECONDS, boot_seconds, database_clock
from jobs.models import Worker
from jobs.prepared import prepare_in_this_thread
from jobs.worker import stopping
from jobs.worker.units import Units

log = logging.getLogger(__name__)


class Heartbeat(threading.Thread):
    """Beats four times a lease until `end()`. What it no longer owns, or a person cancelled, it stops."""

    def __init__(self, worker_id: int, units: Units) -> None:
        super().__init__(name="heartbeat", daemon=True)
        self._worker_id = worker_id
        self._units = units
        self._ended = threading.Event()

    def end(self) -> None:
        """Stop beating, after the beat under way."""
        self._ended.set()
        self.join(timeout=10)

    def run(self) -> None:
        prepare_in_this_thread()
        try:
            while not self._ended.wait(conf.heartbeat_seconds()):
                try:
                    self.beat()
                except Error as error:
                    log.warning("heartbeat failed, trying again: %s", error)
                    connection.close()
        finally:
            connection.close()

    def beat(self) -> None:
        """Renew once; what ran for too long is renewed no more. Raises: django.db.Error when there is no answer."""
        sent_at = boot_seconds()
        runs = {run.record.id: run for run in self._units.runs() if not run.ran_out}
        renewed = claiming.renew(
            {record_id: run.record.lease_token for record_id, run in runs.items()}, worker_id=self._worker_id
        )
        for record_id in renewed.owned:
            runs[record_id].renewed_at = sent_at
        for record_id in renewed.cancelled:
            stopping.give_up(self._units, runs[record_id], stopping.CANCELLED)
        if lost := runs.keys() - renewed.owned:
            held = {run.record.id: run for run in self._units.runs()}
            busy = set(self._units.busy())
            for record_id in lost:
                run = runs[record_id]
                has_ended = run.began_at is not None and run not in busy  # and is settled, or soon will be
                if held.get(record_id) is run and not has_ended:
                    stopping.give_up(self._units, run, stopping.LOST)
        Worker.objects.filter(pk=self._worker_id).update(heartbeat_at=Now(), clock_skew=clock_skew())


def clock_skew() -> float:
    """Seconds by which this machine's clock is ahead of the database's. Warns when it is far off."""
    skew = (datetime.now(UTC) - database_clock()).total_seconds()
    if abs(skew) > MAX_SKEW_SECONDS:
        log.error("this machine's clock is %.0f s off the database's: synchronise it (NTP)", skew)
    return skew
