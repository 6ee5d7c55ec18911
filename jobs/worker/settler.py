"""Writes results, in a thread and on a connection of its own: while one batch is settled the next is being claimed.

When the database goes away, results are kept and written when it is back, as long as their leases last; what was lost
by then is dropped by the fence.
"""

import logging
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

from django.db import connection
from django.db.utils import InterfaceError, OperationalError

from jobs import claiming
from jobs.outcomes import Claimed, Failed, Outcome
from jobs.prepared import prepare_in_this_thread

log = logging.getLogger(__name__)

BATCH = 2000
TRY_AGAIN_AFTER_SECONDS = 0.5

Result = tuple[Claimed, Outcome]


class Settler(threading.Thread):
    """Settles what is `add`ed. `settled(records)` is called after each batch, from this thread."""

    def __init__(self, settled: Callable[[list[Claimed]], None], batch: int = BATCH) -> None:
        super().__init__(name="settler", daemon=True)
        self._most = batch
        self._settled = settled
        self._results: SimpleQueue[Result | None] = SimpleQueue()
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
            goes_on = True
            while goes_on:
                batch, goes_on = self._next_batch()
                self._write(batch)
        finally:
            connection.close()

    def _next_batch(self) -> tuple[list[Result], bool]:
        """Wait for results and take those that are there, and whether there will be more."""
        batch: list[Result] = []
        found = self._results.get()
        try:
            while found is not None:
                batch.append(found)
                if len(batch) == self._most:
                    return batch, True
                found = self._results.get_nowait()
        except Empty:
            return batch, True
        return batch, False

    def _write(self, batch: list[Result]) -> None:
        """Settle a batch, however long the database is away."""
        while batch and not self._ended.is_set():
            try:
                settle_one_way_or_another(batch)
            except (OperationalError, InterfaceError) as error:
                log.warning("cannot settle %s results, trying again: %s", len(batch), str(error).strip())
                connection.close()
                self._ended.wait(TRY_AGAIN_AFTER_SECONDS)
            else:
                self._settled([record for record, _ in batch])
                return


def settle_one_way_or_another(batch: list[Result]) -> None:
    """Settle a batch at once, else one by one, else as failures. Raises: OperationalError, InterfaceError."""
    try:
        claiming.settle(batch)
    except (OperationalError, InterfaceError):
        raise
    except Exception:
        log.exception("a batch of %s results cannot be settled; settling them one by one", len(batch))
        for record, outcome in batch:
            _settle_one(record, outcome)


def _settle_one(record: Claimed, outcome: Outcome) -> None:
    try:
        claiming.settle([(record, outcome)])
    except (OperationalError, InterfaceError):
        raise
    except Exception as error:
        log.exception("cannot settle %s %s as %s", record.kind, record.subject, type(outcome).__name__)
        _settle_as_failed(record, error)


def _settle_as_failed(record: Claimed, error: Exception) -> None:
    try:
        claiming.settle([(record, Failed(f"its result could not be written: {error}"))])
    except (OperationalError, InterfaceError):
        raise
    except Exception:
        # one record that nobody can settle must not end every worker that claims it; its lease runs out
        log.exception("cannot settle %s %s at all, dropping its result", record.kind, record.subject)
