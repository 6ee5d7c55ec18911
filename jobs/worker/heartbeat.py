"""Renews all leases of a worker, on a connection of its own, so a busy main loop cannot lose them."""

import logging
import threading

from django.db import connection
from django.db.models.functions import Now
from django.db.utils import Error

from jobs import claiming, conf
from jobs.clock import boot_seconds
from jobs.models import Worker
from jobs.worker.runner import Runner

log = logging.getLogger(__name__)


class Heartbeat(threading.Thread):
    """Beats four times a lease until `end()`. What it no longer owns, it stops."""

    def __init__(self, worker_id: int, runner: Runner) -> None:
        super().__init__(name="heartbeat", daemon=True)
        self._worker_id = worker_id
        self._runner = runner
        self._ended = threading.Event()

    def end(self) -> None:
        """Stop beating, after the beat under way."""
        self._ended.set()
        self.join(timeout=10)

    def run(self) -> None:
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
        """Renew once. Raises: django.db.Error when the database does not answer."""
        sent_at = boot_seconds()
        runs = {run.record.id: run for run in self._runner.runs()}
        owned = claiming.renew(
            {record_id: run.record.lease_token for record_id, run in runs.items()}, worker_id=self._worker_id
        )
        for record_id, run in runs.items():
            if record_id in owned:
                run.renewed_at = sent_at
            elif not run.stop.is_set() and run in self._runner.runs():
                log.warning("lost the lease of %s %s, stopping it", run.record.kind, run.record.subject)
                run.stop.set()
        Worker.objects.filter(pk=self._worker_id).update(heartbeat_at=Now())
