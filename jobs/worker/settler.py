"""Writes results, in a thread and on a connection of its own: while one batch is settled the next is being claimed.

When the database goes away, results are kept and written when it is back, as long as their leases last; what was lost
by then is dropped by the fence. A batch for which the database is too busy is settled again in halves, so that only
what cannot be written now is kept and tried again; what cannot be written at all is isolated and named.
"""

import logging
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

from django.db import connection
from django.db.utils import Error

from jobs import claiming, conf
from jobs.clock import boot_seconds
from jobs.database_errors import is_away, is_busy
from jobs.outcomes import Claimed, Failed, Outcome
from jobs.prepared import prepare_in_this_thread
from jobs.worker import outage

log = logging.getLogger(__name__)

BATCH = 2000
TRY_AGAIN_AFTER_SECONDS = 0.5

Result = tuple[Claimed, Outcome]


class Settler(threading.Thread):
    """Settles what is `add`ed. `settled(records)` is called after each batch, from this thread."""

    def __init__(self, settled: Callable[[list[Claimed]], None]) -> None:
        super().__init__(name="settler", daemon=True)
        self._settled = settled
        self._results: SimpleQueue[Result | None] = SimpleQueue()
        self._kept: list[Result] = []
        self._again_at = 0.0
        self._ending = False
        self._ended = threading.Event()

    def add(self, record: Claimed, outcome: Outcome) -> None:
        """Take in a result, from any thread."""
        self._results.put((record, outcome))

    def end(self, timeout: float) -> None:
        """Settle what was added, then end. A database that is away is waited for no longer than `timeout` seconds."""
        self._results.put(None)
        self.join(timeout)
        self._ended.set()
        self.join(TRY_AGAIN_AFTER_SECONDS * 4)

    def run(self) -> None:
        prepare_in_this_thread()
        try:
            while not self._ending or (self._kept and not self._ended.is_set()):
                if batch := self._next_batch():
                    self._write(batch, settle_one_way_or_another)
                if self._kept and boot_seconds() >= self._again_at:
                    kept, self._kept = self._kept, []
                    self._write(kept, settle_in_parts)
        finally:
            connection.close()

    def _next_batch(self) -> list[Result]:
        """Wait for results, for a moment only while some are kept, and take those that are there."""
        batch: list[Result] = []
        try:
            found = self._results.get(timeout=TRY_AGAIN_AFTER_SECONDS if self._kept else None)
            while found is not None:
                batch.append(found)
                if len(batch) == BATCH:
                    return batch
                found = self._results.get_nowait()
        except Empty:
            return batch
        self._ending = True
        return batch

    def _write(self, batch: list[Result], settle: Callable[[list[Result]], list[Result]]) -> None:
        """Settle a batch, however long the database is away, and keep what `settle` could not write yet."""
        while not self._ended.is_set():
            try:
                kept = settle(batch)
            except Error as error:
                outage.begins(error)
                self._ended.wait(TRY_AGAIN_AFTER_SECONDS)
            else:
                outage.is_over()
                self._kept += kept
                self._again_at = boot_seconds() + TRY_AGAIN_AFTER_SECONDS
                unwritten = {id(result) for result in kept}
                self._settled([result[0] for result in batch if id(result) not in unwritten])
                return


def settle_one_way_or_another(batch: list[Result]) -> list[Result]:
    """Settle a batch at once, else in parts. Returns what has to be tried again. Raises: django.db.Error when the
    database is away."""
    try:
        claiming.settle(batch)
    except Exception as error:
        if is_away(error):
            raise
        if is_busy(error):
            log.warning("a batch of %s results has to wait, settling it in parts: %s", len(batch), str(error).strip())
        else:
            log.exception("a batch of %s results cannot be settled, settling it in parts", len(batch))
        return settle_in_parts(batch)
    return []


def settle_in_parts(batch: list[Result]) -> list[Result]:
    """Settle a batch, its halves, and so on. What is isolated and cannot be written becomes a failure.

    Returns what the database is too busy for, and when that has taken a sixth of a lease, all that is left. Raises:
    django.db.Error when the database is away.
    """
    return _settle_in_parts(batch, boot_seconds() + conf.lease_seconds() / 6)


def _settle_in_parts(batch: list[Result], until: float) -> list[Result]:
    try:
        claiming.settle(batch)
    except Exception as error:
        if is_away(error):
            raise
        if is_busy(error) and (len(batch) == 1 or boot_seconds() >= until):
            return batch
        if len(batch) > 1:
            half = len(batch) // 2
            return _settle_in_parts(batch[:half], until) + _settle_in_parts(batch[half:], until)
        return _settle_as_failed(*batch[0], error)
    return []


def _settle_as_failed(record: Claimed, outcome: Outcome, error: Exception) -> list[Result]:
    log.error("cannot settle %s %s as %s", record.kind, record.subject, type(outcome).__name__, exc_info=error)
    try:
        claiming.settle([(record, Failed(f"its result could not be written: {error}"))])
    except Exception as another:
        if is_away(another):
            raise
        if is_busy(another):
            return [(record, outcome)]
        # one record that nobody can settle must not end every worker that claims it; its lease runs out
        log.exception("cannot settle %s %s at all, dropping its result", record.kind, record.subject)
    return []
