"""The baton: one actor's thread runs at a time, and a step ends when every thread is parked or blocked.

An actor parks before each round trip to the database, and where it would wait for time, an event or a queue. The
holder of the baton chooses one and resumes it. If its statement waits for another actor's lock (the server is asked:
`pg_blocking_pids`), the step is over, and the backend is held by SIGSTOP; once the lock is granted, in a later step, it
resumes, and the actor parks again with the result. If several get their locks at once (all that wait for one
transaction), the longest held resumes first, and the next when that one is parked or blocked. So the choices alone
decide the order of events, and nothing depends on the speed of the machine.
"""

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING, Any

from proving.chaos.protocol.actor import ResumeOrder, SimulatedActor, State, actor_here

if TYPE_CHECKING:
    from proving.chaos.protocol.monitor import Monitor

PATIENCE_SECONDS = 60.0
"""A step that takes longer is a fault of the simulation, or of the machine."""
LOOK_AFTER_SECONDS = 0.01
"""A statement that takes longer than this may be blocked."""


class Stuck(Exception):
    """A step does not end."""


class Deadlock(Exception):
    """Actors wait for each other's locks."""


class Baton:
    """Resumes one actor at a time."""

    def __init__(self, clocks: Any, monitor: "Monitor") -> None:
        self.clocks, self.monitor = clocks, monitor
        self.actors: list[SimulatedActor] = []
        self.arrivals: SimpleQueue[SimulatedActor] = SimpleQueue()
        self.is_read_only = False
        self.has_news = True
        self.blockers: dict[int, list[int]] = {}
        self._held: list[SimulatedActor] = []

    def start(self, name: str, worker: int, work: Callable[[], object]) -> SimulatedActor:
        """Start a new actor in a new thread, parked before its first move."""
        actor = SimulatedActor(self, name, worker)
        self.actors.append(actor)
        actor.thread = threading.Thread(target=actor.run, args=(work,), name=name, daemon=True)
        _start_thread(actor.thread)
        return actor

    def adopt(self, thread: threading.Thread, starter: SimulatedActor) -> None:
        """Make a thread that an actor starts an actor of the same worker."""
        actor = SimulatedActor(self, f"w{starter.worker}.{thread.name}", starter.worker)
        actor.thread = thread
        self.actors.append(actor)
        work = thread.run
        thread.run = lambda: actor.run(work)  # type: ignore[method-assign]
        _start_thread(thread)

    def resume(self, actor: SimulatedActor, order: ResumeOrder = ResumeOrder.GO) -> None:
        """Resume the actor until it parks, blocks or ends, and with it those that it unblocks."""
        actor.resume(order)
        self.settle()

    def time_out(self) -> None:
        """End the waits of workers' statements that have lasted for longer than a worker's lock timeout."""
        for actor in self.actors:
            is_late = self.clocks.boot - actor.since >= actor.lock_timeout
            if actor.state is State.BLOCKED and actor.worker and is_late and not actor.lingers:
                self.interrupt(actor)
        self.settle()

    def linger(self, actor: SimulatedActor, reading: int) -> None:
        """Resume the actor, and let its statement stop at its first, second or third reading of a clock."""
        if (pid := actor.pid) is None:
            return
        self.monitor.shut_gate(pid)
        actor.gate, actor.linger_at = pid, reading
        self.resume(actor)
        actor.lingers = actor.state is State.BLOCKED and self.blockers.get(pid) == [self.monitor.pid]
        if not actor.lingers:
            self._open_gate(actor)

    def go_on(self, actor: SimulatedActor) -> None:
        """Resume a lingering statement until its actor parks, blocks or ends."""
        actor.lingers, actor.state = False, State.SENT
        self._open_gate(actor)
        self._release(actor)
        self.settle()

    def _open_gate(self, actor: SimulatedActor) -> None:
        if actor.gate is not None:
            self.monitor.open_gate(actor.gate)
            actor.gate = None

    def interrupt(self, actor: SimulatedActor) -> None:
        """End the statement in which the actor is blocked, as a lock timeout does."""
        actor.times_out = True
        if actor.pid is not None:
            self.monitor.cancel(actor.pid)
            self._release(actor)
        self.await_back(actor)

    def await_back(self, actor: SimulatedActor) -> None:
        """Wait until a statement that is not blocked any more has returned."""
        until = monotonic() + PATIENCE_SECONDS
        while actor.state is State.BLOCKED:
            if monotonic() > until:
                raise Stuck(f"{actor} does not come back: {actor.statement}")
            with suppress(Empty):
                self.arrivals.get(timeout=LOOK_AFTER_SECONDS)

    def settle(self) -> None:
        """Wait until every thread is parked, blocked or ended. Raises: Deadlock, Stuck."""
        self._await_rest()
        while granted := self._granted():
            self._release(granted)
            self._await_rest()

    def _await_rest(self) -> None:
        """Wait until every thread that is not held is parked, ended or blocked, and hold those that are blocked."""
        until = monotonic() + PATIENCE_SECONDS
        while moving := [
            actor
            for actor in self.actors
            if actor.state in (State.RUNS, State.SENT, State.BLOCKED) and actor not in self._held
        ]:
            if all(actor.state is not State.RUNS for actor in moving) and self._are_blocked(moving):
                self._hold(moving)
                break
            if monotonic() > until:
                raise Stuck(", ".join(f"{actor} {actor.state.value}: {actor.statement}" for actor in moving))
            with suppress(Empty):
                self.arrivals.get(timeout=LOOK_AFTER_SECONDS)
        while not self.arrivals.empty():
            self.arrivals.get()

    def _are_blocked(self, moving: list[SimulatedActor]) -> bool:
        """True if each waits for a lock that no other is just releasing."""
        if any(actor.state is State.SENT for actor in moving) and not self.arrivals.empty():
            return False
        if any(actor.pid is None for actor in moving):
            return False
        self._ask_for_blockers(moving)
        if not all(self.blockers.get(actor.pid or 0) for actor in moving):
            return False
        for actor in moving:
            if actor.state is State.SENT:
                actor.state = State.BLOCKED
        return all(actor.state is State.BLOCKED for actor in moving)

    def _granted(self) -> SimulatedActor | None:
        """The first actor that is held although it has its lock by now. Raises: Deadlock."""
        if not self._held:
            return None
        self._ask_for_blockers([])
        if cycle := self._cycle():
            raise Deadlock(", ".join(f"{actor} in {actor.statement[:60]}" for actor in cycle))
        return next((actor for actor in self._held if not self.blockers.get(actor.pid or 0)), None)

    def _ask_for_blockers(self, moving: list[SimulatedActor]) -> None:
        self.blockers = self.monitor.blocking([actor.pid for actor in (*moving, *self._held) if actor.pid is not None])

    def _cycle(self) -> list[SimulatedActor]:
        """The held actors that wait for each other in a circle."""
        by_pid = {actor.pid: actor for actor in self._held}

        def follow(path: list[SimulatedActor]) -> list[SimulatedActor]:
            for blocker in [by_pid[pid] for pid in self.blockers.get(path[-1].pid or 0, []) if pid in by_pid]:
                if blocker in path:
                    return path[path.index(blocker) :]
                if found := follow([*path, blocker]):
                    return found
            return []

        return next((found for actor in self._held if (found := follow([actor]))), [])

    def _hold(self, actors: list[SimulatedActor]) -> None:
        for actor in actors:
            if actor.pid is not None:
                os.kill(actor.pid, signal.SIGSTOP)
                self._held.append(actor)

    def _release(self, actor: SimulatedActor) -> None:
        if actor in self._held:
            self._held.remove(actor)
            if actor.pid is not None:
                os.kill(actor.pid, signal.SIGCONT)

    def end(self, actors: list[SimulatedActor]) -> None:
        """End these threads, wherever they are, and their connections."""
        for actor in actors:
            actor.is_dead = True
        for actor in actors:
            if actor.pid is not None and (actor.state is State.BLOCKED or actor.in_transaction()):
                self.monitor.end_backend(actor.pid)
        self._held = [actor for actor in self._held if actor not in actors]
        for actor in actors:
            if actor.state is not State.ENDED:
                actor._go.release()
        for actor in actors:
            if actor.thread is not None:
                actor.thread.join(PATIENCE_SECONDS)
                if actor.thread.is_alive():
                    raise Stuck(f"{actor} does not end: {actor.state.value}, {actor.statement}")
            self._open_gate(actor)
        self.actors = [actor for actor in self.actors if actor not in actors]


_start_thread = threading.Thread.start


def start_thread(thread: threading.Thread) -> None:
    """Replaces `Thread.start`: a thread that an actor starts is an actor."""
    if (starter := actor_here()) is None:
        _start_thread(thread)
    else:
        starter.baton.adopt(thread, starter)
