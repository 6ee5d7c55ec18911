"""The possible next choices in a world, each with its weight, and their execution. A choice is a readable line."""

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from random import Random

from jobs.handlers import Run
from jobs.states import FINISHED, Status
from proving.chaos.protocol import editor, kinds, places
from proving.chaos.protocol.actor import ResumeOrder, SimulatedActor, State
from proving.chaos.protocol.invariants import Invariants
from proving.chaos.protocol.worker import SimulatedWorker
from proving.chaos.protocol.world import World

MOST_KILLS = 2
ADVANCES = {"1": 3.0, "6": 2.0, "11": 2.0, "16": 1.0, "25": 0.5}
CLOCKS = ("clock_timestamp", "jobs_claim_beside_throttles")
"""Functions whose statements may linger: at their first, second … reading of a clock or a bucket."""
READINGS = (1, 2, 3, 4)
STEP_SECONDS = 150.1
"""A step of the database's clock. It is not a sum of other waits, so two instants are equal only by chance."""

Choice = tuple[str, float]


class Choices:
    """The choices of one seed, as eager as its scene says."""

    def __init__(self, world: World, audit: Invariants, rng: Random) -> None:
        self.world, self.audit = world, audit
        self.steps: list[str] = []
        self._eager = Counter(world.scene.eager)
        self._beats = rng.choice((0.7, 2, 4))

    def enabled(self) -> list[Choice]:
        """All choices that are possible now."""
        found = [*self._turns(), *self._endings(), *self._edits(), *self._faults()]
        return [choice for choice in found if choice[1] > 0]

    def do(self, line: str) -> bool:
        """Execute a choice. Returns False, and does nothing, if it is not possible now, since a choice that led to it
        was left out."""
        if line not in {name for name, _ in self.enabled_at_all()}:
            return False
        first, *rest = line.split()
        self.steps.append(f"{line:30} {self._statement_of(rest[0] if rest else first)}".rstrip())
        work: Callable[[str, list[str]], None] = getattr(self, f"_do_{first.replace('-', '_')}", self._do_turn)
        work(first, rest)
        self.world.baton.settle()
        self.audit.look()
        return True

    def _statement_of(self, name: str) -> str:
        """The next action of the thread of that name, as text."""
        actor = next((actor for actor in self.world.baton.actors if actor.name == name), None)
        if actor is None or actor.state is State.IDLE:
            return ""
        return f"{actor.statement[:70]}{'' if actor.state is State.PARKED else f' ({actor.state.value})'}"

    def enabled_at_all(self) -> list[Choice]:
        """All possible choices, including those that this seed would not have drawn."""
        return [*self._turns(), *self._endings(), *self._edits(), *self._faults()]

    def _paused(self, actor: SimulatedActor) -> bool:
        return any(worker.number == actor.worker and worker.is_paused for worker in self.world.workers)

    def _turns(self) -> list[Choice]:
        found = []
        is_held = bool(self.world.editing())
        for actor in self.world.baton.actors:
            if self._paused(actor):
                continue
            if actor.state in (State.PARKED, State.BACK):
                found.append((actor.name, 8.0 if actor.worker else self.world.scene.desk))
            elif actor.state is State.BLOCKED and actor.lingers:
                found.append((actor.name, 4.0))
            elif actor.state is State.IDLE and not actor.name.endswith("guard"):
                if actor.is_ready():
                    found.append((actor.name, 6.0))
                elif actor.until is not None:
                    found.append((actor.name, self._haste(actor, is_held=is_held)))
        return found

    def _haste(self, actor: SimulatedActor, *, is_held: bool) -> float:
        """The weight of an actor that waits for its timer. Beats are rarely late, and most useful during an edit."""
        if not actor.name.endswith("heartbeat"):
            return self.world.scene.idle
        if not any(worker.busy() for worker in self.world.living() if worker.number == actor.worker):
            return 0.3
        is_late = actor.until is not None and actor.until <= self.world.clocks.boot
        return 12.0 if is_late else 6.0 if is_held else self._beats

    def _idle_editor(self) -> SimulatedActor | None:
        return next((actor for actor in self.world.editors() if actor.state is State.IDLE), None)

    def _endings(self) -> list[Choice]:
        living = [worker for worker in self.world.living() if not worker.is_paused]
        busy = [(worker, run) for worker in living for run in worker.busy()]
        return [
            (f"end w{worker.number} {run.record.subject} {how}", self.world.scene.endings * weight / len(busy))
            for worker, run in busy
            for how, weight in kinds.endings(run.record)
        ] + [(f"end-all w{worker.number}", self.world.scene.endings) for worker in living if len(worker.busy()) > 1]

    def _edits(self) -> list[Choice]:
        found: list[Choice] = []
        if self._idle_editor():
            found += [("edit replan", 8 * self._eager["replan"]), ("edit follow", 4 * self._eager["follow"])]
            for row in self.audit.before.records.values():
                if row.status not in FINISHED:
                    weight = 4.0 if row.status == Status.RUNNING else 0.3
                    found += [(f"edit {what} {row.subject}", weight * self._eager[what]) for what in ("hold", "stop")]
        if self._actor("ticker").state is State.IDLE:
            found.append(("edit tick", self._eager["tick"]))
        return found

    def _faults(self) -> list[Choice]:
        eager, living = self._eager, self.world.living()
        found = [(f"advance {seconds}", weight * eager["advance"]) for seconds, weight in ADVANCES.items()]
        if any(
            actor.worker and actor.state is State.BLOCKED and not actor.lingers for actor in self.world.baton.actors
        ):
            found.append(("advance 11", 2.0))
        found.append(("minute passes", (3.0 if self.world.kills else 0.6) * eager["minute"]))
        found += [(f"step {seconds}", weight * eager["step"]) for seconds, weight in self._steps().items()]
        found.append(("write-again" if self.world.baton.is_read_only else "read-only", 0.4 * eager["read-only"]))
        for worker in living:
            if self.world.kills < MOST_KILLS and not self.world.baton.is_read_only:
                found.append((f"kill w{worker.number}", 0.2 * eager["kill"]))
            found.append((f"{'wake' if worker.is_paused else 'pause'} w{worker.number}", 0.3 * eager["pause"]))
        for actor in self.world.baton.actors:
            if self._paused(actor) or actor.state is not State.PARKED:
                continue
            if any(clock in actor.statement for clock in CLOCKS):
                found += [(f"linger {actor.name} {reading}", 0.5 * eager["linger"]) for reading in READINGS]
            if actor.worker:
                found += [(f"{what} {actor.name}", 0.5 * eager[what]) for what in ("cut", "lose")]
        return found

    def _steps(self) -> dict[str, float]:
        """Choices that set a clock forward or back, and soon correct it, perhaps between two looks of a worker."""
        if not self.world.clocks.stepped:
            return {f"+{STEP_SECONDS}": 0.2, f"-{STEP_SECONDS}": 0.4}
        return {f"{'-' if self.world.clocks.stepped > 0 else '+'}{STEP_SECONDS}": 1.0}

    def _actor(self, name: str) -> SimulatedActor:
        return next(actor for actor in self.world.baton.actors if actor.name == name)

    def _worker(self, name: str) -> SimulatedWorker:
        return next(each for each in self.world.living() if f"w{each.number}" == name)

    def _disturbed(self, actor: SimulatedActor) -> None:
        for worker in self.world.living():
            if worker.number == actor.worker:
                self.audit.disturbed(worker)

    def _do_turn(self, name: str, _rest: list[str]) -> None:
        actor = self._actor(name)
        if actor.state is State.IDLE and not actor.is_ready() and actor.until is not None:
            self.world.advance(max(0.0, actor.until - self.world.clocks.boot))
        if actor.lingers:
            self.world.baton.go_on(actor)
        elif actor.state in (State.IDLE, State.PARKED, State.BACK):
            self.audit.begins(name)
            self.world.baton.resume(actor)

    def _do_linger(self, _: str, rest: list[str]) -> None:
        self.world.baton.linger(self._actor(rest[0]), int(rest[1]))

    def _do_lose(self, _: str, rest: list[str]) -> None:
        actor = self._actor(rest[0])
        self._disturbed(actor)
        self.world.baton.resume(actor, ResumeOrder.LOSE)

    def _do_cut(self, _: str, rest: list[str]) -> None:
        actor = self._actor(rest[0])
        self._disturbed(actor)
        if actor.pid is not None:
            self.world.monitor.end_backend(actor.pid)
        self.world.baton.resume(actor)

    def _do_kill(self, _: str, rest: list[str]) -> None:
        worker = self._worker(rest[0])
        worker.is_dead = True
        self.world.kills += 1
        self.world.baton.end(worker.actors())
        self.world.baton.settle()
        self.world.hire()

    def _do_pause(self, _: str, rest: list[str]) -> None:
        worker = self._worker(rest[0])
        worker.is_paused = True
        self.audit.disturbed(worker)

    def _do_wake(self, _: str, rest: list[str]) -> None:
        worker = self._worker(rest[0])
        worker.is_paused = False
        worker.guard()

    def _do_end(self, _: str, rest: list[str]) -> None:
        run = next(run for run in self._worker(rest[0]).busy() if run.record.subject == rest[1])
        self._finish(run, rest[2])

    def _do_end_all(self, _: str, rest: list[str]) -> None:
        for run in self._worker(rest[0]).busy():
            self._finish(run, kinds.endings(run.record)[0][0])

    def _finish(self, run: Run, how: str) -> None:
        if (place := places.holding(run)) is not None:
            place.finish(run, kinds.OUTCOMES[how])

    def _do_advance(self, _: str, rest: list[str]) -> None:
        self.world.advance(float(rest[0]))

    def _do_minute(self, _: str, _rest: list[str]) -> None:
        """Let a minute pass in which every worker that can obeys its timers; dead workers' records are rescued after
        it."""
        for _second in range(7):
            self.world.advance(9)
            for actor in list(self.world.baton.actors):
                if actor.name.endswith(("main", "heartbeat")) and actor.state is State.IDLE and not self._paused(actor):
                    self._do_whole_turn(actor)

    def _do_whole_turn(self, actor: SimulatedActor) -> None:
        self._do_turn(actor.name, [])
        while actor.state is State.PARKED:
            self.audit.look()
            self._do_turn(actor.name, [])

    def _do_step(self, _: str, rest: list[str]) -> None:
        seconds = float(rest[0])
        if seconds < 0:
            self.audit.was_stepped_back = True
            for actor in self.world.baton.actors:
                if actor.waited_until is not None:
                    actor.waited_until += timedelta(seconds=seconds)
        self.world.clocks.step(seconds)

    def _do_read_only(self, _: str, _rest: list[str]) -> None:
        self.world.baton.is_read_only = True
        for worker in self.world.living():
            self.audit.disturbed(worker)

    def _do_write_again(self, _: str, _rest: list[str]) -> None:
        self.world.baton.is_read_only = False

    def _do_edit(self, _: str, rest: list[str]) -> None:
        what, *of = rest
        self.audit.edits.add(what)
        ids = [row.id for row in self.audit.before.records.values() if of and row.subject == of[0]]
        jobs: dict[str, Callable[[], object]] = {
            "replan": editor.replan,
            "follow": lambda: editor.follow(self.world.schedule_id),
            "hold": lambda: editor.hold(ids[0]),
            "stop": lambda: editor.stop(ids[0]),
            "tick": editor.tick,
        }
        actor = self._actor("ticker") if what == "tick" else self._idle_editor()
        assert actor is not None  # noqa: S101 - else it would not be enabled
        self.world.desks[actor.name].jobs.put(jobs[what])
        self.world.baton.resume(actor)
        if what in ("hold", "replan") and actor.state is State.PARKED:  # interesting only once it holds its locks
            self.world.baton.resume(actor)
