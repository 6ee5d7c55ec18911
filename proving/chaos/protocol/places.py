"""Places in which handlers run until a choice ends them with an outcome."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from jobs import conf
from jobs.clock import boot_seconds
from jobs.handlers import Run
from jobs.outcomes import Outcome
from jobs.worker import units
from jobs.worker.handler_places import NOT_BEGUN, Done, ended, may_begin

_all: "list[SimulatedPlaces]" = []
outcomes: dict[tuple[int, UUID], Outcome] = {}
"""The outcomes of this seed's handlers, by record id and lease token."""


def forget() -> None:
    """Begin a new seed."""
    _all.clear()
    outcomes.clear()


def holding(run: Run) -> "SimulatedPlaces | None":
    """The places that have the busy handler of `run`, or None."""
    return next((each for each in _all if run in each.busy()), None)


class SimulatedPlaces:
    """Replaces `UnitThreads`: a run begins at once if a place is free."""

    def __init__(self, _queue: object, concurrency: int, done: Done, _after: Callable[[], None] | None = None) -> None:
        self._concurrency, self._done = concurrency, done
        self._waiting: list[Run] = []
        self._busy: list[Run] = []
        self._count = 0
        _all.append(self)

    def put(self, runs: list[Run]) -> None:
        self._waiting += runs
        self._fill()

    def _fill(self) -> None:
        while self._waiting and len(self._busy) < self._concurrency:
            run = self._waiting.pop(0)
            run.began_at = boot_seconds()
            self._busy.append(run)
            if not may_begin(run, run.began_at, conf.deadline_seconds()):
                self.finish(run, NOT_BEGUN)

    def finish(self, run: Run, outcome: Outcome) -> None:
        """Let the handler of `run` return `outcome`."""
        self._busy.remove(run)
        self._count += 1
        outcomes[run.record.id, run.record.lease_token] = outcome = ended(run, outcome)
        self._fill()
        self._done(run, outcome)

    def take_back(self) -> list[Run]:
        taken, self._waiting = self._waiting, []
        return taken

    def in_hand(self) -> int:
        return len(self._waiting) + len(self._busy)

    def waiting(self) -> int:
        return len(self._waiting)

    def busy(self) -> list[Run]:
        return list(self._busy)

    def spent(self) -> tuple[float, int]:
        return float(self._count), self._count

    def stop(self, run: Run) -> None:
        run.stop.set()

    def close(self) -> None:
        self._waiting.clear()


class NoLoop:
    """Replaces the event loop: no handler of the simulation is async."""

    loop = None

    def unanswered(self) -> int:
        """The seconds without an answer, always none."""
        return 0

    def close(self) -> None:
        """Do nothing, since nothing runs."""


def install() -> None:
    names: Any = units
    names.UnitThreads = SimulatedPlaces
    names.UnitTasks = lambda _loop, concurrency, done, **_: SimulatedPlaces("", concurrency, done)
    names.EventLoop = NoLoop
