"""Sleeps on LISTEN, on a separate direct connection. The worker's poll finds everything that it misses."""

import logging
import threading
from collections.abc import Set

from django.db import connection
from django.db.utils import Error
from psycopg import Error as PsycopgError

from jobs.clock import boot_seconds
from jobs.database_errors import is_away
from jobs.models import BacklogRecord
from jobs.prepared_statements import is_ours
from jobs.wakeups import CANCEL_CHANNEL, CHANNEL, EVERY_QUEUE, ROOM_CHANNEL
from jobs.worker import outage
from jobs.worker.hints import Hints
from jobs.worker.units import CANCELLED, Units

log = logging.getLogger(__name__)

RECONNECT_AFTER_SECONDS = 2
PING_EVERY_SECONDS = 30
"""A connection that a firewall has forgotten looks like silence."""


class Listener(threading.Thread):
    """Tells `hints` of ready records of `queues` and of room in throttles, and stops the runs of `units` that a user
    cancels or holds.

    After each (re)LISTEN it hears of all queues and looks for cancelled runs: it may have missed some.
    """

    def __init__(self, queues: Set[str], hints: Hints, units: Units) -> None:
        super().__init__(name="listener", daemon=True)
        self._queues, self._hints, self._units = queues, hints, units
        self._ended = threading.Event()

    def end(self) -> None:
        self._ended.set()
        self.join(timeout=5)

    def run(self) -> None:
        while not self._ended.is_set():
            try:
                self._listen()
            except (Error, PsycopgError) as error:
                if is_away(error):
                    outage.begins(error)
                else:
                    log.warning("cannot listen for wake-ups, polling in the meantime: %s", str(error).strip())
                self._ended.wait(RECONNECT_AFTER_SECONDS)
            finally:
                connection.close()

    def _listen(self) -> None:
        with connection.cursor() as cursor:
            for channel in (CHANNEL, ROOM_CHANNEL, CANCEL_CHANNEL):
                cursor.execute(f"LISTEN {channel}")
        self._take(CHANNEL, EVERY_QUEUE)
        self._look_for_cancels()
        outage.is_over()
        raw = connection.connection
        ping_at = boot_seconds() + PING_EVERY_SECONDS
        while not self._ended.is_set():
            for notification in raw.notifies(timeout=1, stop_after=1):
                if notification.channel == CANCEL_CHANNEL or not is_ours(notification.pid):
                    self._take(notification.channel, notification.payload)
            if boot_seconds() >= ping_at:
                if not connection.is_usable():  # gone, or to a server that is no longer the primary
                    return
                ping_at = boot_seconds() + PING_EVERY_SECONDS

    def _take(self, channel: str, payload: str) -> None:
        try:
            self._obey(channel, payload)
        except ValueError:
            log.warning("ignoring a notice that no worker of this version sends: %s %.50r", channel, payload)

    def _obey(self, channel: str, payload: str) -> None:
        if channel == CHANNEL:
            for queue in self._queues if payload == EVERY_QUEUE else {payload} & self._queues:
                self._hints.hear(queue)
        elif channel == ROOM_CHANNEL:
            self._hints.hear_of_room([int(each) for each in payload.split(",")])
        elif payload == EVERY_QUEUE:
            self._units.stop_for_a_hold()
        elif run := self._units.find(int(payload)):
            self._units.give_up(run, CANCELLED)

    def _look_for_cancels(self) -> None:
        runs = {run.record.id: run for run in self._units.runs()}
        asked = BacklogRecord.objects.filter(pk__in=runs, cancel_requested_at__isnull=False)
        for record_id, lease_token in asked.values_list("pk", "lease_token"):
            if lease_token == runs[record_id].record.lease_token:
                self._units.give_up(runs[record_id], CANCELLED)
