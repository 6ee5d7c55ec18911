"""One worker process: its real main loop, heartbeat, settler and guard, as actors."""

from jobs import conf
from jobs.handlers import Run
from jobs.worker.process import WorkerProcess
from jobs.worker.units import Units
from proving.chaos.protocol import places
from proving.chaos.protocol.actor import SimulatedActor, State
from proving.chaos.protocol.baton import Baton

MOST_ROUND_TRIPS = 200


class SimulatedWorker:
    """Worker `number` of a seed; a worker that replaces a killed one has a new number."""

    def __init__(self, baton: Baton, number: int) -> None:
        self.baton, self.number = baton, number
        self.is_paused = self.is_dead = False
        self.process = WorkerProcess(list(conf.queue_rules().values()))
        self.main = baton.start(f"w{number}.main", number, self.process.run)

    def begin(self) -> None:
        """Register and look once, without choices in between."""
        self.run_through(self.main)
        for actor in self.actors():
            if actor is not self.main:
                self.run_through(actor)

    def run_through(self, actor: SimulatedActor) -> None:
        """Resume it until it has nothing to do, waits for a lock, or has ended."""
        for _ in range(MOST_ROUND_TRIPS):
            self.baton.resume(actor)
            if actor.error is not None:
                raise actor.error
            if actor.state not in (State.PARKED, State.BACK):
                return

    def actors(self) -> list[SimulatedActor]:
        return [actor for actor in self.baton.actors if actor.worker == self.number]

    def actor(self, name: str) -> SimulatedActor | None:
        return next((actor for actor in self.actors() if actor.name == f"w{self.number}.{name}"), None)

    @property
    def units(self) -> Units | None:
        return getattr(self.process, "units", None)

    @property
    def id(self) -> int:
        """The id of its row, or 0 before there is one."""
        row = getattr(self.process, "row", None)
        return row.pk if row is not None else 0

    def runs(self) -> list[Run]:
        """Its runs, sorted by record id."""
        return sorted(self.units.runs(), key=lambda run: run.record.id) if self.units else []

    def busy(self) -> list[Run]:
        return [run for run in self.runs() if places.holding(run)]

    def guard(self) -> None:
        """Let its guard look at the deadlines, unless the whole worker is paused."""
        actor = self.actor("guard")
        if actor is not None and actor.state is State.IDLE and not self.is_paused:
            self.baton.resume(actor)
