"""Writes results, in a thread and on a separate connection: while one batch is settled the next is being claimed.

When the database goes away, results are kept and written when it is back, as long as their leases last; those lost by
then are dropped by the fence. Results whose rows other transactions hold locked are kept and tried again, and hold up
no others; those that cannot be written at all are isolated and named.
"""

import logging
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

from django.db import connection
from django.db.utils import Error

from jobs import settling
from jobs.clock import boot_seconds
from jobs.database_errors import log_unless_away
from jobs.outcomes import ClaimedRecord, Outcome, Result
from jobs.prepared_statements import prepare_in_this_thread
from jobs.settling import SettleResult
from jobs.worker import outage

log = logging.getLogger(__name__)

BATCH = 2000
TRY_AGAIN_AFTER_SECONDS = 0.5


class Settler(threading.Thread):
    """Settles the results that are `add`ed. `settled(records)` is called after each batch, from this thread."""

    def __init__(
        self, settled: Callable[[list[ClaimedRecord]], None], batch: int = BATCH, name: str = "settler"
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._most = batch
        self._settled = settled
        self._results: SimpleQueue[Result | None] = SimpleQueue()
        self._kept: list[Result] = []
        self._again_at = 0.0
        self._ending = False
        self._ended = threading.Event()

    def add(self, record: ClaimedRecord, outcome: Outcome) -> None:
        """Take in a result, from any thread."""
        self._results.put((record, outcome))

    def end(self, timeout: float) -> None:
        """Settle the added results, then end. It waits for a database that is down for at most `timeout` seconds."""
        self._results.put(None)
        self.join(timeout)
        self._ended.set()
        self.join(TRY_AGAIN_AFTER_SECONDS * 4)

    def run(self) -> None:
        prepare_in_this_thread()
        try:
            while not self._ending or (self._kept and not self._ended.is_set()):
                if batch := self._next_batch():
                    self._write(batch, settle_at_once_or_in_parts)
                if self._kept and boot_seconds() >= self._again_at:
                    kept, self._kept = self._kept, []
                    self._write(kept, settling.settle_in_parts)
        finally:
            connection.close()

    def _next_batch(self) -> list[Result]:
        """Wait for results, for a moment only while some are kept, and take those that are there."""
        batch: list[Result] = []
        try:
            found = self._results.get(timeout=TRY_AGAIN_AFTER_SECONDS if self._kept else None)
            while found is not None:
                batch.append(found)
                if len(batch) == self._most:
                    return batch
                found = self._results.get_nowait()
        except Empty:
            return batch
        self._ending = True
        return batch

    def _write(self, batch: list[Result], settle: Callable[[list[Result]], SettleResult]) -> None:
        """Settle a batch, however long the database is down, and keep the results that could not be written yet."""
        while not self._ended.is_set():
            try:
                locked = settle(batch).locked
            except Error as error:
                outage.begins(error)
                self._ended.wait(TRY_AGAIN_AFTER_SECONDS)
            else:
                outage.is_over()
                self._kept += [result for result in batch if result[0].id in locked]
                self._again_at = boot_seconds() + TRY_AGAIN_AFTER_SECONDS
                self._settled([record for record, _ in batch if record.id not in locked])
                return


def settle_at_once_or_in_parts(batch: list[Result]) -> SettleResult:
    """Settle a batch at once, else in parts. Raises: django.db.Error when the database is away."""
    try:
        return settling.settle(batch)
    except Exception as error:
        log_unless_away(log, f"a batch of {len(batch)} results cannot be settled at once, settling it in parts", error)
        return settling.settle_in_parts(batch)
