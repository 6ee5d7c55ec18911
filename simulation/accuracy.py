"""The accuracy of the forecast, measured on simulated fleets: at some hours of the second week the queue is run forward
from the facts known then, and compared with the rest of the simulation.

`simulate FLEET.json --accuracy` prints it. The known facts are the presence of earlier days, as agents report it, and
when a source was last seen awake today.
"""

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

from fleet.foreseeing.habits import Habit, Past, Today
from fleet.foreseeing.intervals import ForecastGroup, Interval, error, group_of, interval
from fleet.foreseeing.presence import Stay
from fleet.foreseeing.runs import Contender, Runs, foresee
from jobs.states import Status, WaitingFor
from operations.backlog.ends import SPREAD
from operations.backlog.starts import QueueState, Runner, Waiter
from operations.backlog.throttling import Head
from simulation.fleet_file import SimulatedFleet
from simulation.lookahead.memory import MemoryWorld
from simulation.lookahead.records import MemoryRecord
from simulation.lookahead.worker import Progress, VirtualWorker
from simulation.lookahead.world import rows_of
from simulation.machines import DAY, SimulatedMachine, machines_of
from simulation.results import HOUR, Ledger
from sources.planning.names import BACKUPS

HOURS = (9, 11, 14)
FIRST_DAY, DAYS = 7, 12


@dataclass(frozen=True)
class Guess:
    """A forecast of one source at an instant. `starts`: in seconds from then, one for each run in which it started;
    `misses`: the share of the runs in which it is not protected; `in_turn`: the starts of a ready one if no other
    source is asked.
    """

    number: int
    at: float
    probability: float
    group: ForecastGroup
    runs: int
    starts: Sequence[float]
    misses: float = 0.0
    in_turn: Sequence[float] = ()

    @property
    def interval(self) -> Interval:
        """The estimate with its interval."""
        return interval(self.starts, self.group, in_turn=self.in_turn)

    def is_held(self, came: float) -> bool:
        """True if the interval holds the instant at which it came."""
        low, _, high = self.interval
        return low - 1.0 <= came <= high + 1.0


