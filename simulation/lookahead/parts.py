"""What could be added to the product's order, each by itself, to see what it would bring to a fleet.

resume   a first backup that is cut goes on where it was, and is demoted like what breaks off twice
sizes    the size of a first backup is known to a factor of e^±0.5, and the shortest comes first
hours    no magic packet more than an hour outside the hours in which a source was ever there, but one each 12 h
share    at most half of the units make first backups while later ones are there
"""

from collections import defaultdict
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from difflib import get_close_matches
from math import exp
from random import Random

from simulation.machines import SimulatedMachine

GUESSED_WITHIN = 0.5
"""Standard deviation of the logarithm of a size that an agent or a listing gives."""
OUTSIDE_ITS_HOURS_EACH = timedelta(hours=12)


@dataclass(frozen=True)
class Parts:
    """Which of them are on."""

    resume: bool = False
    sizes: bool = False
    hours: bool = False
    share: bool = False
    leaving: bool = False

    @classmethod
    def named(cls, names: list[str]) -> "Parts":
        """Raises: ValueError for a part that there is not."""
        known = [field.name for field in fields(cls)]
        for name in names:
            if name not in known:
                close = get_close_matches(name, known, n=1)
                there = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
                raise ValueError(f"--scheduler: lookahead has no part {name!r}; {there}")
        return cls(**dict.fromkeys(names, True))


NO_PARTS = Parts()


def guessed_seconds(machines: list[SimulatedMachine], seed: int) -> dict[int, float]:
    """How long each first backup is thought to take, by the number of its machine."""
    chances = ((each, Random(f"{seed}/{each.source.name}/size")) for each in machines)  # noqa: S311 - no secrets
    return {
        each.number: round(each.source.first_seconds * exp(chance.gauss(0.0, GUESSED_WITHIN)), 6)
        for each, chance in chances
    }


class SeenHours:
    """The hours of the day in which each source was there, as far as it was noticed."""

    def __init__(self) -> None:
        self._hours: dict[int, int] = defaultdict(int)
        """Bit n: from n o'clock on, UTC."""

    def saw(self, number: int, since: datetime, until: datetime) -> None:
        hours = int((until - since) / timedelta(hours=1)) + 1
        for hour in range(since.hour, since.hour + min(hours, 24)):
            self._hours[number] |= 1 << hour % 24
        self._hours[number] |= 1 << until.hour

    def allow(self, number: int, last_woken_at: datetime | None, now: datetime) -> bool:
        """Whether a packet may be sent to it at `now`."""
        seen = self._hours[number]
        if not seen or last_woken_at is None or now - last_woken_at >= OUTSIDE_ITS_HOURS_EACH:
            return True
        return any(seen >> (now.hour + step) % 24 & 1 for step in (-1, 0, 1))
