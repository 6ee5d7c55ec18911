"""Everything that a fault can be done to, and what of it the audit must know."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from jobs.clock import boot_seconds
from proving.chaos.facts import Deeds
from proving.chaos.hosts.fleet import HostFleet
from proving.chaos.hosts.lan import Lan
from proving.chaos.hosts.processes import Processes
from proving.chaos.hosts.servers import Pair, Pooler
from proving.chaos.hosts.switch import Troubles

WORKERS = ("worker1", "worker2", "worker3")
HOSTS = ("primary", "replica", "pooler", "web", "tasks", "laptop", *WORKERS)


@dataclass
class Stage:
    """The hosts, and what runs on them. `in_doubt`: host → spans of boot seconds in which its worker may be unable to
    renew what it runs, so that others may rescue that."""

    lan: Lan
    pair: Pair
    pooler: Pooler
    processes: Processes
    fleet: HostFleet
    lease: float
    deeds: Deeds
    in_doubt: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    lags_from: float | None = None
    """Since when commits may be lost with the primary; and what had been put on the backlog by then:"""
    put_before: frozenset[str] = frozenset()

    def trouble(self, troubles: Troubles) -> None:
        """Let the network do this from now on, and nothing else."""
        self.lan.switch.troubles = dict(troubles)

    @contextmanager
    def renewals_in_doubt(self, *hosts: str) -> Iterator[None]:
        """Their workers may lose leases in the meantime, and until they have connections again."""
        began = boot_seconds()
        yield
        for host in hosts:
            self.in_doubt.setdefault(host, []).append((began, boot_seconds() + self.lease))

    def replica_lags(self) -> None:
        """From now on commits may be lost with the primary."""
        self.lags_from, self.put_before = boot_seconds(), frozenset(self.deeds.subjects)


def both_ways(host: str, *others: str) -> list[tuple[str, str]]:
    """The ways between `host` and each of the others, by default all."""
    return [way for other in others or HOSTS if other != host for way in ((host, other), (other, host))]
