"""Parts of the order that can be turned on and off, each by itself, to measure the effect of each on a fleet.

The first four of `MEANS` are parts of the product, and on unless its settings turn them off; the others are only tried
here.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from difflib import get_close_matches
from math import exp
from random import Random

from simulation.machines import SimulatedMachine
from sources.models import order_parts
from sources.models.order_parts import OrderParts

GUESSED_WITHIN = 0.5
"""Standard deviation of the logarithm of a size that an agent or a listing gives."""

MEANS = {
    "resume": "a first backup that is cut continues where it was, and is demoted like one that breaks off twice",
    "sizes": f"the size of a first backup is known to a factor of e^±{GUESSED_WITHIN}, and the shortest comes first",
    "hours": "no packet more than an hour outside the hours in which a source was ever there, but one each 12 h",
    "waking": "a first backup of two hours or more lets much shorter ones that wake up come first",
    "share": "at most half of the units make first backups while later ones are there",
    "leaving": "among later backups of one day, a source that is about to leave comes first",
}


@dataclass(frozen=True)
class LookaheadParts:
    """The parts that are on."""

    resume: bool = True
    sizes: bool = True
    hours: bool = True
    waking: bool = True
    share: bool = False
    leaving: bool = False

    @classmethod
    def of_product(cls) -> "LookaheadParts":
        """The parts that this installation has on."""
        return cls(**asdict(order_parts.in_force()))

    @property
    def in_product(self) -> OrderParts:
        return OrderParts(self.resume, self.sizes, self.hours, self.waking)

    def changed(self, changes: Sequence[str]) -> "LookaheadParts":
        """The same parts with `changes`: names with a plus or a minus before each. Raises: ValueError for a part that
        does not exist.
        """
        names = [each[1:] for each in changes]
        known = [field.name for field in fields(self)]
        for name in names:
            if name not in known:
                close = get_close_matches(name, known, n=1)
                there = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
                raise ValueError(f"--scheduler: lookahead has no part {name!r}; {there}")
        return replace(self, **{each[1:]: each[0] == "+" for each in changes})


def guessed_seconds(machines: Sequence[SimulatedMachine], seed: int) -> dict[int, float]:
    """The guessed duration of each first backup in seconds, by the number of its machine."""
    chances = ((each, Random(f"{seed}/{each.source.name}/size")) for each in machines)  # noqa: S311 - no secrets
    return {
        each.number: round(each.source.first_seconds * exp(chance.gauss(0.0, GUESSED_WITHIN)), 6)
        for each, chance in chances
    }
