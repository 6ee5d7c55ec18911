"""The faults: each a generator that does something to the stage and yields the seconds until its next deed.

At its end nothing may be left that only an operator could mend: from there on everything has to heal by itself.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from jobs.clock import boot_seconds
from proving.chaos.hosts.stage import HOSTS, Stage
from proving.chaos.hosts.switch import CUT

Deeds = Iterator[float]


@dataclass(frozen=True)
class Fault:
    """`pooled`: workers, web and qcluster reach the database through PgBouncer. `clocks`: host → seconds by which its
    clock is wrong. `synchronous`: a COMMIT waits for the replica. `loses`: commits may be lost with the old primary."""

    summary: str
    play: Callable[[Stage], Deeds]
    pooled: bool = False
    clocks: Mapping[str, float] = field(default_factory=dict)
    synchronous: bool = False
    loses: bool = False


def partition(stage: Stage) -> Deeds:
    began = boot_seconds()
    stage.trouble(stage.between("worker1", HOSTS, CUT))
    yield 2 * stage.lease
    stage.trouble({})
    stage.excuse("worker1", began)


FAULTS: dict[str, Fault] = {
    "partition": Fault("one worker's host is cut off for two leases", partition),
}
