"""Everything that a fault can be done to, and what of it the audit must know."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

from jobs.clock import boot_seconds, database_clock
from proving.chaos.facts import Deeds
from proving.chaos.hosts.fleet import HostFleet
from proving.chaos.hosts.lan import Lan
from proving.chaos.hosts.processes import HostProcesses
from proving.chaos.hosts.servers import Pooler, ReplicatedPair
from proving.chaos.hosts.switch import FrameTroubles

WORKERS = ("worker1", "worker2", "worker3")
CLAIMED_IN_THE_LAG, DUE_AFTER_SECONDS = 12, 3.0
HOSTS = ("primary", "replica", "pooler", "web", "tasks", "laptop", *WORKERS)


@dataclass
class HostsStage:
    """The hosts, and what runs on them. `in_doubt`: host → spans of boot seconds in which its worker may be unable to
    renew what it runs, so that others may rescue that."""

    lan: Lan
    pair: ReplicatedPair
    pooler: Pooler
    processes: HostProcesses
    fleet: HostFleet
    lease: float
    deeds: Deeds
    in_doubt: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    lags_from: float | None = None
    """Since when commits may be lost with the primary; and what had been put on the backlog by then:"""
    put_before: frozenset[str] = frozenset()

    def trouble(self, troubles: FrameTroubles) -> None:
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
        """From now on commits may be lost with the primary. Long records that the replica has are claimed in a moment,
        which it will not learn."""
        from jobs import backlog  # takes Django's settings
        from jobs.models import RetryPolicy

        due_at = database_clock() + timedelta(seconds=DUE_AFTER_SECONDS)
        subjects = [f"long within the lag {number}" for number in range(CLAIMED_IN_THE_LAG)]
        backlog.enqueue(
            "long",
            [backlog.NewRecord(subject, {}, run_after=due_at) for subject in subjects],
            retry_policy_id=RetryPolicy.objects.get(name="up to None").pk,
        )
        self.deeds.subjects.update(dict.fromkeys(subjects, "long"))
        self.pair.catch_up()
        self.lags_from, self.put_before = boot_seconds(), frozenset(self.deeds.subjects)


def both_ways(host: str, *others: str) -> list[tuple[str, str]]:
    """The ways between `host` and each of the others, by default all."""
    return [way for other in others or HOSTS if other != host for way in ((host, other), (other, host))]
