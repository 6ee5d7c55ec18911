"""A fleet as it is, and with a change: the same days, simulated twice, and how they differ."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from math import sqrt
from typing import Any, NamedTuple

from external.formatting import several
from simulation.fleet_file import SimulatedFleet
from simulation.machines import DAY, machines_of
from simulation.results import HOUR, Ledger
from simulation.schedulers import SCHEDULERS

VALLEY_HOURS = 4
STANDARD_ERRORS = 4.0
"""The margin of error. Two are that of 19 in 20 samples if sources share no units; samples that share parts of a few
units were off by up to twice as much."""

Pairs = tuple[set[tuple[int, int]], set[tuple[int, int]]]


class NotComputed(ValueError):
    """The reason why a fleet was not simulated in the time that there was."""


@dataclass(frozen=True)
class Outlook:
    """A fleet's days as they were simulated. `possible`: pairs of a source and a period in which it was there long
    enough, in its window or not; `missed`: source → the periods of these in which it was not backed up; `busy`: hour of
    the day, UTC → units at work, on average.
    """

    units: int
    sources: int
    possible: int
    protected: int
    share: float
    never_protected: int
    missed: dict[str, int]
    busy: list[float]

    @property
    def peak(self) -> float:
        return max(self.busy)

    @property
    def valley(self) -> tuple[int, float]:
        """The hour at which the least busy hours of a day begin, and how many units are at work in them."""
        hours = [sum(self.busy[(at + step) % 24] for step in range(VALLEY_HOURS)) for at in range(24)]
        at = min(range(24), key=lambda hour: hours[hour])
        return at, round(hours[at] / VALLEY_HOURS, 2)

    @property
    def as_facts(self) -> dict[str, Any]:
        """The fields by name."""
        at, busy = self.valley
        return asdict(self) | {"peak": self.peak, "valley": {"from_hour": at, "hours": VALLEY_HOURS, "busy": busy}}


class SourceChange(NamedTuple):
    """A source with the periods that it misses, before and after."""

    name: str
    before: int
    after: int


@dataclass(frozen=True)
class OutlookComparison:
    """`days` of a fleet, as it is and as it would be. `worse`: sources that miss more periods, most first; `better`:
    fewer; of sources that are in both."""

    days: int
    now: Outlook
    then: Outlook
    margins: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """The margins of error of the share now, the share then and their difference, if these sources are a sample of a
    larger fleet."""

    def _moved(self) -> list[SourceChange]:
        names = {**self.now.missed, **self.then.missed}
        return [SourceChange(name, self.now.missed.get(name, 0), self.then.missed.get(name, 0)) for name in names]

    @property
    def worse(self) -> list[SourceChange]:
        return sorted(
            (each for each in self._moved() if each.after > each.before), key=lambda each: each.before - each.after
        )

    @property
    def better(self) -> list[SourceChange]:
        return sorted(
            (each for each in self._moved() if each.after < each.before), key=lambda each: each.after - each.before
        )

    @property
    def is_worse(self) -> bool:
        """True if something gets worse: a smaller share is protected, or sources miss more periods than others gain."""
        lost = sum(each.after - each.before for each in self._moved())
        return self.then.share < self.now.share - 0.0005 or lost > 0

    @property
    def as_facts(self) -> dict[str, Any]:
        """The fields by name."""
        moved = {"worse": [each._asdict() for each in self.worse], "better": [each._asdict() for each in self.better]}
        return {"days": self.days, "now": self.now.as_facts, "then": self.then.as_facts} | moved


Progress = Callable[[float], None]


class _OutOfTime(Exception):
    """The time is over."""


def _simulated(fleet: SimulatedFleet, days: int, until: float, progress: Progress, rest: float = 0.0) -> Ledger:
    """Simulate as many whole days as there is time for until `until`, of the monotonic clock."""
    ledger, share = Ledger(fleet, machines_of(fleet, days), days, rest=rest), 0.0

    def check_time(passed: float) -> None:
        nonlocal share
        share = passed
        progress(passed)
        if time.monotonic() > until:
            raise _OutOfTime

    try:
        SCHEDULERS["lookahead"](ledger, check_time)
    except _OutOfTime:
        return cut(ledger, int(share * days))
    return ledger


def cut(ledger: Ledger, days: int) -> Ledger:
    """The first days of a ledger. The end of work that runs then is unknown."""
    if days == ledger.days:
        return ledger
    runs = [run for run in ledger.runs if run.begins < days * DAY]
    return Ledger(ledger.fleet, ledger.machines, days, runs, seen=ledger.seen, rest=ledger.rest)


def compare(
    fleet: SimulatedFleet, changed: SimulatedFleet, days: int, seconds: float | None = None,
    progress: Progress = lambda share: None, rests: tuple[float, float] = (0.0, 0.0),
) -> OutlookComparison:  # fmt: skip
    """The same days of both, as many as `seconds` are enough for. `rests`: of the units of each, as in `Ledger`.
    Raises: NotComputed if not one day is, or if no source is there in them for as long as its backup takes.
    """
    began = time.monotonic()
    patience = float("inf") if seconds is None else seconds
    now = _simulated(fleet, days, began + patience / 2, lambda share: progress(share / 2), rests[0])
    until = began + patience
    then = _simulated(changed, max(1, now.days), until, lambda share: progress((1 + share) / 2), rests[1])
    done = min(now.days, then.days)
    if done < 1:
        number = max(len(fleet.sources), len(changed.sources))
        raise NotComputed(f"one day of {number:,} sources takes longer than the {seconds:.2g} s that there are for it")
    before, after = cut(now, done), cut(then, done)
    pairs = before.pairs(in_window=False), after.pairs(in_window=False)
    found = OutlookComparison(done, outlook(before, *pairs[0]), outlook(after, *pairs[1]), margins(*pairs))
    if not (found.now.possible or found.then.possible):
        raise NotComputed(f"{nobody_there(done)}: there is nothing to compare")
    return found


def nobody_there(days: int) -> str:
    """A sentence for days in which no backup was possible; without its full stop."""
    return f"in {several(days, 'day')} no source is there for as long as its backup takes"


def margins(now: Pairs, then: Pairs) -> tuple[float, float, float]:
    """The margins of error of the share now, the share then and their difference, if the sources of these possible and
    protected pairs are a sample: by the formula for a ratio of totals over clusters, each source being one (Cochran,
    Sampling Techniques, 3rd edition, 6.4). Between 0 and 1.
    """
    off_now, off_then = _deviations(*now), _deviations(*then)
    difference = {each: off_then.get(each, 0.0) - off_now.get(each, 0.0) for each in {**off_now, **off_then}}
    return max(_margin(off_now), _least(*now)), max(_margin(off_then), _least(*then)), _margin(difference)


def _deviations(possible: set[tuple[int, int]], protected: set[tuple[int, int]]) -> dict[int, float]:
    """Source → its part in the error of the protected share."""
    share = len(protected) / len(possible) if possible else 1.0
    chances, kept = (Counter(number for number, _ in pairs) for pairs in (possible, protected))
    return {number: (kept[number] - share * chances[number]) / len(possible) for number in chances}


def _least(possible: set[tuple[int, int]], protected: set[tuple[int, int]]) -> float:
    """The least margin of a share, as if periods were drawn one by one: sources that are all alike say little."""
    share = (len(protected) + 2) / (len(possible) + 4)
    return min(1.0, STANDARD_ERRORS * sqrt(share * (1 - share) / (len(possible) + 4)))


def _margin(deviations: dict[int, float]) -> float:
    number = len(deviations)
    if number < 2:
        return 1.0
    return min(1.0, STANDARD_ERRORS * sqrt(number / (number - 1) * sum(each * each for each in deviations.values())))


def outlook(ledger: Ledger, possible: set[tuple[int, int]], protected: set[tuple[int, int]]) -> Outlook:
    """The figures of a ledger, and of its possible and protected pairs of a source and a period."""
    names = {machine.number: machine.source.name for machine in ledger.machines}
    missed = Counter(names[number] for number, _ in possible - protected)
    busy = [0.0] * 24
    first = ledger.fleet.start.hour
    for run in ledger.runs:  # a unit that rests is a part of one, at work all the time
        at, ends = run.begins, min(run.begins + (run.ends - run.begins) * (1 + ledger.rest), ledger.end)
        while at < ends:
            until = min(ends, (at // HOUR + 1) * HOUR)
            busy[(first + int(at // HOUR)) % 24] += (until - at) / (1 + ledger.rest)
            at = until
    result = ledger.result()
    return Outlook(
        ledger.fleet.units, len(ledger.machines), len(possible), len(protected),
        round(len(protected) / len(possible), 4) if possible else 1.0, result.never_protected, dict(missed),
        [round(each / (ledger.days * HOUR), 9 if ledger.rest else 3) for each in busy],
    )  # fmt: skip


def as_text(found: OutlookComparison) -> list[str]:
    """The difference, a line a fact."""
    now, then = found.now, found.then
    at, busy = now.valley
    after_at, after_busy = then.valley

    def hours(first: int) -> str:
        return f"{first:02}:00 to {(first + VALLEY_HOURS) % 24:02}:00 UTC"

    return [
        f"protected, both simulated: {now.share:.1%} of {now.possible:,} periods as it is, {then.share:.1%} of "
        f"{then.possible:,} with the change",
        f"busiest hour: {now.peak:.1f} of {now.units} units as it is, {then.peak:.1f} of {then.units} with the change",
        f"least load: {hours(at)} ({busy:.1f} units) as it is, {hours(after_at)} ({after_busy:.1f}) with the change",
        f"would miss more periods: {several(len(found.worse), 'source')}; fewer: {len(found.better):,}",
    ]
