"""The disturbances and their instants, drawn from a seed. One deed at a time; each is counted."""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import TypeVar

from django.db import connection
from django.db.utils import InterfaceError, OperationalError

from backupsched.embedded import EmbeddedDatabaseAway
from jobs import backlog, conf
from jobs.clock import boot_seconds
from jobs.models import BacklogRecord
from proving.chaos.facts import Deeds, QueuePause
from proving.chaos.fleet import Fleet, Member
from proving.chaos.server import CrashingServer
from proving.chaos.small_disk import SmallDisk

BETWEEN_DEEDS_SECONDS = (0.2, 1.6)
STOPPED_LEASES = (1.2, 2.6)
SPARED = 0.8
"""The share of deeds that spare the eldest worker: only one that ticked for a whole lease rescues records."""
FULL_SECONDS = (0.5, 4.0)
KILLED_WHILE_FULL = 0.5
"""The share of full disks on which the server is killed, so that it cannot start before there is space."""
PAUSED_SECONDS = (0.3, 2.0)
CANCELLED_AT_ONCE = 3

TERMINATE = """
SELECT count(pg_terminate_backend(pid))
  FROM (SELECT pid
          FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid()
         ORDER BY random()
         LIMIT %s) AS victim
"""
Result = TypeVar("Result")


@dataclass
class Storm:
    """Disturbs `fleet`, `server` and the backlog; the facts that the audit needs go to `deeds`."""

    luck: Random
    fleet: Fleet
    server: CrashingServer
    deeds: Deeds
    disk: SmallDisk | None = None
    """The server's disk, or None if it cannot be filled here."""
    done: Counter[str] = field(default_factory=Counter)
    _later: list[tuple[float, Callable[[], object]]] = field(default_factory=list)
    _paused: dict[str, float | None] = field(default_factory=dict)
    _next_at: float = 0.0
    _is_full: bool = False

    def step(self) -> None:
        """Do everything that is due by now: postponed deeds, and the next one."""
        now = boot_seconds()
        self._do_what_was_put_off(now)
        if now >= self._next_at:
            deeds, weights = zip(*self._choices(), strict=True)
            self.luck.choices(deeds, weights)[0]()
            self._next_at = boot_seconds() + self.luck.uniform(*BETWEEN_DEEDS_SECONDS)

    def calm_down(self) -> bool:
        """Undo lasting deeds: resume stopped workers and paused queues. Returns True if nothing is left."""
        self._do_what_was_put_off(float("inf"))
        return not self._later

    def _choices(self) -> list[tuple[Callable[[], None], int]]:
        return [
            (self._kill, 20),
            (self._stop, 12),
            (self._terminate, 10),
            (self._crash_database, 5),
            (self._break_connections, 14),
            (self._cancel_running, 18),
            (self._cancel_idle, 8),
            (self._pause, 13),
            *([(partial(self._fill, self.disk), 5)] if self.disk and not self._is_full else []),
        ]

    def _do_what_was_put_off(self, now: float) -> None:
        due = [entry for entry in self._later if entry[0] <= now]
        self._later = [entry for entry in self._later if entry[0] > now]
        for _, undo in due:
            undo()

    def _put_off(self, seconds: float, undo: Callable[[], object]) -> None:
        self._later.append((boot_seconds() + seconds, undo))

    def _victim(self) -> Member | None:
        """A worker to harm, never the last one that runs."""
        running = self.fleet.running()
        younger = running[1:]
        return self.luck.choice(younger if self.luck.random() < SPARED else running) if younger else None

    def _kill(self) -> None:
        if member := self._victim():
            self.fleet.kill(member)
            self.done["workers killed"] += 1

    def _terminate(self) -> None:
        if member := self._victim():
            self.fleet.terminate(member)
            self.done["workers ended with SIGTERM"] += 1

    def _stop(self) -> None:
        if member := self._victim():
            self.fleet.stop(member)
            self._put_off(conf.lease_seconds() * self.luck.uniform(*STOPPED_LEASES), lambda: self._go_on(member))
            self.done["workers stopped past their lease"] += 1

    def _go_on(self, member: Member) -> None:
        if member in self.fleet.members:
            self.fleet.go_on(member)

    def _crash_database(self) -> None:
        self.done["database crashes"] += 1
        with suppress(EmbeddedDatabaseAway):  # it does not run
            self.server.stop_at_once()  # the workers start it again

    def _fill(self, disk: SmallDisk) -> None:
        self._is_full = True
        disk.fill()
        self.done["disks filled"] += 1
        if self.luck.random() < KILLED_WHILE_FULL:
            self.server.kill()
            self.done["database crashes"] += 1
        self._put_off(self.luck.uniform(*FULL_SECONDS), lambda: self._make_room(disk))

    def _make_room(self, disk: SmallDisk) -> None:
        disk.make_room()
        self._is_full = False

    def _break_connections(self) -> None:
        def terminate() -> int:
            with connection.cursor() as cursor:
                cursor.execute(TERMINATE, [self.luck.randrange(1, 8)])
                return int(cursor.fetchone()[0])

        self.done["connections broken"] += self._ask(terminate) or 0

    def _cancel_running(self) -> None:
        running = BacklogRecord.objects.running().exclude(kind="poison").order_by("?")
        self._cancel(lambda: list(running.values_list("pk", flat=True)[:CANCELLED_AT_ONCE]))

    def _cancel_idle(self) -> None:
        idle = BacklogRecord.objects.unfinished().filter(leased_by=None).order_by("?")
        self._cancel(lambda: list(idle.values_list("pk", flat=True)[:CANCELLED_AT_ONCE]))

    def _cancel(self, choose: Callable[[], list[int]]) -> None:
        if not (ids := self._ask(choose)):
            return
        if result := self._ask(lambda: backlog.cancel(ids)):
            self.deeds.cancelled_idle |= set(result.cancelled)
            self.deeds.asked_to_stop |= set(result.stopping)
            self.done["records cancelled"] += len(result.cancelled) + len(result.stopping)
        else:
            self.deeds.cancels_in_doubt |= set(ids)

    def _pause(self) -> None:
        queue = self.luck.choice(sorted(conf.queue_rules()))
        if queue in self._paused:
            return
        paused = self._ask(lambda: backlog.pause_queue(queue, "a storm"))
        self._paused[queue] = boot_seconds() if paused is not None else None
        self._put_off(self.luck.uniform(*PAUSED_SECONDS), lambda: self._resume(queue))
        self.done["queues paused"] += 1

    def _resume(self, queue: str) -> None:
        began = boot_seconds()
        if self._ask(lambda: backlog.resume_queue(queue)) is None:
            self._paused[queue] = None  # it may be resumed already
            self._put_off(0.5, lambda: self._resume(queue))
            return
        since = self._paused.pop(queue)
        if since is not None:
            self.deeds.pauses.append(QueuePause(queue, since, began))

    def _ask(self, question: Callable[[], Result]) -> Result | None:
        """The answer, or None if the database did not give one."""
        try:
            return question()
        except (OperationalError, InterfaceError):
            connection.close()
            return None
