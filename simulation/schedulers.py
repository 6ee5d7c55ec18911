"""The schedulers that a fleet can be simulated with, by name."""

from collections.abc import Callable, Sequence
from difflib import get_close_matches

from simulation import fifo, proactive
from simulation.fleet_file import SimulatedFleet
from simulation.lookahead.memory import MemoryWorld
from simulation.lookahead.worker import Progress, VirtualWorker
from simulation.lookahead.world import rows_of
from simulation.machines import machines_of
from simulation.results import Ledger

LONGEST_DAYS = 366


def _lookahead(ledger: Ledger, progress: Progress) -> None:
    world = MemoryWorld(rows_of(ledger.fleet, ledger.machines), ledger.fleet.units)
    VirtualWorker(ledger, world).run(progress)


SCHEDULERS: dict[str, Callable[[Ledger, Progress], None]] = {
    "fifo": lambda ledger, _: fifo.simulate(ledger),
    "proactive": lambda ledger, _: proactive.simulate(ledger),
    "lookahead": _lookahead,
}


def named(names: str) -> list[str]:
    """The schedulers of a list with commas. Raises: ValueError for one that there is not."""
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    for name in wanted:
        if name not in SCHEDULERS:
            close = get_close_matches(name, SCHEDULERS, n=1)
            there = f"did you mean {close[0]}?" if close else f"there are {', '.join(SCHEDULERS)}"
            raise ValueError(f"--scheduler: there is no {name!r}; {there}")
    if not wanted:
        raise ValueError(f"--scheduler: name one or more of {', '.join(SCHEDULERS)}")
    return list(dict.fromkeys(wanted))


def simulate(
    fleet: SimulatedFleet, name: str, days: int, seed: int | None = None, progress: Progress = lambda share: None
) -> Ledger:
    """Let `days` of the fleet pass under one scheduler. `seed` replaces the file's."""
    ledger = Ledger(fleet, machines_of(fleet, days, seed), days)
    SCHEDULERS[name](ledger, progress)
    return ledger


def needs(fleet: SimulatedFleet, names: Sequence[str]) -> int:
    """Roughly how much work it is, for a progress bar: sources times schedulers."""
    return len(fleet.sources) * len(names)
