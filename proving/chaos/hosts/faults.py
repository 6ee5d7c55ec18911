"""The faults: each is a generator that changes the stage and yields the seconds until its next deed.

At its end nothing may be left that only an operator could repair: from then on everything has to heal by itself.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from proving.chaos.hosts.stage import WORKERS, HostsStage, both_ways
from proving.chaos.hosts.switch import CUT, FrameTrouble, FrameTroubles

Pauses = Iterator[float]
CLIENTS = (*WORKERS, "web", "tasks")
"""The hosts that have connections to the database."""
CUT_OFF = ("worker1", "web", "tasks")
"""The clients that are cut off from it; the other workers continue."""


@dataclass(frozen=True)
class Fault:
    """A fault and its setup. `pooled`: workers, web and qcluster reach the database through PgBouncer. `clocks`: host →
    seconds by which its clock is wrong. `synchronous`: a COMMIT waits for the replica."""

    summary: str
    play: Callable[[HostsStage], Pauses]
    pooled: bool = False
    clocks: Mapping[str, float] = field(default_factory=dict)
    synchronous: bool = False


def _network(stage: HostsStage, hosts: Iterable[str], troubles: FrameTroubles, seconds: float) -> Pauses:
    """Have `troubles` for `seconds`, in which `hosts` may be unable to renew."""
    with stage.renewals_in_doubt(*hosts):
        stage.trouble(troubles)
        yield seconds
        stage.trouble({})


def partition(stage: HostsStage) -> Pauses:
    cut = {way: CUT for host in CUT_OFF for way in both_ways(host)}
    yield from _network(stage, CUT_OFF, cut, 2 * stage.lease)


def deaf(stage: HostsStage) -> Pauses:
    yield from _network(stage, CUT_OFF, {("primary", host): CUT for host in CUT_OFF}, 2 * stage.lease)


def mute(stage: HostsStage) -> Pauses:
    yield from _network(stage, CUT_OFF, {(host, "primary"): CUT for host in CUT_OFF}, 2 * stage.lease)


def loss(stage: HostsStage) -> Pauses:
    lossy = FrameTrouble(loss=0.2)
    troubles = {way: lossy for host in CLIENTS for way in both_ways(host, "primary")}
    yield from _network(stage, WORKERS, troubles, 30)


def delay(stage: HostsStage) -> Pauses:
    slow = FrameTrouble(delay=2.0)
    yield from _network(stage, WORKERS, {("primary", host): slow for host in CLIENTS}, 30)


def no_notices(stage: HostsStage) -> Pauses:
    """Lose each frame with a notice and all later ones of that connection, which receives nothing more."""
    from jobs.wakeups import CANCEL_CHANNEL, CHANNEL, ROOM_CHANNEL  # takes Django's settings

    notices = [channel.encode() + b"\0" for channel in (CHANNEL, ROOM_CHANNEL, CANCEL_CHANNEL)]
    unheard = FrameTrouble(loss=1.0, concerns=lambda frame: any(each in frame for each in notices))
    yield from _network(stage, (), {("primary", host): unheard for host in WORKERS}, 30)


def promotion(stage: HostsStage) -> Pauses:
    """Promote the replica while the old primary lives on, answers, and takes no writes; no connection is broken."""
    with stage.renewals_in_doubt(*WORKERS):
        stage.pair.make_read_only()
        yield 4
        stage.pair.promote()


def power_loss(stage: HostsStage) -> Pauses:
    """Take the primary's host away without a word: clients with a connection to it wait for an answer."""
    with stage.renewals_in_doubt(*WORKERS):
        stage.trouble(dict.fromkeys(both_ways("primary"), CUT))
        stage.pair.one.stop_at_once()
        yield 2
        stage.pair.promote()


def lag(stage: HostsStage) -> Pauses:
    """Kill the server on a host that lives on, so that connections break at once. The new primary, which lacks the last
    ten seconds, is used while workers still run records that it does not know."""
    with stage.renewals_in_doubt(*WORKERS):
        stage.replica_lags()
        stage.trouble(dict.fromkeys(both_ways("primary", "replica"), CUT))
        yield 10
        stage.pair.one.stop_at_once()
        stage.pair.promote()


def pooler(stage: HostsStage) -> Pauses:
    with stage.renewals_in_doubt(*WORKERS):
        stage.pooler.kill()
        yield 4
        stage.pooler.start()


FAULTS: dict[str, Fault] = {
    "partition": Fault("the hosts of a worker, web and qcluster are cut off for two leases", partition),
    "deaf": Fault("they hear nothing from the database for two leases; what they send arrives", deaf),
    "mute": Fault("nothing that they send to the database arrives for two leases", mute),
    "loss": Fault("a fifth of all frames to and from the database is lost for 30 s", loss),
    "delay": Fault("what the database says takes 2 s longer, for 30 s", delay),
    "clocks": Fault(
        "as the first, with one clock 30 s fast and one 30 s slow", partition, clocks={"worker1": 30, "worker2": -30}
    ),
    "notices": Fault("no NOTIFY arrives for 30 s", no_notices),
    "promotion": Fault("the replica is promoted while connections stay open; the old primary is read-only", promotion),
    "power": Fault("the primary's host is gone; its synchronous replica is promoted", power_loss, synchronous=True),
    "lag": Fault("the primary dies; its asynchronous replica lacks the last ten seconds and is promoted", lag),
    "pooler": Fault("PgBouncer is killed and started 4 s later", pooler, pooled=True),
}
