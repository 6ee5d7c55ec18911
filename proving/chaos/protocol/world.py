"""The rows and the actors with which a seed begins, drawn from it."""

from dataclasses import dataclass, field
from datetime import timedelta
from random import Random

from jobs import conf, wakeups
from jobs.models import BacklogRecord, Lane, RetryPolicy, Throttle
from jobs.states import Status
from proving.chaos.protocol import kinds, places, scenes
from proving.chaos.protocol.actor import SimulatedActor
from proving.chaos.protocol.baton import Baton
from proving.chaos.protocol.clocks import Clocks
from proving.chaos.protocol.editor import Desk
from proving.chaos.protocol.monitor import Monitor
from proving.chaos.protocol.scenes import Scene
from proving.chaos.protocol.worker import SimulatedWorker
from schedules.models import Schedule

EMPTIED = (
    "jobs_attempt", "jobs_backlogrecord", "schedules_trigger", "schedules_schedule", "jobs_origin",
    "jobs_retrypolicy", "jobs_lane", "jobs_throttle", "jobs_worker", "jobs_decision", "sim.booking",
)  # fmt: skip
NUMBERED = (
    "jobs_backlogrecord",
    "schedules_trigger",
    "jobs_origin",
    "jobs_lane",
    "jobs_throttle",
    "jobs_worker",
)
TRUNCATE_EVERY = 40
"""Seeds between two. Autovacuum is off, since a seed could not choose its locks, so deleted rows pile up."""

EVENTS = 3


@dataclass
class World:
    """The rows and actors of a seed. `events`: its schedule emits."""

    scene: Scene
    baton: Baton
    clocks: Clocks
    monitor: Monitor
    workers: list[SimulatedWorker] = field(default_factory=list)
    desks: dict[str, Desk] = field(default_factory=dict)
    cap: int = 0
    events: bool = False
    kills: int = 0
    schedule_id: int = 0

    def editors(self) -> list[SimulatedActor]:
        return [actor for actor in self.baton.actors if actor.name in self.desks and actor.name != "ticker"]

    def editing(self) -> list[SimulatedActor]:
        """The editors that are in a transaction."""
        return [actor for actor in self.editors() if actor.in_transaction()]

    def living(self) -> list[SimulatedWorker]:
        return [worker for worker in self.workers if not worker.is_dead]

    def hire(self) -> None:
        """Start one more worker."""
        worker = SimulatedWorker(self.baton, len(self.workers) + 1)
        self.workers.append(worker)
        worker.begin()

    def advance(self, seconds: float) -> None:
        """Let time pass, and let server and guard act on it."""
        self.clocks.advance(seconds)
        self.baton.time_out()
        for worker in self.living():
            worker.guard()

    def end(self) -> None:
        self.baton.end(list(self.baton.actors))


_seeds = 0


def empty(monitor: Monitor) -> None:
    """Delete the rows of the seed before, and let ids begin again at 1."""
    global _seeds
    _seeds += 1
    if _seeds % TRUNCATE_EVERY == 1:
        monitor.execute(f"TRUNCATE {', '.join(EMPTIED)} CASCADE")
        monitor.execute("VACUUM sim.clock")
    else:
        monitor.execute("; ".join(f"DELETE FROM {name}" for name in EMPTIED))
    monitor.execute("SELECT " + ", ".join(f"setval('{name}_id_seq', 1, false)" for name in NUMBERED))


def make(seed: int, rng: Random, monitor: Monitor, clocks: Clocks) -> World:
    """Fill an empty database, and start two workers, an editor or two, and a ticker."""
    empty(monitor)
    places.forget()
    kinds.early.clear()
    clocks.reset()
    wakeups.heard_here = None
    world = World(scenes.draw(seed, rng), Baton(clocks, monitor), clocks, monitor)
    for _ in range(2):
        world.hire()
    clocks.advance(conf.lease_seconds())  # the server has run for a lease
    _fill(rng, world)
    for name in ("ticker", *(f"editor-{number}" for number in range(world.scene.editors))):
        world.desks[name] = Desk()
        actor = world.baton.start(name, 0, world.desks[name].run)
        world.baton.settle()
        world.baton.resume(actor)
    if world.scene.claimed:
        clocks.advance(2)
        for worker in world.workers:
            worker.run_through(worker.main)
    return world


def _fill(rng: Random, world: World) -> None:
    """Add some records of one, two or all kinds, so that each kind of trouble has seeds without the others."""
    policies = RetryPolicy.objects.bulk_create(
        RetryPolicy(name=f"p{number}", algorithm="fibonacci") for number in (1, 2)
    )
    now = world.clocks.database()
    world.events = "events" in world.scene.kinds
    schedule = Schedule.objects.create(
        name="s", cron="0 0 1 1 *" if not world.events else "* * * * *", kind="plain", event_count=EVENTS,
        retry_policy=policies[0], next_trigger_at=now + timedelta(days=300 if not world.events else 0),
    )  # fmt: skip
    world.schedule_id = schedule.pk
    records = []
    for kind in ("plain", "booked", "relay", "capped"):
        if kind not in world.scene.kinds:
            continue
        lane = 0
        if kind == "capped":
            world.cap = rng.choice((1, 2))
            throttle = Throttle.objects.create(name="t", max_in_flight=world.cap)
            lane = Lane.objects.create(throttle_ids=[throttle.pk]).pk
        for number in range(rng.choice((3, 5, 7))):
            queue = "ask" if kind == "relay" else "work"
            record = BacklogRecord(kind=kind, queue=queue, subject=f"{kind}:{number}", run_after=now, lane=lane)
            record.status, record.origin, record.retry_policy = Status.READY, schedule, policies[0]
            records.append(record)
    rng.shuffle(records)
    BacklogRecord.objects.bulk_create(records)
