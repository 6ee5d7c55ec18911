"""The schedulers that a fleet can be simulated with, by name."""

import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches

from simulation import fifo, proactive
from simulation.fleet_file import SimulatedFleet
from simulation.lookahead.leaving import Departures, LeavingFirst
from simulation.lookahead.memory import MemoryWorld
from simulation.lookahead.parts import LookaheadParts
from simulation.lookahead.records import ReadyQueue
from simulation.lookahead.sharing import SharingWorld
from simulation.lookahead.worker import Progress, VirtualWorker
from simulation.lookahead.world import rows_of
from simulation.machines import machines_of
from simulation.results import Ledger
from sources.models import order_parts

LONGEST_DAYS = 366
REORDERED_PER_UNIT = 2
"""Records of one day that the part *leaving* looks at."""


def _lookahead(ledger: Ledger, progress: Progress, changes: Sequence[str] = ()) -> None:
    fleet, parts = ledger.fleet, LookaheadParts.of_product().changed(changes)
    departures = Departures(ledger.machines) if parts.leaving else None

    def make_queue() -> ReadyQueue:
        if departures is None:
            return ReadyQueue()
        return LeavingFirst(departures, lambda: worker.now, fleet.start, REORDERED_PER_UNIT * fleet.units)

    rows, world = rows_of(fleet, ledger.machines), SharingWorld if parts.share else MemoryWorld
    worker = VirtualWorker(ledger, world(rows, fleet.units, make_queue))
    with order_parts.simulated(parts.in_product):
        worker.run(progress)


def _words(name: str) -> list[str]:
    """A scheduler and its parts, with their signs."""
    return re.split(r"(?=[+-])", name)


SCHEDULERS: dict[str, Callable[[Ledger, Progress], None]] = {
    "fifo": lambda ledger, _: fifo.simulate(ledger),
    "proactive": lambda ledger, _: proactive.simulate(ledger),
    "lookahead": _lookahead,
}


def named(names: str) -> list[str]:
    """The schedulers of a list with commas; behind lookahead come parts that are turned on, each with a plus, or off,
    each with a minus. Raises: ValueError for one that there is not."""
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    for each in wanted:
        name, *parts = _words(each)
        if name not in SCHEDULERS:
            close = get_close_matches(name, SCHEDULERS, n=1)
            there = f"did you mean {close[0]}?" if close else f"there are {', '.join(SCHEDULERS)}"
            raise ValueError(f"--scheduler: there is no {name!r}; {there}")
        if parts and name != "lookahead":
            raise ValueError(f"--scheduler: {name} has no parts; only lookahead has")
        LookaheadParts().changed(parts)
    if not wanted:
        raise ValueError(f"--scheduler: name one or more of {', '.join(SCHEDULERS)}")
    return list(dict.fromkeys(wanted))


def simulate(
    fleet: SimulatedFleet, name: str, days: int, seed: int | None = None, progress: Progress = lambda share: None
) -> Ledger:
    """Let `days` of the fleet pass under one scheduler. `seed` replaces the file's."""
    ledger = Ledger(fleet, machines_of(fleet, days, seed), days)
    scheduler, *parts = _words(name)
    if parts:
        _lookahead(ledger, progress, parts)
    else:
        SCHEDULERS[scheduler](ledger, progress)
    return ledger
