"""The stage: everything that a fault can change, and the facts about it that the audit needs."""

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
    """The hosts and their processes. `in_doubt`: host → spans of boot seconds in which its worker may be unable to
    renew its runs, so that others may rescue them."""

    lan: Lan
    pair: ReplicatedPair
    pooler: Pooler
    processes: HostProcesses
    fleet: HostFleet
    lease: float
    deeds: Deeds
    in_doubt: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    lags_from: float | None = None
    """The instant from which commits may be lost with the primary, then the subjects that were enqueued until it:"""
    put_before: frozenset[str] = frozenset()

    def trouble(self, troubles: FrameTroubles) -> None:
        """Give the network these troubles from now on, and no others."""
        self.lan.switch.troubles = dict(troubles)

    @contextmanager
    def renewals_in_doubt(self, *hosts: str) -> Iterator[None]:
        """Expect that these hosts' workers may lose leases inside the block, and until they have connections again."""
        began = boot_seconds()
        yield
        for host in hosts:
            self.in_doubt.setdefault(host, []).append((began, boot_seconds() + self.lease))

    def replica_lags(self) -> None:
        """Let the replica lag from now on, so that commits may be lost with the primary. The replica has long records
        that are claimed in a moment, and will not receive the claims."""
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
    """The directions between `host` and each of the others, by default all."""
    return [way for other in others or HOSTS if other != host for way in ((host, other), (other, host))]
