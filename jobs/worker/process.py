"""The worker's main loop: look for due work, claim as much as fits, sleep until there may be more.

The main thread ticks and claims; the settler writes results on a separate connection, so one batch is settled while the
next is claimed. While the database is down, both wait for it, and results are kept as long as their leases last.

SIGTERM or SIGINT: no more claims; records that have not begun are released at once; running handlers may end within the
grace, then they are stopped and their records released, which does not count as a failure. A second signal skips the
grace.

If the event loop does not turn for two thirds of a lease, the worker ends in the same way, without the grace and with
exit code 1. The handler that blocks the loop has failed then; its neighbours are released. The worker's row is not
marked as stopped, so that the doctor names it.
"""

import gc
import logging
import os
import signal
import socket
from collections.abc import Callable
from functools import partial

from django.db import connections
from django.db.models.functions import Now
from django.db.utils import Error

from external.sockets import sockets
from jobs import conf, periodic, rescuing, tick, wakeups
from jobs.clock import boot_seconds
from jobs.conf import QueueRule
from jobs.database_errors import is_away, is_busy
from jobs.handlers import Run, registry
from jobs.models import Worker
from jobs.outcomes import ClaimedRecord, Failed, Outcome, Released, Unavailable
from jobs.prepared_statements import prepare_in_this_thread
from jobs.rescuing import LeaseWatch
from jobs.worker import outage
from jobs.worker.claimer import Claimer
from jobs.worker.event_loop import EXIT_CODE, LoopWatch
from jobs.worker.heartbeat import Guard, Heartbeat, clock_skew
from jobs.worker.hints import Bell, Hints
from jobs.worker.listener import Listener
from jobs.worker.settler import Settler
from jobs.worker.units import STARVED_SECONDS, Units
from jobs.worker.upgrades import UpgradeWatch

log = logging.getLogger(__name__)

POLL_SECONDS = 1.25
"""The interval of polls: together with the heartbeat, an idle worker stays below one query a second."""
IDLE_POLL_SECONDS, IDLE_AFTER_SECONDS = 2.5, 60.0
"""The interval for a worker that sleeps on LISTEN and has done nothing for a minute: together with its queries of each
minute, it stays below one statement a second.
"""
MINUTELY_SECONDS, RARELY_SECONDS = 60.0, 300.0
"""The time between two rounds of the minutely tasks, and of the rare ones (`jobs.periodic`)."""
COLLECT_AFTER = (20_000, 20, 20)
"""The thresholds of `gc.set_threshold`. A callback leaves some dozens of objects; with Python's defaults (700, 10, 10)
the collections of a worker with all of Django loaded take a third of the event loop's time."""
SHORTEST_SLEEP_SECONDS = 0.02
"""The time between two looks while waiting records become due one after the other."""
STOPPING_SECONDS = 10.0
"""Seconds for stopped handlers to end before their records are released over their heads."""
SILENCES = 100
"""The most silences in one transaction, in which the `after_settle` of their kind writes as well."""
SETTLING_SECONDS = 10.0
"""Seconds for the last results to be written at a shutdown."""


