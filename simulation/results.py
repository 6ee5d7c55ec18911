"""The results of a scheduler for a fleet, by period: possible and actual protection, and the cost."""

from bisect import bisect_right
from collections import Counter
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from itertools import takewhile

from simulation.fleet_file import SimulatedFleet, SimulatedPolicy
from simulation.machines import DAY, SimulatedMachine, SimulatedRun, TimeSpan

HOUR = 3_600.0


@dataclass(frozen=True)
class Calendar:
    """The periods of a policy that overlap the simulated time, and its openings in that. Instants in seconds since the
    start."""

    begins: list[float]
    """The beginning of each period; the first one is before the start, or at it."""
    openings: list[TimeSpan]

    @classmethod
    def of(cls, policy: SimulatedPolicy, start: datetime, days: int) -> "Calendar":
        end = start + timedelta(days=days)
        triggers = [policy.cron.current(start), *takewhile(lambda at: at < end, policy.cron.after(start))]
        openings = [
            TimeSpan(max(0.0, (each.opens_at - start).total_seconds()), (each.closes_at - start).total_seconds())
            for each in policy.window.openings(start, end)
        ]
        return cls([(each - start).total_seconds() for each in triggers], openings)

    def period_at(self, now: float) -> int:
        return bisect_right(self.begins, now) - 1

    def period(self, number: int, end: float) -> TimeSpan:
        begins, ends = self.begins[number], (*self.begins[number + 1 :], end)[0]
        return TimeSpan(max(0.0, begins), min(ends, end))


@dataclass(frozen=True)
class Chance:
    """A stretch of one period in which a source is there and may begin a backup, which ends before it leaves."""

    number: int
    period: int
    begins: float
    ends: float
    """The instant until which a backup may begin."""
    leaves_at: float


def chances_of(machine: SimulatedMachine, calendar: Calendar, end: float) -> list[Chance]:
    found = []
    for stay in machine.present.all:
        for opening in calendar.openings:
            begins, ends = max(stay.begins, opening.begins), min(stay.ends, opening.ends, end)
            if begins >= ends:
                continue
            for number in range(calendar.period_at(begins), len(calendar.begins)):
                period = calendar.period(number, end)
                first, last = max(begins, period.begins), min(ends, period.ends)
                if period.begins >= ends:
                    break
                if first < last:
                    found.append(Chance(machine.number, number, first, last, min(stay.ends, end)))
    return found


@dataclass
class Ledger:
    """The record of a scheduler's work, as it writes it down. `days`: how long it ran. `rest`: the factor of a run's
    duration for which its unit rests after it, as in a sample with a fraction of a unit (`simulation/samples.py`).
    """

    fleet: SimulatedFleet
    machines: list[SimulatedMachine]
    days: int
    runs: list[SimulatedRun] = field(default_factory=list)
    packets: int = 0
    absent_unit_seconds: float = 0.0
    seen: set[tuple[int, int]] = field(default_factory=set)
    """(machine, period) in which it answered."""
    rest: float = 0.0

    def __post_init__(self) -> None:
        self.end = self.days * DAY
        calendars = {each.name: Calendar.of(each, self.fleet.start, self.days) for each in self.fleet.policies}
        self.calendars = {machine.number: calendars[machine.source.policy] for machine in self.machines}

    def answered(self, number: int, now: float) -> None:
        self.seen.add((number, self.calendars[number].period_at(now)))

    def pairs(self, *, in_window: bool = True) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
        """(machine, period) in which it was there long enough for a backup, and in which one that succeeded began.
        `in_window`: there while its window was open."""
        calendars = self.calendars
        if not in_window:
            calendars = {
                number: Calendar(each.begins, [TimeSpan(0.0, self.end)]) for number, each in self.calendars.items()
            }
        good = [run for run in self.runs if run.succeeded and run.ends <= self.end]
        protected = {(run.number, self.calendars[run.number].period_at(run.begins)) for run in good}
        possible = {
            (chance.number, chance.period)
            for machine in self.machines
            for chance in chances_of(machine, calendars[machine.number], self.end)
            if chance.begins + machine.takes(chance.begins, first=False) <= chance.leaves_at
        }
        return protected | possible, protected

    def result(self, bound: float | None = None) -> "Result":
        """The figures. `bound`: how many pairs could have been protected at all, if that is known."""
        ended = [run for run in self.runs if run.ends <= self.end]
        good = [run for run in ended if run.succeeded]
        possible, protected = self.pairs()
        missed = possible - protected
        aborted = [run for run in ended if not run.succeeded and not run.failed]
        busy = sum(min(run.ends, self.end) - run.begins for run in self.runs) + self.absent_unit_seconds
        gaps = sorted(self._gaps(good))
        hours = Counter(int(run.begins // HOUR) for run in good)
        return Result(
            possible=len(possible),
            protected=len(protected),
            share=round(len(protected) / len(possible), 4) if possible else 1.0,
            of_bound=round(len(protected) / bound, 4) if bound else None,
            missed_present=len(missed),
            never_seen=len(missed - self.seen),
            gap_days_p50=_at_share(gaps, 0.5),
            gap_days_p95=_at_share(gaps, 0.95),
            gap_days_max=_at_share(gaps, 1.0),
            never_protected=self._never_protected(good),
            utilisation=round(busy / (self.fleet.units * self.end), 4),
            absent_unit_seconds=round(self.absent_unit_seconds, 1),
            wake_packets=self.packets,
            aborted=len(aborted),
            aborted_unit_seconds=round(sum(run.ends - run.begins for run in aborted), 1),
            failed=sum(run.failed for run in ended),
            backups_per_hour=[hours[hour] for hour in range(int(self.end // HOUR))],
        )

    def _gaps(self, good: list[SimulatedRun]) -> list[float]:
        """Days without a backup of each source: from the start, between two, and to the end."""
        starts: dict[int, list[float]] = {machine.number: [0.0] for machine in self.machines}
        for run in good:
            starts[run.number].append(run.begins)
        return [
            (following - before) / DAY
            for each in starts.values()
            for before, following in zip(sorted(each), [*sorted(each)[1:], self.end], strict=True)
        ]

    def _never_protected(self, good: list[SimulatedRun]) -> int:
        done = {run.number for run in good} | {each.number for each in self.machines if each.source.backed_up}
        return len(self.machines) - len(done)


@dataclass
class Result:
    """Figures of one scheduler. Counts are of (source, period) pairs.

    `possible`: the source was there long enough for a backup. `of_bound`: `protected` divided by what was possible with
    these units at all, None if that is not worked out. `never_seen`: of `missed_present`, those that were never found
    there. `gap_days_*`: without a backup of a source, the start and the end of the simulation counting as one.
    """

    possible: int
    protected: int
    share: float
    of_bound: float | None
    missed_present: int
    never_seen: int
    gap_days_p50: float
    gap_days_p95: float
    gap_days_max: float
    never_protected: int
    utilisation: float
    absent_unit_seconds: float
    wake_packets: int
    aborted: int
    aborted_unit_seconds: float
    failed: int
    backups_per_hour: list[int]

    def as_facts(self) -> dict[str, object]:
        return asdict(self)


def _at_share(ordered: list[float], share: float) -> float:
    """The smallest value that this share of the values does not exceed."""
    return round(ordered[max(0, int(-(-len(ordered) * share // 1)) - 1)], 3) if ordered else 0.0
