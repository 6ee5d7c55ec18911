"""The invariants, checked after each step. Each rule is about rows and runs, not about the queue's statements."""

from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import timedelta

from jobs import conf
from jobs.handlers import Run
from jobs.states import FINISHED, UNFINISHED, AttemptOutcome, Status, WaitingFor
from proving.chaos.protocol import kinds, places
from proving.chaos.protocol.actor import State
from proving.chaos.protocol.books import WRITTEN_AS, Seen, is_rescue, lives, look, may_have_been_stopped
from proving.chaos.protocol.violation import Violation
from proving.chaos.protocol.worker import SimulatedWorker
from proving.chaos.protocol.world import World


@dataclass
class Beat:
    """A beat under way: its beginning (boot seconds), and the runs that it has to renew as far as it can."""

    began_at: float
    runs: list[Run]


class Invariants:
    """Checks a world after each step. Raises: Violation."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.before = look(world)
        self._runs: dict[int, dict[int, Run]] = {}
        self._stopped: set[int] = set()
        self._beats: dict[int, Beat] = {}
        self._beat_at: dict[int, float] = {}
        self._disturbed: set[int] = set()
        self._waiting: set[str] = set()
        self.edits: set[str] = set()
        self.was_stepped_back = False
        self.met: Counter[str] = Counter()

    def begins(self, actor_name: str) -> None:
        """Note the beginning of a beat if an idle heartbeat is about to be resumed. Call it before each resumption."""
        for worker in self.world.living():
            actor = worker.actor("heartbeat")
            boot, last = self.world.clocks.boot, self._beat_at.get(worker.number, float("-inf"))
            is_beat = boot - last >= conf.heartbeat_seconds()  # sooner, it retries what it could not renew
            if actor is not None and actor.name == actor_name and actor.state is State.IDLE and is_beat:
                self._beat_at[worker.number] = boot
                held = [run for run in worker.runs() if not run.ran_out and not run.is_stopped]
                if not self.world.baton.is_read_only:
                    self._beats[worker.number] = Beat(boot, held)
                self.met["beats beside an edit" if self.world.editing() else "beats"] += bool(held)

    def disturbed(self, worker: SimulatedWorker) -> None:
        """Excuse the worker's beat under way."""
        self._beats.pop(worker.number, None)
        self._disturbed.add(worker.number)

    def look(self) -> None:
        """Check every rule after the last step."""
        seen = self.before
        self._count(seen)
        if self.world.baton.has_news:
            self.world.baton.has_news = False
            seen = look(self.world)
        self._threads_live()
        self._attempts_are_exact(seen)
        self._ends_are_final(seen)
        self._bookings_are_exact(seen)
        self._caps_hold(seen)
        self._keys_hold(seen)
        self._triggers_are_exact(seen)
        self._cancels_count(seen)
        self._waits_last(seen)
        if kinds.early:
            raise kinds.early[0]
        for worker in self.world.living():
            self._no_living_run_is_taken(worker, seen)
            self._leases_last_as_long_as_believed(worker, seen)
            self._stops_have_a_reason(worker, seen)
            self._results_are_kept(worker, seen)
            self._beats_renew(worker, seen)
            self._main_waits_for_no_record(worker)
        self._one_owner()
        self.before = seen

    def _count(self, seen: Seen) -> None:
        """Count the situations that this seed has met, to show what a thousand seeds try."""
        waiting = {
            actor.name for actor in self.world.baton.actors if actor.state is State.BLOCKED and not actor.lingers
        }
        self.met["lock waits"] += len(waiting - self._waiting)
        self._waiting = waiting

    def look_at_the_end(self) -> None:
        """Check at rest that each record that runs by the database is known to a worker, and runs there."""
        seen = look(self.world)
        self.met.update(AttemptOutcome(each.outcome).label for each in seen.attempts.values())
        self.met["stopped runs"] += len(self._stopped)
        owners = {worker.id: worker for worker in self.world.living()}
        for row in seen.records.values():
            owner = owners.get(row.leased_by or 0)
            if row.status == Status.RUNNING and owner is not None:
                if not any(seen.holds(run) for run in owner.runs() if run.record.id == row.id):
                    raise Violation(
                        "a claim is forgotten", f"{row.subject} runs at w{owner.number}, which does not know"
                    )
                if row.token and (outcome := places.outcomes.get((row.id, row.token))):
                    raise Violation("a result is not written", f"{outcome} of {row.subject} at w{owner.number}")
            waits = row.waiting_for == WaitingFor.THROTTLE and row.run_after > self.world.clocks.database()
            if waits and not seen.is_a_key_taken() and not self.edits & {"hold", "replan", "follow"}:
                raise Violation("a gate stays shut", f"{row.subject} waits for a key that is free")

    def _threads_live(self) -> None:
        for actor in self.world.baton.actors:
            if actor.state is State.ENDED and not actor.is_dead:
                error = f"{type(actor.error).__name__}: {actor.error}".strip().splitlines()[0] if actor.error else ""
                raise Violation("a thread died", f"{actor} ended by {error or 'itself'}")

    def _attempts_are_exact(self, seen: Seen) -> None:
        numbers: dict[int, list[int]] = defaultdict(list)
        for record_id, number in seen.attempts:
            numbers[record_id].append(number)
        for row in seen.records.values():
            ended = row.attempt - (row.status == Status.RUNNING)
            if sorted(numbers[row.id]) != list(range(1, ended + 1)):
                raise Violation(
                    "attempts are miscounted",
                    f"{row.subject} is {Status(row.status).label} at attempt {row.attempt}, its history has "
                    f"{sorted(numbers[row.id])}",
                )

    def _ends_are_final(self, seen: Seen) -> None:
        for row in seen.records.values():
            last = seen.attempts.get((row.id, row.attempt))
            if (row.status == Status.SUCCEEDED) != (last is not None and last.outcome == AttemptOutcome.SUCCEEDED):
                ended = AttemptOutcome(last.outcome).label if last else "running or none"
                raise Violation(
                    "an end is wrong", f"{row.subject} is {Status(row.status).label}, last attempt: {ended}"
                )
            earlier = self.before.records.get(row.id)
            if earlier is not None and earlier.status in FINISHED and row[:7] != earlier[:7]:
                raise Violation("an end is undone", f"{row.subject} was {Status(earlier.status).label}")
            if earlier is not None and row.attempt < earlier.attempt:
                raise Violation("a fencing token fell", f"{row.subject}: {earlier.attempt} → {row.attempt}")
        if gone := self.before.records.keys() - seen.records.keys():
            raise Violation("a record is gone", f"records {sorted(gone)}")

    def _bookings_are_exact(self, seen: Seen) -> None:
        booked = {
            key
            for key, each in seen.attempts.items()
            if each.outcome == AttemptOutcome.SUCCEEDED and seen.records[each.record_id].kind == "booked"
        }
        if sorted(seen.bookings) != sorted(booked):
            raise Violation("a hook ran without its settle", f"bookings {seen.bookings}, successes {sorted(booked)}")

    def _caps_hold(self, seen: Seen) -> None:
        running = sum(row.status == Status.RUNNING and row.lane > 0 for row in seen.records.values())
        if running > self.world.cap:
            raise Violation("a cap is exceeded", f"{running} in flight of {self.world.cap}")

    def _keys_hold(self, seen: Seen) -> None:
        under = [row for row in seen.records.values() if row.status in (Status.READY, Status.RUNNING)]
        for key, count in Counter(row.exclusive_key for row in under if row.exclusive_key).items():
            if count > 1:
                raise Violation("a key has two records", f"{count} are ready or running under {key}")

    def _triggers_are_exact(self, seen: Seen) -> None:
        unfinished = Counter((row.kind, row.subject) for row in seen.records.values() if row.status in UNFINISHED)
        if twice := [subject for (_, subject), count in unfinished.items() if count > 1]:
            raise Violation("a subject is on the backlog twice", ", ".join(twice))
        for trigger in seen.triggers:
            if trigger.trigger_at >= trigger.watermark and not self.was_stepped_back:
                raise Violation(
                    "a watermark stands", f"at {trigger.watermark:%H:%M}, {trigger.trigger_at:%H:%M} is written"
                )
            if trigger.records != trigger.events or (trigger.is_emitted and trigger.events != trigger.wanted):
                text = f"{trigger.records} of {trigger.wanted} records at {trigger.trigger_at:%H:%M}: {trigger.events}"
                raise Violation("a batch is miscounted", text)

    def _cancels_count(self, seen: Seen) -> None:
        for row in seen.records.values():
            if row.is_cancelled and row.status not in (Status.RUNNING, Status.SUCCEEDED, Status.CANCELLED):
                raise Violation("a cancel is forgotten", f"{row.subject} is {Status(row.status).label}")

    def _waits_last(self, seen: Seen) -> None:
        now = self.world.clocks.database()
        for row in seen.records.values():
            before = self.before.records.get(row.id)
            if before is None or self.was_stepped_back or before.status != Status.WAITING:
                continue
            if row.status == Status.READY and row.run_after > now:
                raise Violation("a wait is cut short", f"{row.subject} was to wait until {row.run_after:%H:%M:%S}")

    def _main_waits_for_no_record(self, worker: SimulatedWorker) -> None:
        """Check that claims and ticks skip rows that an edit holds. A worker that was cut off looks for its claims, and
        may wait."""
        main, baton = worker.actor("main"), self.world.baton
        if main is None or main.state is not State.BLOCKED or main.lingers or worker.number in self._disturbed:
            return
        blockers = set(baton.blockers.get(main.pid or 0, ()))
        if blockers and blockers <= {editor.pid for editor in self.world.editing()}:
            raise Violation("a claim waits for a record", f"{main}: {main.statement[:60]}")

    def _no_living_run_is_taken(self, worker: SimulatedWorker, seen: Seen) -> None:
        for run in worker.runs():
            key = (run.record.id, run.record.attempt)
            attempt = seen.attempts.get(key)
            if attempt is None or key in self.before.attempts or attempt.worker_id != worker.id:
                continue
            if is_rescue(attempt) and lives(worker, run, self.world.clocks.boot):
                raise Violation(
                    "a living run is rescued",
                    f"{run.record.subject} runs at w{worker.number}, which renewed it "
                    f"{self.world.clocks.boot - run.renewed_at:.0f} s ago",
                )

    def _leases_last_as_long_as_believed(self, worker: SimulatedWorker, seen: Seen) -> None:
        """Check the lease that a worker believes in: with a wrong belief it runs on next to the next owner."""
        clocks = self.world.clocks
        if clocks.stepped or self.was_stepped_back:
            return
        for run in worker.runs():
            expires_at = seen.records[run.record.id].lease_expires_at
            believed = clocks.database_at(run.renewed_at) + timedelta(seconds=conf.lease_seconds())
            if seen.holds(run) and expires_at is not None and expires_at < believed:
                text = f"{run.record.subject} at w{worker.number}: until {expires_at:%H:%M:%S}, not {believed:%H:%M:%S}"
                raise Violation("a lease is shorter than its worker believes", text)

    def _stops_have_a_reason(self, worker: SimulatedWorker, seen: Seen) -> None:
        for run in worker.runs():
            if not run.is_stopped or id(run) in self._stopped:
                continue
            self._stopped.add(id(run))
            row = seen.records.get(run.record.id)
            if may_have_been_stopped(worker, run, self.world.clocks.boot) or (row is not None and row.is_cancelled):
                continue
            if seen.holds(run):
                raise Violation(
                    "a run is stopped whose lease held",
                    f"{run.record.subject} at w{worker.number}, which renewed it "
                    f"{self.world.clocks.boot - run.renewed_at:.0f} s ago",
                )

    def _results_are_kept(self, worker: SimulatedWorker, seen: Seen) -> None:
        held = {id(run): run for run in worker.runs()}
        for key, run in self._runs.get(worker.number, {}).items():
            if key in held or self.world.clocks.boot - run.renewed_at > conf.deadline_seconds() or run.is_stopped:
                continue
            record = run.record
            attempt = seen.attempts.get((record.id, record.attempt))
            outcome = places.outcomes.get((record.id, record.lease_token))
            if attempt is None or is_rescue(attempt):
                raise Violation("a result is lost", f"{outcome} of {record.subject}, attempt {record.attempt}")
            expected = WRITTEN_AS.get(type(outcome), attempt.outcome)
            is_cancel = attempt.outcome == AttemptOutcome.CANCELLED and seen.records[record.id].is_cancelled
            if attempt.outcome != expected and not is_cancel:
                reported = AttemptOutcome(attempt.outcome).label
                raise Violation("a result is changed", f"{outcome} of {record.subject} was written as {reported}")
        self._runs[worker.number] = held

    def _beats_renew(self, worker: SimulatedWorker, seen: Seen) -> None:
        beat, actor = self._beats.get(worker.number), worker.actor("heartbeat")
        if beat is None or actor is None:
            return
        held = {id(run) for run in worker.runs()}
        beat.runs = [
            run
            for run in beat.runs
            if id(run) in held
            and (run.record.id, run.record.lease_token) not in places.outcomes
            and seen.holds(run)
            and not run.is_stopped
        ]
        late = [run for run in beat.runs if run.renewed_at < beat.began_at]
        if late:
            free = self.world.monitor.free([run.record.id for run in late])
            beat.runs = [run for run in beat.runs if run not in late or run.record.id in free]
            late = [run for run in late if run in beat.runs]
        if actor.state is not State.IDLE:
            return
        del self._beats[worker.number]
        if late:
            names = ", ".join(run.record.subject for run in late)
            text = f"w{worker.number} did not renew {names}, which no other transaction held locked"
            raise Violation("a beat leaves out a run", text)

    def _one_owner(self) -> None:
        owners: dict[int, str] = {}
        for worker in self.world.living():
            for run in worker.busy():
                if not lives(worker, run, self.world.clocks.boot):
                    continue
                if other := owners.get(run.record.id):
                    raise Violation(
                        "a record has two owners", f"{run.record.subject} runs at {other} and w{worker.number}"
                    )
                owners[run.record.id] = f"w{worker.number}"
