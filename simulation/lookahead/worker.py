"""A worker in virtual time: questions and copies are imagined, each ends as its machine behaves; all decisions about
them are the product's.

At each instant at which something happens, in this order: questions and copies that end are settled; the tick does its
due work; queues are claimed from as `jobs/worker/claimer.py` does, the feeding ones first. A copy that hands its record
back ends at the same instant, and is settled in a separate round.
"""

import heapq
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import count

from backups.copying import losses
from backups.copying.handler import ANSWER_HOLDS_FOR
from engines.base import EngineResult, Verdict
from jobs.outcomes import ClaimedRecord, Failed, Outcome, Succeeded, Unavailable
from jobs.worker.claimer import PATIENCE_SECONDS, Shortage, to_ask
from operations.backlog.ends import RunProgress
from simulation.lookahead.world import PLACES, BacklogWorld
from simulation.machines import SimulatedRun
from simulation.reported_progress import reported
from simulation.results import Ledger
from sources.availability import check, giving_way, wake
from sources.models import Assignment, order_parts
from sources.planning.names import ARRIVALS, AVAILABILITY, BACKUPS, subject_of

ANSWER = timedelta(seconds=0.05)
"""The time that a source which is there takes to answer."""
PATIENCE = timedelta(seconds=PATIENCE_SECONDS)
DONE = Succeeded(EngineResult(Verdict.SUCCEEDED))

Progress = Callable[[float], None]
"""A function that gets the share of the time that has passed, 0 to 1."""


