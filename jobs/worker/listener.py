"""Sleeps on LISTEN, on a direct connection of its own, and rings the bell. The worker's poll stands behind it."""

import logging
import threading
from collections.abc import Container

from django.db import connection
from django.db.utils import Error
from psycopg import Error as PsycopgError

from jobs.wakeups import CHANNEL
from jobs.worker.bell import Bell

log = logging.getLogger(__name__)

RECONNECT_AFTER_SECONDS = 2


class Listener(threading.Thread):
    """Rings `bell` when one of `queues` has ready records; also after each (re)LISTEN: it may have missed some."""

    def __init__(self, queues: Container[str], bell: Bell) -> None:
        super().__init__(name="listener", daemon=True)
        self._queues = queues
        self._bell = bell
        self._ended = threading.Event()

    def end(self) -> None:
        self._ended.set()
        self.join(timeout=5)

    def run(self) -> None:
        while not self._ended.is_set():
            try:
                self._listen()
            except (Error, PsycopgError) as error:
                log.warning("cannot listen for wake-ups, polling meanwhile: %s", error)
                self._ended.wait(RECONNECT_AFTER_SECONDS)
            finally:
                connection.close()

    def _listen(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"LISTEN {CHANNEL}")
        self._bell.ring()
        raw = connection.connection
        while not self._ended.is_set():
            for notification in raw.notifies(timeout=1, stop_after=1):
                if notification.payload in self._queues:
                    self._bell.ring()
