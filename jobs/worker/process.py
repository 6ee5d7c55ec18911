"""The worker's main loop: settle what ended, tick, claim what fits, ask again.

All claims and settles are made by the main thread on one connection. When the database goes away, results are kept
and written when it is back, as long as their leases last.

SIGTERM or SIGINT: no more claims; running handlers may end within the grace, then they are stopped and their records
released, which counts as no failure. A second signal skips the grace.
"""

import logging
import os
import signal
import socket
from collections.abc import Callable
from datetime import UTC, datetime
from queue import Empty, SimpleQueue

from django.db import connection, connections
from django.db.models.functions import Now
from django.db.utils import Error, InterfaceError, OperationalError

from jobs import claiming, conf, emitter
from jobs.clock import boot_seconds, database_clock
from jobs.conf import QueueRule
from jobs.models import Worker
from jobs.outcomes import Claimed, Failed, Outcome, Released
from jobs.worker.bell import Bell
from jobs.worker.guard import Guard
from jobs.worker.heartbeat import Heartbeat
from jobs.worker.listener import Listener
from jobs.worker.lookahead import shortage
from jobs.worker.runner import Runner

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
STOPPING_SECONDS = 10.0
"""How long stopped handlers may take to end before their records are released over their heads."""
CLOCK_SKEW_SECONDS = 5.0