class Observer:
    """Foresees at each of the hours, while a worker runs. `spread`: as in `reported_progress.py`; None if running
    backups report no progress.
    """

    def __init__(
        self, fleet: SimulatedFleet, days: int = DAYS, first_day: int = FIRST_DAY, seed: int = 1,
        spread: float | None = SPREAD,
    ) -> None:  # fmt: skip
        self.fleet, self._spread = fleet, spread
        self.ledger = Ledger(fleet, machines_of(fleet, days), days)
        self._world = MemoryWorld(rows_of(fleet, self.ledger.machines), fleet.units)
        self._worker = VirtualWorker(self.ledger, self._world)
        self._due = [day * DAY + hour * HOUR for day in range(first_day, days) for hour in HOURS]
        self._rng = random.Random(seed)  # noqa: S311 - no secret comes of it
        self.guesses: list[Guess] = []

    def run(self, progress: Progress = lambda share: None) -> None:
        """Let the days pass."""

        def look(share: float) -> None:
            progress(share)
            self._look()

        self._worker.run(look)

    def _look(self) -> None:
        now = (self._worker.now - self.fleet.start).total_seconds()
        while self._due and self._due[0] <= now:
            self._due.pop(0)
            self.guesses += self._guess(now)

    def _guess(self, now: float) -> Iterator[Guess]:
        records = self._world.unfinished()
        contenders = [self._contender(record, now) for record in records]
        progress = {} if self._spread is None else self._worker.progress(self._spread)
        running = [
            Runner(each.id, 0, each.started_at or self._worker.now, each.expected_seconds, progress.get(each.id))
            for each in records
            if each.status == Status.RUNNING and each.queue == BACKUPS
        ]
        state = QueueState(self._worker.now, self.fleet.units, running, (), {}, {})
        ratios, firsts = self._durations()

        def draw(expected: float | None, rng: random.Random) -> float:
            if expected is None:
                return rng.choice(firsts)
            return expected * rng.choice(ratios)

        others: dict[bool, Past] = {}
        found = foresee(state, contenders, draw, others, self._rng)
        ready = {record.number for record in records if _is_ready(record)}
        in_line = [each for each in contenders if each.waiter is None or each.id in ready]
        in_turn = foresee(state, in_line, draw, others, self._rng)
        for each in contenders:
            if each.waiter is not None:
                guess = self._as_guess(each, found, now, ready=each.id in ready)
                yield replace(guess, in_turn=in_turn.found[each.id].starts) if each.id in ready else guess

    def _as_guess(self, each: Contender, found: Runs, now: float, *, ready: bool) -> Guess:
        group = group_of(each, ready=ready)
        of_it = found.found[each.id]
        misses = 1.0 - of_it.protected / found.number
        return Guess(each.id, now, found.probability(each.id), group, found.number, of_it.starts, misses)

    def _durations(self) -> tuple[list[float], list[float]]:
        took: dict[int, list[float]] = defaultdict(list)
        firsts = []
        for run in self.ledger.runs:
            if run.succeeded and run.first:
                firsts.append(run.ends - run.begins)
            elif run.succeeded:
                took[run.number].append(run.ends - run.begins)
        ratios = [after / before for each in took.values() for before, after in pairwise(each)]
        return ratios[-500:] or [1.0], firsts[-500:] or [600.0]

    def _contender(self, record: MemoryRecord, now: float) -> Contender:
        machine = self.ledger.machines[record.number - 1]
        policy = self._world.assignment(record.number).policy
        waiter = None
        if not (record.status == Status.RUNNING and record.queue == BACKUPS):
            rank, tried = (record.due_day, None) if not record.failures else (record.rank_day, record.tried_at)
            expected = record.expected_seconds or None
            head = Head(0, record.id, 0, rank, tried, expected, "")
            by_time = record.waiting_for in (WaitingFor.WINDOW, WaitingFor.BACKOFF, WaitingFor.START)
            ready_at = record.run_after if record.status == Status.WAITING and by_time else self._worker.now
            waiter = Waiter(head, ready_at, record.closes_at, is_first=record.due_day is None)
        ends = policy.schedule.period.next_after(self._worker.now)
        today = _today(machine, now, ready=_is_ready(record))
        return Contender(record.number, waiter, ends, self._habit(machine, now), today)

    def _habit(self, machine: SimulatedMachine, now: float) -> Habit:
        days = int(now // DAY)
        stays = [
            Stay(each.begins, min(each.ends, days * DAY)) for each in machine.present.all if each.begins < days * DAY
        ]
        return Habit.of(stays, days, 0.0, self.fleet.start.weekday())


def _is_ready(record: MemoryRecord) -> bool:
    return record.status == Status.READY and record.queue == BACKUPS


def _today(machine: SimulatedMachine, now: float, *, ready: bool) -> Today:
    dawn = now // DAY * DAY
    awake = [each for each in machine.awake.all if each.begins <= now and each.ends > dawn]
    seen = min(now, awake[-1].ends) - dawn if awake else None
    silent = not (machine.answers(now) or ready)
    seen = seen if silent else now - dawn
    return Today(now - dawn, int(now // DAY) % 7, seen, silent, reports=True)


@dataclass
class Score:
    """Counts of one hour of a day."""

    asked: int = 0
    right: int = 0
    squares: float = 0.0
    said: int = 0
    hits: int = 0
    missed: int = 0
    foreseen: float = 0.0

    def add(self, probability: float, came_true: bool, misses: float = 0.0) -> None:
        says = probability < 0.5
        self.asked += 1
        self.right += says != came_true
        self.squares += (probability - came_true) ** 2
        self.said += says
        self.hits += says and not came_true
        self.missed += not came_true
        self.foreseen += 0.0 if says else misses

    @property
    def as_facts(self) -> dict[str, float | int | None]:
        """The shares by name; `precision` and `recall` are of the sources that are named as at risk. `unnamed`: those
        that missed without that; `foreseen`: how many of these the runs had foreseen.
        """
        return {
            "asked": self.asked, "missed": self.missed, "right": round(self.right / self.asked, 3),
            "brier": round(self.squares / self.asked, 3),
            "precision": round(self.hits / self.said, 3) if self.said else None,
            "recall": round(self.hits / self.missed, 3) if self.missed else None,
            "unnamed": self.missed - self.hits, "foreseen": round(self.foreseen, 1),
        }  # fmt: skip


def score(observer: Observer) -> dict[int, Score]:
    """Hour → the quality of the forecast of which sources are protected in their period."""
    ledger = observer.ledger
    _, protected = ledger.pairs()
    found: dict[int, Score] = defaultdict(Score)
    for each in observer.guesses:
        period = ledger.calendars[each.number].period_at(each.at)
        found[int(each.at % DAY // HOUR)].add(each.probability, (each.number, period) in protected, each.misses)
    return found


def errors(observer: Observer) -> Iterator[tuple[Guess, float]]:
    """Each guess of a start with when the source's next run began, in seconds from then."""
    begins: dict[int, list[float]] = defaultdict(list)
    for run in observer.ledger.runs:
        begins[run.number].append(run.begins)
    for each in observer.guesses:
        came = min((at for at in begins[each.number] if at >= each.at - 1.0), default=None)
        calendar = observer.ledger.calendars[each.number]
        if came is not None and calendar.period_at(came) == calendar.period_at(each.at):
            yield each, came - each.at


@dataclass(frozen=True)
class Starts:
    """The errors of the foreseen starts of one group. `within`: the share no further from the median than 1, 10 and 60
    minutes; `inside`: the share in the interval; `factor`: by how much the runs' own intervals had to be widened for
    nine tenths to be inside.
    """

    number: int
    within: tuple[float, float, float]
    inside: float
    factor: float

    @classmethod
    def of(cls, pairs: Sequence[tuple[Guess, float]]) -> "Starts":
        """The errors of guesses, at least one, each with the instant at which it came."""
        apart = [abs(each.interval.median - came) for each, came in pairs]
        factors = sorted(error(each.starts, each.group, came) for each, came in pairs)
        one, ten, sixty = (round(sum(each <= limit for each in apart) / len(apart), 3) for limit in (60, 600, 3600))
        inside = sum(each.is_held(came) for each, came in pairs) / len(pairs)
        return cls(
            len(pairs),
            (one, ten, sixty),
            round(inside, 3),
            round(factors[min(len(factors) - 1, int(0.9 * len(factors)))], 2),
        )


@dataclass(frozen=True)
class Accuracy:
    """The accuracy of the forecast on one fleet: of *protected?* by the hour, of starts by the group."""

    hours: dict[int, Score]
    groups: dict[ForecastGroup, Starts]

    @property
    def as_facts(self) -> dict[str, Any]:
        """The fields by name."""
        hours = {f"{hour:02}:00": score.as_facts for hour, score in self.hours.items()}
        return {"hours": hours, "starts": {str(group): asdict(found) for group, found in self.groups.items()}}


def check_days(days: int) -> None:
    """Raises: ValueError if there is no second week."""
    if days <= FIRST_DAY:
        raise ValueError(f"the forecast is measured from day {FIRST_DAY + 1} on, and these are {days}")


def accuracy_of(fleet: SimulatedFleet, days: int = DAYS, progress: Progress = lambda share: None) -> Accuracy:
    """Let the days of a fleet pass, foresee at each of the hours from the second week on, and compare. Raises:
    ValueError if there is no second week, or nothing is due in it at these hours.
    """
    check_days(days)
    observer = Observer(fleet, days)
    observer.run(progress)
    if not observer.guesses:
        raise ValueError(
            "no backup was due at 9, 11 or 14 o'clock from the second week on: there is nothing to measure"
        )
    pairs = [(each, came) for each, came in errors(observer) if len(each.starts) >= each.runs / 2]
    of_groups = {group: [pair for pair in pairs if pair[0].group == group] for group in ForecastGroup}
    groups = {group: Starts.of(found) for group, found in of_groups.items() if found}
    return Accuracy(dict(sorted(score(observer).items())), groups)
