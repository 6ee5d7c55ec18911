"""Everything that a fault can be done to, and what of it the audit must know."""

from dataclasses import dataclass, field

from jobs.clock import boot_seconds
from proving.chaos.hosts.fleet import HostFleet
from proving.chaos.hosts.lan import Lan
from proving.chaos.hosts.processes import Processes
from proving.chaos.hosts.servers import Pair, Pooler
from proving.chaos.hosts.switch import Trouble, Troubles

WORKERS = ("worker1", "worker2", "worker3")
HOSTS = ("primary", "replica", "pooler", "web", "tasks", "laptop", *WORKERS)


@dataclass
class Stage:
    """The hosts, and what runs on them. `cut_off`: host → spans of boot seconds in which its worker may be unable to
    renew what it runs, so that others may rescue that."""

    lan: Lan
    pair: Pair
    pooler: Pooler
    processes: Processes
    fleet: HostFleet
    lease: float
    cut_off: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    lost_from: float = float("inf")
    """Since when commits may be lost with the old primary."""

    def trouble(self, troubles: Troubles) -> None:
        """Let the network do this from now on, and nothing else."""
        self.lan.switch.troubles = dict(troubles)

    def between(self, one: str, others: tuple[str, ...], trouble: Trouble) -> dict[tuple[str, str], Trouble]:
        """The same on both ways between `one` host and each of the others."""
        return {way: trouble for other in others if other != one for way in ((one, other), (other, one))}

    def excuse(self, host: str, since: float) -> None:
        """Its worker may have lost leases from `since` until now."""
        self.cut_off.setdefault(host, []).append((since, boot_seconds()))