class VirtualWorker:
    """One worker with all units of the fleet. Its actions go into the ledger."""

    def __init__(self, ledger: Ledger, world: BacklogWorld) -> None:
        self._ledger, self._world = ledger, world
        self._done: dict[int, float] = {}
        """Machine → the share of the work that is done, for first backups that were cut."""
        self._start = self.now = ledger.fleet.start
        self._ends: list[tuple[datetime, int, ClaimedRecord, SimulatedRun | bool]] = []
        """The ends to come, each with a run; or with True if the source has answered; or with False if it has not, or
        too long ago for a run.
        """
        self._numbers = count()
        self._number = {subject_of(machine.number): machine.number for machine in ledger.machines}
        timeouts = {policy.name: policy.connect_timeout for policy in ledger.fleet.policies}
        self._patience = {machine.number: timeouts[machine.source.policy] for machine in ledger.machines}
        self._look_at: datetime | None = None
        self._asked: Counter[str] = Counter()
        """Questions under way, by queue."""
        self._begun: dict[str, list[tuple[datetime, int]]] = {ARRIVALS: [], AVAILABILITY: []}
        self._under_way: set[int] = set()
        self._busy = 0
        """Units with a copy, and units that rest after one."""
        self._rests: list[datetime] = []
        """The ends of their rests."""
        self._first_rests = 0
        self.trace: list[tuple[float, int, str, int]] = []
        """Each claim: when, of which source, in which queue, its attempt."""

    def run(self, progress: Progress = lambda share: None) -> None:
        until = self._start + timedelta(days=self._ledger.days)
        whole = (until - self._start).total_seconds()
        self._world.begin(self._start)
        self._claim()
        while (at := self._next()) is not None and at < until:
            self.now = max(self.now, at)
            while self._rests and self._rests[0] <= self.now:
                heapq.heappop(self._rests)
                self._busy -= 1
            self._end_what_ends()
            self._world.tick(self.now)
            self._claim()
            progress(self._seconds / whole)
        self._ledger.runs += [run for *_, run in self._ends if isinstance(run, SimulatedRun)]

    def progress(self, spread: float) -> dict[int, RunProgress]:
        """Record that is being copied → its progress, if it reports any. `spread`: as in `reported_progress.py`."""
        found = {}
        for _, _, record, run in self._ends:
            if isinstance(run, SimulatedRun):
                machine = self._ledger.machines[run.number - 1]
                done = self._done.get(run.number, 0.0) if run.first else 0.0
                seed = self._ledger.fleet.seed
                found[record.id] = reported(run, machine, self._seconds, done=done, spread=spread, seed=seed)
        return {record: progress for record, progress in found.items() if progress is not None}

    @property
    def _seconds(self) -> float:
        return (self.now - self._start).total_seconds()

    def _next(self) -> datetime | None:
        ends, rests = self._ends[0][0] if self._ends else None, self._rests[0] if self._rests else None
        comes = (self._world.next_at(), self._look_at, ends, rests)
        return min((each for each in comes if each is not None), default=None)

    def _end_what_ends(self) -> None:
        ended: list[tuple[ClaimedRecord, SimulatedRun | bool]] = []
        while self._ends and self._ends[0][0] <= self.now:
            _, _, record, run = heapq.heappop(self._ends)
            ended.append((record, run))
        if not ended:
            return
        found = self._world.assignments([self._number[record.subject] for record, _ in ended])
        results = [(record, self._outcome(record, run, found[self._number[record.subject]])) for record, run in ended]
        self._world.settle(results, self.now)

    def _outcome(self, record: ClaimedRecord, run: SimulatedRun | bool, assignment: Assignment) -> Outcome:
        return (self._copied if record.queue == BACKUPS else self._asked_it)(record, run, assignment)

    def _claim(self) -> None:
        self._look_at = None
        for queue in (ARRIVALS, AVAILABILITY):
            for record in self._worth_asking(queue):
                self._ask(record)
        free = self._ledger.fleet.units - self._busy
        if free and self._world.has_ready(BACKUPS):
            for record in self._world.claim(BACKUPS, free, self.now):
                self._copy(record)

    def _worth_asking(self, queue: str) -> list[ClaimedRecord]:
        room = PLACES - self._asked[queue]
        if room <= 0 or not self._world.has_ready(queue):
            return []
        short = self._shortage(queue)
        limit = min(room, to_ask(short, self._asked_lately(queue))) if short.missing > 0 else 0
        claimed = list(self._world.claim_woken(queue, min(room, short.woken), self.now)) if short.woken else []
        if limit > len(claimed):
            claimed += self._world.claim(queue, limit - len(claimed), self.now)
        if short.missing > 0 and len(claimed) >= limit:
            self._look_at = self.now + PATIENCE
        return claimed

    def _shortage(self, queue: str) -> Shortage:
        """The shortage of ready records. A unit that rests needs none, like one with a copy."""
        short = self._world.shortage(queue, self.now)
        return short._replace(missing=short.missing - len(self._rests))

    def _asked_lately(self, queue: str) -> int:
        begun = self._begun[queue] = [each for each in self._begun[queue] if each[0] > self.now - PATIENCE]
        return sum(record_id in self._under_way for _, record_id in begun)

    def _begin(self, record: ClaimedRecord, ends_at: datetime, run: SimulatedRun | bool) -> None:
        self.trace.append((self._seconds, self._number[record.subject], record.queue, record.attempt))
        heapq.heappush(self._ends, (ends_at, next(self._numbers), record, run))

    def _ask(self, record: ClaimedRecord) -> None:
        number = self._number[record.subject]
        answers = self._ledger.machines[number - 1].answers(self._seconds)
        self._asked[record.queue] += 1
        self._begun[record.queue].append((self.now, record.id))
        self._under_way.add(record.id)
        patience = self._patience[number]
        if record.queue == ARRIVALS:
            patience = min(patience, check.ARRIVAL_SECONDS)
        if answers:
            self._ledger.answered(number, self._seconds)
        self._begin(record, self.now + (ANSWER if answers else timedelta(seconds=patience)), answers)

    def _asked_it(self, record: ClaimedRecord, answered: SimulatedRun | bool, assignment: Assignment) -> Outcome:
        """The outcome of a question, as `sources.availability.check` ends it."""
        self._asked[record.queue] -= 1
        self._under_way.discard(record.id)
        machine = self._ledger.machines[self._number[record.subject] - 1]
        source, policy = assignment.source, assignment.policy
        if answered:
            if giving_way.may_give_way(record, source) and self._world.gives_way(record, self.now):
                return giving_way.put_off(assignment, self.now)
            return check.handed_on(assignment, "it answered")
        if record.queue == ARRIVALS and policy.connect_timeout > check.ARRIVAL_SECONDS:
            return check.asked_longer(assignment, "silent")
        if not source.mac_address:
            return Unavailable("silent", policy.recheck_after)
        if outcome := wake.without_a_packet(record, assignment, "silent", self.now):
            return outcome
        if self._shortage(AVAILABILITY).missing <= self._world.waking_up(source, self.now):
            return wake.not_foreseen(record, assignment, "silent")
        machine.wake(self._seconds)
        self._ledger.packets += 1
        self._world.note_packet(source, self.now)
        return wake.after_a_packet(policy, "silent")

    def _copy(self, record: ClaimedRecord) -> None:
        self._busy += 1
        number = self._number[record.subject]
        assignment = self._world.assignment(number)
        answered_at = assignment.last_contacted_at
        if answered_at is not None and self.now - answered_at > ANSWER_HOLDS_FOR:
            self._begin(record, self.now, False)
            return
        first = assignment.last_backup_at is None
        done = self._done.get(number, 0.0) if first else 0.0
        run = self._ledger.machines[number - 1].run(self._seconds, first=first, done=done)
        self._begin(record, self._start + timedelta(seconds=run.ends), run)

    def _copied(self, record: ClaimedRecord, run: SimulatedRun | bool, assignment: Assignment) -> Outcome:
        """The outcome of a copy, as `backups.copying.handler` ends it."""
        self._busy -= 1
        if not isinstance(run, SimulatedRun):
            return losses.asked_again(assignment, "it answered too long ago: ask it again")
        self._ledger.runs.append(run)
        if self._ledger.rest > 0:
            self._rest((run.ends - run.begins) * self._ledger.rest)
        if run.succeeded:
            return DONE
        if run.failed:
            return Failed("it failed half-way")
        if run.first and order_parts.in_force().resume:
            self._keep(run)
        return losses.counted(losses.lost(assignment.policy, "it left"), assignment)

    def _rest(self, seconds: float) -> None:
        """Let the unit of a copy that ended rest. The first rest is longer by half: all units begin without one, and
        where they rest for hours, the first copy would count too much."""
        self._busy += 1
        self._first_rests += 1
        longer = 1.5 if self._first_rests <= self._ledger.fleet.units else 1.0
        heapq.heappush(self._rests, self.now + timedelta(seconds=seconds * longer))

    def _keep(self, run: SimulatedRun) -> None:
        """Keep the share that a first backup has done when it is cut."""
        whole = self._ledger.machines[run.number - 1].takes(run.begins, first=True)
        self._done[run.number] = min(1.0, self._done.get(run.number, 0.0) + (run.ends - run.begins) / whole)
