"""An actor: a thread of the simulation that parks before each round trip to the database (`baton`)."""

import re
import threading
from collections.abc import Callable
from enum import Enum
from queue import SimpleQueue
from typing import Any, Protocol

import psycopg
from psycopg.pq import TransactionStatus

LOCK_TIMEOUT_SECONDS = 10.0
"""A sixth of a lease, as in `jobs.prepared_statements.session_settings`."""


class WorkerKilled(BaseException):
    """Ends the threads of a killed worker wherever they are. No handler of errors may catch it."""


class State(Enum):
    RUNS = "runs"
    IDLE = "idle"
    PARKED = "parked before a statement"
    SENT = "its statement is under way"
    BLOCKED = "blocked by a lock"
    BACK = "got the lock it waited for"
    ENDED = "ended"


class ResumeOrder(Enum):
    GO = "go"
    LOSE = "lose"
    KILL = "kill"


_here = threading.local()


def actor_here() -> "SimulatedActor | None":
    """The actor whose thread calls this, or None."""
    return getattr(_here, "actor", None)


class Conductor(Protocol):
    """The part of the baton that actors use: they report to it, and it adopts the threads that they start."""

    clocks: Any
    monitor: Any
    arrivals: "SimpleQueue[SimulatedActor]"
    is_read_only: bool
    has_news: bool

    def adopt(self, thread: threading.Thread, starter: "SimulatedActor") -> None: ...


class SimulatedActor:
    """A thread of the simulation. `name`: such as w1.heartbeat; `worker`: its number, 0 outside of workers."""

    def __init__(self, baton: Conductor, name: str, worker: int) -> None:
        self.baton, self.name, self.worker = baton, name, worker
        self.state = State.RUNS
        self.statement = ""
        self.connection: Any = None
        self.is_connecting = self.is_dead = self.times_out = False
        self.linger_at = 0
        self.lingers = False
        self.gate: int | None = None
        self.is_ready: Callable[[], bool] = lambda: True
        self.until: float | None = None
        self.since = 0.0
        self.waited_until: Any = None
        self.lock_timeout = LOCK_TIMEOUT_SECONDS
        self.was_disturbed = False
        self.error: BaseException | None = None
        self.thread: threading.Thread | None = None
        self._order = ResumeOrder.GO
        self._go = threading.Semaphore(0)

    def __repr__(self) -> str:
        return self.name

    @property
    def pid(self) -> int | None:
        return (
            self.connection.pgconn.backend_pid if self.connection is not None and not self.connection.closed else None
        )

    def in_transaction(self) -> bool:
        held = self.connection
        return (
            held is not None
            and not held.closed
            and held.pgconn.transaction_status
            not in (
                TransactionStatus.IDLE,
                TransactionStatus.UNKNOWN,
            )
        )

    def run(self, work: Callable[[], object]) -> None:
        """The body of its thread."""
        _here.actor = self
        try:
            self._wait(State.IDLE)
            work()
        except WorkerKilled:
            pass
        except BaseException as error:
            self.error = error
        finally:
            self._arrive(State.ENDED)

    def idle(self, is_ready: Callable[[], bool], until: float | None) -> None:
        """Park until `is_ready`, or, if `until` (boot seconds) is given, until a choice makes it late."""
        self.is_ready, self.until = is_ready, until
        self._wait(State.IDLE)

    def round_trip(self, connection: Any, statement: str, send: Callable[[], Any]) -> Any:
        """Park, then send a statement and return its result. Raises what the database would if it is disturbed."""
        self.connection, self.statement = connection, statement
        if asked := re.search(r"set_config\('lock_timeout', '(\d+)'", statement):
            self.lock_timeout = int(asked[1]) / 1000
        order = self._wait(State.PARKED)
        if not connection.closed:
            connection.obey(self.baton.is_read_only and self.worker > 0)
            if self.linger_at:
                connection.linger(self.linger_at)
        self.state = State.SENT
        try:
            result = send()
        except psycopg.errors.QueryCanceled as error:
            self._come_back()
            if self.times_out:
                self.times_out = False
                raise psycopg.errors.LockNotAvailable("canceling statement due to lock timeout") from error
            raise
        except Exception:
            self._come_back()
            raise
        self.baton.has_news |= connection.pgconn.transaction_status == TransactionStatus.IDLE
        self._come_back()
        if statement in ("COMMIT", "ROLLBACK"):
            self.waited_until, self.lock_timeout = None, LOCK_TIMEOUT_SECONDS
        if order is ResumeOrder.LOSE:
            pid = connection.pgconn.backend_pid
            connection.pgconn.finish()
            self.baton.monitor.end_backend(pid)
            raise psycopg.OperationalError("consuming input failed: the answer was lost")
        return result

    def _come_back(self) -> None:
        if self.linger_at:
            self.linger_at = 0
            self.connection.linger(0)
        if self.state is State.BLOCKED:
            if not self.lingers:
                self.waited_until = self.baton.clocks.database()
            self.lingers = False
            self._wait(State.BACK)
        self.state = State.RUNS

    def _wait(self, state: State) -> ResumeOrder:
        if self.is_dead:
            self._die()
        self.since = self.baton.clocks.boot
        self._arrive(state)
        self._go.acquire()
        if self.is_dead:
            self._die()
        return self._order

    def _die(self) -> None:
        self.state = State.RUNS
        if self.connection is not None:
            self.connection.pgconn.finish()
        raise WorkerKilled

    def _arrive(self, state: State) -> None:
        self.state = state
        self.baton.arrivals.put(self)

    def resume(self, order: ResumeOrder = ResumeOrder.GO) -> None:
        self._order = order
        self.state = State.RUNS
        self._go.release()
