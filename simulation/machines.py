"""A source of a simulated fleet as it behaves, the same for every scheduler. Instants are seconds since the fleet's
start, rounded to microseconds, as a database keeps them.

Its durations come from a separate stream, one draw a day, so a scheduler that runs more backups changes no other
duration. Asleep, it does not answer but continues with a running backup. Absent, it ends that backup.
"""

import random
from bisect import bisect_right
from dataclasses import dataclass, field
from math import exp

from simulation.fleet_file import SimulatedFleet, SimulatedSource

DAY = 86_400.0
WAKES_UP_WITHIN = 120.0
"""Seconds from a magic packet until it answers."""
STAYS_AWAKE_FOR = 900.0
"""Seconds for which it does, unless a backup runs."""


@dataclass(frozen=True)
class TimeSpan:
    """A stretch of time, `begins` ≤ t < `ends`."""

    begins: float
    ends: float


class Stays:
    """Stretches in order that do not overlap; those that touch are one."""

    def __init__(self, stretches: list[tuple[float, float]]) -> None:
        joined: list[list[float]] = []
        for begins, ends in stretches:
            if joined and begins <= joined[-1][1]:
                joined[-1][1] = max(ends, joined[-1][1])
            else:
                joined.append([begins, ends])
        self.all = [TimeSpan(begins, ends) for begins, ends in joined]
        self._begins = [each.begins for each in self.all]

    def at(self, now: float) -> TimeSpan | None:
        """The stay that contains `now`; None if there is none."""
        number = bisect_right(self._begins, now) - 1
        return self.all[number] if number >= 0 and now < self.all[number].ends else None


@dataclass
class SimulatedMachine:
    """A source. `number`: its place in the file, from 1."""

    number: int
    source: SimulatedSource
    draws: list[float]
    """The standard normal deviate of its durations, for each day since the start."""
    fails: list[bool]
    present: Stays = field(init=False)
    awake: Stays = field(init=False)
    _woken: TimeSpan = field(default=TimeSpan(0.0, 0.0))

    def __post_init__(self) -> None:
        stays = [(round(each.from_s, 6), round(each.to_s, 6), each.state) for each in self.source.presence]
        self.present = Stays([(begins, ends) for begins, ends, _ in stays])
        self.awake = Stays([(begins, ends) for begins, ends, state in stays if state == "awake"])

    def answers(self, now: float) -> bool:
        woken = self._woken
        return woken.begins <= now < woken.ends or self.awake.at(now) is not None

    def leaves_at(self, now: float) -> float:
        """The end of the stay that contains `now`; `now` if it is absent."""
        stay = self.present.at(now)
        return stay.ends if stay else now

    def wake(self, now: float) -> None:
        """Send it a magic packet, which an absent source does not hear."""
        if self.source.wake_on_lan and (stay := self.present.at(now)):
            begins = self._woken.begins if self._woken.begins <= now < self._woken.ends else now + WAKES_UP_WITHIN
            self._woken = TimeSpan(begins, min(now + WAKES_UP_WITHIN + STAYS_AWAKE_FOR, stay.ends))

    def sleeps_again(self) -> None:
        """Forget that it was woken, for the next scheduler."""
        self._woken = TimeSpan(0.0, 0.0)

    def takes(self, now: float, *, first: bool) -> float:
        """Seconds that a backup takes which begins at `now`."""
        median = self.source.first_seconds if first else self.source.median_seconds
        return round(median * exp(self.source.sigma * self.draws[int(now // DAY)]), 6)

    def run(self, now: float, *, first: bool, done: float = 0.0) -> "SimulatedRun":
        """The backup that begins at `now`. It ends when it is done or the source leaves, at once if the source does not
        answer. `done`: the share of its work that an earlier run has done."""
        leaves_at = self.leaves_at(now) if self.answers(now) else now
        fails = self.fails[int(now // DAY)]
        ends = round(now + self.takes(now, first=first) * (1.0 - done) / (2 if fails else 1), 6)
        if ends > leaves_at:
            return SimulatedRun(self.number, now, leaves_at, first)
        return SimulatedRun(self.number, now, ends, first, succeeded=not fails, failed=fails)


@dataclass(frozen=True)
class SimulatedRun:
    """A backup of the machine `number`. Neither succeeded nor failed: the source left."""

    number: int
    begins: float
    ends: float
    first: bool
    succeeded: bool = False
    failed: bool = False


def machines_of(fleet: SimulatedFleet, days: int, seed: int | None = None) -> list[SimulatedMachine]:
    """The sources of a fleet for `days`. `seed` replaces the file's."""
    found = []
    for number, source in enumerate(fleet.sources, 1):
        chance = random.Random(f"{fleet.seed if seed is None else seed}/{source.name}")  # noqa: S311 - no secrets
        draws, fails = [], []
        for _ in range(days + 1):
            draws.append(chance.gauss(0.0, 1.0))
            fails.append(chance.random() < source.failing)
        found.append(SimulatedMachine(number, source, draws, fails))
    return found