class WorkerProcess:
    """One worker. `rules`: the queues it serves; `grace`: seconds that running handlers get at a shutdown."""

    def __init__(self, rules: list[QueueRule], grace: float = 30.0) -> None:
        self.rules = rules
        self.grace = grace
        # well below half a lease: longer gaps between ticks put off every rescue
        self.poll_seconds = min(POLL_SECONDS, conf.lease_seconds() / 4)
        self.idle_poll_seconds = min(IDLE_POLL_SECONDS, conf.lease_seconds() / 4)
        self.bell = Bell()
        self.hints = Hints(self.bell.ring)
        self.signals = 0
        self.gave_up = False
        self._look_at, self._moved_at = 0.0, boot_seconds()
        self.lease_watch = LeaseWatch()
        self._minutely_at = self._rarely_at = boot_seconds() + MINUTELY_SECONDS
        self._was_cut_off = False
        self.upgrades = UpgradeWatch("this worker")
        self.is_outdated = False
        """True once its tables or its host were upgraded: it claims nothing more, finishes its runs, and exits."""

    def run(self) -> None:
        """Work until a signal asks to stop. Returns after a clean shutdown. It waits for a database that is down."""
        sockets.raise_limit()
        registry.warm_up({rule.name for rule in self.rules})  # later it would delay claimed records
        collect_less_often()
        prepare_in_this_thread()
        if not self.wait_until(self.register):
            return
        self.start()
        while not (self.signals or self.is_outdated):
            if not self._safely(self.do_one_round):
                self.bell.wait(self._seconds_to_sleep())
        self.shut_down()

    def wait_until(self, work: Callable[[], bool]) -> bool:
        """Do `work` until it returns True, however long the database is away. Returns False if a signal came first."""
        while not self._safely(work):
            if self.signals:
                return False
            self.bell.wait(self.poll_seconds)
        return True

    def register(self) -> bool:
        """Make the worker's row, under which it claims. Returns True. Raises: django.db.Error."""
        hostname = socket.gethostname()
        periodic.at_start()
        self.row = Worker.objects.create(
            name=f"{hostname}:{os.getpid()}",
            hostname=hostname,
            pid=os.getpid(),
            queues={rule.name: rule.concurrency for rule in self.rules},
            clock_skew=clock_skew(),
            sockets=sockets.limit,
        )
        self.upgrades.begin()
        return True

    def start(self) -> None:
        """Start the worker's threads."""
        self.settler = Settler(self._settled)
        self.silences = Settler(self._settled, SILENCES, name="silences")
        self.units = Units(self.rules, self._ended, room_made=self.bell.ring, after_thread=_close_stale_connections)
        self.claimer = Claimer(self.rules, self.units, self.hints, self.row.pk)
        self.heartbeat = Heartbeat(self.row.pk, self.units)
        self.loop_watch = LoopWatch(self.units.loop, self.units.busy_in_loop, self.give_up)
        self.guard = Guard(self.units, self.loop_watch.beat)
        self.threads: list[Heartbeat | Guard | Listener] = [self.heartbeat, self.guard]
        if conf.listens():
            self.threads.append(Listener({rule.name for rule in self.rules}, self.hints, self.units))
        wakeups.heard_here = partial(self.hints.hear, quiet=0)
        wakeups.room_here = partial(self.hints.hear_of_room, quiet=0)
        for thread in (self.settler, self.silences, *self.threads):
            thread.start()
        queues = ", ".join(f"{rule.name}:{rule.concurrency}" for rule in self.rules)
        log.info("worker %s serves %s", self.row, queues)

    def handle_signal(self, number: int, _frame: object) -> None:
        """SIGTERM or SIGINT: first a clean shutdown, then a forced one."""
        self.signals += 1
        self.bell.ring()

    def give_up(self) -> None:
        """End without a grace, since the guard has found the event loop stuck."""
        self.gave_up, self.signals = True, max(self.signals, 2)
        self.bell.ring()

    def install_signal_handlers(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.handle_signal)

    def do_one_round(self) -> bool:
        """Look, tick and claim once. Returns whether there was anything to do."""
        if self._was_cut_off:
            self.heartbeat.beat_now()
            known = [run.record for run in self.units.runs()]
            self._was_cut_off = not rescuing.release_strays(worker_id=self.row.pk, known=known)
        moved = boot_seconds() >= self._look_at and self.look()
        self._release(self.units.starved(), "long records have taken all places of its queue")
        if moved := bool(self.claimer.claim_what_fits()) or moved:
            self._moved_at = boot_seconds()
        return moved

    def look(self) -> bool:
        """Do the work that time alone has made due. Returns True if anything moved. It is one query if nothing is
        due."""
        now = boot_seconds()
        due = tick.look([rule.name for rule in self.rules])
        if due.lease_expires_at is not None:
            self.lease_watch.look()
        is_idle = conf.listens() and now - self._moved_at >= IDLE_AFTER_SECONDS
        poll = self.idle_poll_seconds if is_idle else self.poll_seconds
        self._look_at = now + min(poll, max(SHORTEST_SLEEP_SECONDS, due.seconds_until_next()))
        for queue in due.ready:
            self.hints.add(queue)
        if now >= self._minutely_at:
            self._minutely_at = now + MINUTELY_SECONDS
            self._notice_upgrades()
            # it logs failures, and must not starve because of a tick that always fails
            periodic.run_minutely(rare=False)
            if now >= self._rarely_at:
                self._rarely_at = now + (MINUTELY_SECONDS if periodic.run_rarely() else RARELY_SECONDS)
        unchanged = self.lease_watch.unchanged()
        ticked = tick.act_on(due, rescue=bool(unchanged), unchanged=unchanged)
        if any(ticked):  # the rest is due now, and its successors may be in a moment
            self._look_at = now + SHORTEST_SLEEP_SECONDS
        return any(ticked)

    def _notice_upgrades(self) -> None:
        if found := self.upgrades.found():
            self.is_outdated = True
            log.warning("%s after worker %s started: it ends once its running records have ended", found, self.row)

    def _seconds_to_sleep(self) -> float:
        until_look = self._look_at - boot_seconds()
        seconds = min(self.poll_seconds, until_look, self.hints.seconds_until_next())
        return max(0.0, min(seconds, STARVED_SECONDS) if self.units.waiting() else seconds)

    def _release(self, runs: list[Run], reason: str) -> None:
        for run in runs:
            self.settler.add(run.record, Released(reason))

    def _ended(self, record: ClaimedRecord, outcome: Outcome) -> None:
        """Hand a result to its settler. Silences come by the hundred, a timeout after their questions: they have a
        separate one, so that no answer waits until they are written."""
        (self.silences if isinstance(outcome, Unavailable) else self.settler).add(record, outcome)

    def _settled(self, records: list[ClaimedRecord]) -> None:
        self.units.forget(records)
        self._moved_at = boot_seconds()
        self.bell.ring()

    def shut_down(self) -> None:
        """Let handlers end within the grace, stop the rest, release the remaining records, and sign off."""
        log.info("worker %s stops: %s running", self.row, len(self.units.runs()))
        self._release(self.units.take_back(), "the worker was stopped before it began")
        self.units.stop_waiting_for_answers()
        if self.is_outdated:
            self._drain(float("inf"), self.units.runs, until_signals=1)
        self._drain(self.grace, self.units.runs, until_signals=2)
        self.units.stop_all()
        self._drain(STOPPING_SECONDS, self._stoppable, until_signals=3)
        unresponsive = self.units.busy()
        is_stuck = self.loop_watch.is_stuck
        culprits = self.units.holding_up_the_loop() if is_stuck else []
        for run in culprits:
            self.settler.add(run.record, Failed("it blocked the event loop of its worker"))
        self._release(
            [run for run in unresponsive if run not in culprits], "the worker was stopped and its handler did not end"
        )
        for settler in (self.settler, self.silences):
            settler.end(SETTLING_SECONDS)
        for thread in self.threads:
            thread.end()
        if not is_stuck:
            self.units.close()
        self._safely(registry.beat)
        if not self.gave_up:
            self._safely(lambda: Worker.objects.filter(pk=self.row.pk).update(stopped_at=Now()))
        connections.close_all()
        log.info("worker %s has stopped", self.row)
        if unresponsive or is_stuck or self.gave_up:
            # their threads would continue, and their engines with them, in parallel to the next attempt
            logging.shutdown()
            os._exit(EXIT_CODE if self.gave_up else 0)

    def _stoppable(self) -> list[Run]:
        """The runs that may end within a moment, now that they were stopped: none in an event loop that
        does not turn.
        """
        stuck = self.units.busy_in_loop() if self.loop_watch.is_stuck else []
        return [run for run in self.units.runs() if run not in stuck]

    def _drain(self, seconds: float, runs: Callable[[], list[Run]], until_signals: int) -> None:
        """Wait until no `runs()` are left, or for that many seconds, or for another signal."""
        deadline = boot_seconds() + seconds
        while runs() and (left := deadline - boot_seconds()) > 0 and self.signals < until_signals:
            self.bell.wait(min(self.poll_seconds, left))

    def _safely(self, work: Callable[[], object]) -> bool:
        """Do `work`; ride out a database that is away or busy."""
        try:
            done = bool(work())
        except Error as error:
            if is_away(error):
                outage.begins(error)
            elif is_busy(error):
                log.warning("the database is busy, trying again: %s", str(error).strip())
            else:
                raise
            self._was_cut_off = True  # a claim may have been committed before
            self._look_at = boot_seconds() + self.poll_seconds
            return False
        outage.is_over()
        return done


def collect_less_often() -> None:
    """Exclude everything loaded by now from garbage collection, since it stays. Doing it again does no harm."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)


def _close_stale_connections() -> None:
    """Close a unit's broken connection after each handler, so that the next one gets a new one."""
    for held in connections.all(initialized_only=True):
        try:
            held.close_if_unusable_or_obsolete()
        except Error:
            held.close()
