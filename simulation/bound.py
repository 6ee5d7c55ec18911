"""The number of backups that were possible at all: an upper bound by linear programming, which no scheduler exceeds.

    maximise   Σ f + g         f, g ∈ [0, 1]: the first backup, a later one, of a source in one of its chances
    Σ y = first · f + later · g        y: unit-seconds of a chance in an hour, within the time it is there
    Σ y of a source in an hour ≤ the time that it is there          one unit a source
    Σ y of an hour ≤ units · the hour                                the units
    Σ f + g of a period ≤ 1,  Σ f of a source ≤ 1,  g ≤ Σ f of earlier periods

Each real schedule, its run times as y, is a solution with the same objective. These are relaxed: preemption, migration,
fractions, capacity by the hour instead of the instant; all durations and departures are known in advance, magic packets
work at once. On fleets of a handful of sources and one unit it is loose.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from delivery.extras import missing
from simulation.machines import DAY, SimulatedMachine
from simulation.results import HOUR, Chance, Ledger, chances_of


class BoundUnknown(ValueError):
    """The reason why the bound cannot be worked out."""


class _Constraints:
    """Rows of a sparse matrix with their limits."""

    def __init__(self) -> None:
        self.values: list[float] = []
        self.rows: list[int] = []
        self.columns: list[int] = []
        self.limits: list[float] = []

    def add(self, limit: float, terms: Iterator[tuple[int, float]] | list[tuple[int, float]]) -> None:
        for column, value in terms:
            self.rows.append(len(self.limits))
            self.columns.append(column)
            self.values.append(value)
        self.limits.append(limit)


class _ShortestBackups(NamedTuple):
    """The shortest first and the shortest later backup in a chance. None if it does not fit, or would fail."""

    first: float | None
    later: float | None


class _LinearProgram:
    """The linear program of a fleet."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.upper: list[float] = []
        self.gain: list[float] = []
        self.at_most, self.equal = _Constraints(), _Constraints()
        self._by_hour: dict[int, list[int]] = defaultdict(list)
        for machine in ledger.machines:
            self._add(machine)
        for hour, columns in self._by_hour.items():
            length = min(HOUR, ledger.end - hour * HOUR)
            self.at_most.add(ledger.fleet.units * length, [(column, 1.0) for column in columns])

    def _variable(self, upper: float, gain: float = 0.0) -> int:
        self.upper.append(upper)
        self.gain.append(gain)
        return len(self.upper) - 1

    def _add(self, machine: SimulatedMachine) -> None:
        firsts: dict[int, list[int]] = defaultdict(list)
        laters: dict[int, list[int]] = defaultdict(list)
        hours: dict[int, list[tuple[int, float, float]]] = defaultdict(list)
        for chance in chances_of(machine, self._ledger.calendars[machine.number], self._ledger.end):
            options = _options(machine, chance)
            work: list[tuple[int, float]] = []
            for takes, into in ((options.first, firsts), (options.later, laters)):
                if takes is not None:
                    column = self._variable(1.0, gain=1.0)
                    into[chance.period].append(column)
                    work.append((column, -takes))
            if work:
                until = min(chance.leaves_at, chance.ends + max(-takes for _, takes in work))
                for hour, begins, ends in _hours(chance.begins, until):
                    column = self._variable(ends - begins)
                    work.append((column, 1.0))
                    hours[hour].append((column, begins, ends))
                    self._by_hour[hour].append(column)
                self.equal.add(0.0, work)
        for pieces in hours.values():
            if len(pieces) > 1:
                self.at_most.add(_length([each[1:] for each in pieces]), [(column, 1.0) for column, *_ in pieces])
        self._limit(machine, firsts, laters)

    def _limit(self, machine: SimulatedMachine, firsts: dict[int, list[int]], laters: dict[int, list[int]]) -> None:
        periods = sorted(firsts.keys() | laters.keys())
        for period in periods:
            columns = firsts[period] + laters[period]
            if len(columns) > 1:
                self.at_most.add(1.0, [(column, 1.0) for column in columns])
        if machine.source.backed_up:
            return
        done = self._variable(0.0)
        for period in periods:
            if laters[period]:
                self.at_most.add(0.0, [*((column, 1.0) for column in laters[period]), (done, -1.0)])
            if firsts[period]:
                before, done = done, self._variable(1.0)
                terms = [(done, 1.0), (before, -1.0), *((column, -1.0) for column in firsts[period])]
                self.equal.add(0.0, terms)


def _options(machine: SimulatedMachine, chance: Chance) -> _ShortestBackups:
    days = [day for day in range(int(chance.begins // DAY), int(-(-chance.ends // DAY))) if not machine.fails[day]]
    stay = chance.leaves_at - chance.begins

    def shortest(first: bool) -> float | None:
        found = min((machine.takes(day * DAY, first=first) for day in days), default=None)
        return found if found is not None and found <= stay else None

    return _ShortestBackups(None if machine.source.backed_up else shortest(True), shortest(False))


def _hours(begins: float, ends: float) -> Iterator[tuple[int, float, float]]:
    for hour in range(int(begins // HOUR), int(-(-ends // HOUR))):
        yield hour, max(begins, hour * HOUR), min(ends, (hour + 1) * HOUR)


def _length(pieces: list[tuple[float, float]]) -> float:
    """The length of the union of these pieces."""
    found, until = 0.0, 0.0
    for begins, ends in sorted(pieces):
        found += max(0.0, ends - max(begins, until))
        until = max(until, ends)
    return found


def bound(ledger: Ledger) -> float:
    """The most (source, period) pairs that the fleet of a ledger could have had protected. Raises: BoundUnknown."""
    if lacking := missing("scipy", "the bound"):
        raise BoundUnknown(lacking)
    from scipy.optimize import linprog  # an extra brings it
    from scipy.sparse import csr_array

    program = _LinearProgram(ledger)
    if not program.upper:
        return 0.0

    def matrix(rows: _Constraints) -> object:
        return csr_array((rows.values, (rows.rows, rows.columns)), shape=(len(rows.limits), len(program.upper)))

    found = linprog(
        [-gain for gain in program.gain],
        A_ub=matrix(program.at_most),
        b_ub=program.at_most.limits,
        A_eq=matrix(program.equal),
        b_eq=program.equal.limits,
        bounds=[(0.0, upper) for upper in program.upper],
        method="highs-ipm",
    )
    if not found.success:
        raise BoundUnknown(f"the bound was not found: {found.message}")
    return float(-found.fun)