class WorkerProcess:
    """One worker. `rules`: the queues it serves; `grace`: seconds that running handlers get at a shutdown."""

    def __init__(self, rules: list[QueueRule], grace: float = 30.0) -> None:
        self.rules = rules
        self.grace = grace
        # well below half a lease: longer gaps between ticks put off every rescue
        self.poll_seconds = min(POLL_SECONDS, conf.lease_seconds() / 4)
        self.bell = Bell()
        self.signals = 0
        self.results: SimpleQueue[tuple[Claimed, Outcome]] = SimpleQueue()
        self.unsettled: list[tuple[Claimed, Outcome]] = []
        self._ticked_at = self._ticking_since = float("-inf")
        self._was_cut_off = False

    def run(self) -> None:
        """Work until a signal says stop. Returns after a clean shutdown."""
        self.start()
        while not self.signals:
            if not self._safely(self.do_one_round):
                self.bell.wait(self.poll_seconds)
        self.shut_down()

    def start(self) -> None:
        """Register the worker and start its threads."""
        hostname = socket.gethostname()
        self.row = Worker.objects.create(
            name=f"{hostname}:{os.getpid()}",
            hostname=hostname,
            pid=os.getpid(),
            queues={rule.name: rule.concurrency for rule in self.rules},
        )
        self._warn_of_clock_skew()
        threads = sum(rule.concurrency for rule in self.rules)
        self.runner = Runner(threads, self._done, after_thread=_close_stale_connections)
        self.heartbeat = Heartbeat(self.row.pk, self.runner)
        self.guard = Guard(self.runner)
        self.listener = Listener({rule.name for rule in self.rules}, self.bell)
        for thread in (self.heartbeat, self.guard, self.listener):
            thread.start()
        queues = ", ".join(f"{rule.name}:{rule.concurrency}" for rule in self.rules)
        log.info("worker %s serves %s", self.row, queues)

    def handle_signal(self, number: int, _frame: object) -> None:
        """SIGTERM or SIGINT: first a clean shutdown, then a forced one."""
        self.signals += 1
        self.bell.ring()

    def install_signal_handlers(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.handle_signal)

    def do_one_round(self) -> bool:
        """Settle, tick and claim once. Returns whether there was anything to do."""
        if self._was_cut_off:
            claiming.release_strays(worker_id=self.row.pk, known={run.record.id for run in self.runner.runs()})
            self._was_cut_off = False
        settled = self.settle_finished()
        ticked = self.tick_if_due()
        return bool(self.claim_what_fits() or settled or ticked)

    def settle_finished(self) -> int:
        """Write the results that have come in. Returns how many. Raises: django.db.Error; they are kept then."""
        while True:
            try:
                self.unsettled.append(self.results.get_nowait())
            except Empty:
                break
        batch = self.unsettled
        if batch:
            self._settle(batch)
            for record, _ in batch:
                self.runner.forget(record.id, record.attempt)
            self.unsettled = []
        return len(batch)

    def _settle(self, batch: list[tuple[Claimed, Outcome]]) -> None:
        try:
            claiming.settle(batch)
        except (OperationalError, InterfaceError):
            raise
        except Exception:
            log.exception("a batch of %s results cannot be settled; settling them one by one", len(batch))
            for record, outcome in batch:
                self._settle_one(record, outcome)

    def _settle_one(self, record: Claimed, outcome: Outcome) -> None:
        try:
            claiming.settle([(record, outcome)])
        except (OperationalError, InterfaceError):
            raise
        except Exception as error:
            log.exception("cannot settle %s %s as %s", record.kind, record.subject, type(outcome).__name__)
            self._settle_as_failed(record, error)

    def _settle_as_failed(self, record: Claimed, error: Exception) -> None:
        try:
            claiming.settle([(record, Failed(f"its result could not be written: {error}"))])
        except (OperationalError, InterfaceError):
            raise
        except Exception:
            # one record that nobody can settle must not end every worker that claims it; its lease runs out
            log.exception("cannot settle %s %s at all, dropping its result", record.kind, record.subject)

    def tick_if_due(self) -> bool:
        """Do what time alone moves, about once a second. Returns whether anything moved."""
        now = boot_seconds()
        if now - self._ticked_at < self.poll_seconds:
            return False
        lease = conf.lease_seconds()
        if now - self._ticked_at > lease / 2:
            # the machine slept or the database was away: everybody's heartbeat was late, so nobody is dead yet
            self._ticking_since = now
        self._ticked_at = now
        try:
            return emitter.tick(rescue=now - self._ticking_since >= lease).anything
        except (OperationalError, InterfaceError):
            raise
        except Exception:
            # one schedule that cannot be emitted must not stop the fleet's backups
            log.exception("the tick failed; the next one follows in a second")
            return False

    def claim_what_fits(self) -> int:
        """Claim up to the free places of each queue and start what was claimed. Returns how many."""
        running = self.runner.running()
        started = 0
        for rule in self.rules:
            free = rule.concurrency - running[rule.name]
            if free <= 0 or (rule.feeds and shortage(rule.feeds) <= 0):
                continue
            sent_at = boot_seconds()
            for record in claiming.claim(rule.name, worker_id=self.row.pk, limit=free):
                self.runner.start(record, sent_at)
                started += 1
        return started

    def shut_down(self) -> None:
        """Let handlers end within the grace, stop the rest, release what is left, and sign off."""
        log.info("worker %s stops: %s running", self.row, len(self.runner.runs()))
        self.runner.stop_waiting_for_answers()
        self._drain(self.grace, until_signals=2)
        self.runner.stop_all()
        self._drain(STOPPING_SECONDS, until_signals=3)
        deaf = self.runner.runs()
        for run in deaf:
            self.results.put((run.record, Released("the worker was stopped and its handler did not end")))
        self._safely(self.settle_finished)
        for thread in (self.listener, self.guard, self.heartbeat):
            thread.end()
        self.runner.close()
        self._safely(lambda: Worker.objects.filter(pk=self.row.pk).update(stopped_at=Now()))
        connections.close_all()
        log.info("worker %s has stopped", self.row)
        if deaf:
            # the interpreter would wait for their threads, and their engines would go on beside the next attempt
            logging.shutdown()
            os._exit(0)

    def _drain(self, seconds: float, until_signals: int) -> None:
        deadline = boot_seconds() + seconds
        while self.runner.runs() and boot_seconds() < deadline and self.signals < until_signals:
            if not self._safely(self.settle_finished):
                self.bell.wait(min(self.poll_seconds, max(0.0, deadline - boot_seconds())))

    def _done(self, record: Claimed, outcome: Outcome) -> None:
        self.results.put((record, outcome))
        self.bell.ring()

    def _safely(self, work: Callable[[], object]) -> bool:
        """Do `work`; ride out a database that is away."""
        try:
            return bool(work())
        except (OperationalError, InterfaceError) as error:
            log.warning("the database does not answer, trying again: %s", str(error).strip())
            connection.close()
            self._was_cut_off = True
            return False

    def _warn_of_clock_skew(self) -> None:
        skew = abs((datetime.now(UTC) - database_clock()).total_seconds())
        if skew > CLOCK_SKEW_SECONDS:
            log.error("this machine's clock is %.0f s off the database's: synchronise it (NTP)", skew)


def _close_stale_connections() -> None:
    """After each handler: a unit's connection that broke is not kept for the next one."""
    for held in connections.all(initialized_only=True):
        try:
            held.close_if_unusable_or_obsolete()
        except Error:
            held.close()
