"""The faults: each a generator that does something to the stage and yields the seconds until its next deed.

At its end nothing may be left that only an operator could mend: from there on everything has to heal by itself.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from proving.chaos.hosts.stage import WORKERS, Stage, both_ways
from proving.chaos.hosts.switch import CUT, Trouble, Troubles

Deeds = Iterator[float]
CLIENTS = (*WORKERS, "web", "tasks")
"""The hosts that have connections to the database."""


@dataclass(frozen=True)
class Fault:
    """`pooled`: workers, web and qcluster reach the database through PgBouncer. `clocks`: host → seconds by which its
    clock is wrong. `synchronous`: a COMMIT waits for the replica."""

    summary: str
    play: Callable[[Stage], Deeds]
    pooled: bool = False
    clocks: Mapping[str, float] = field(default_factory=dict)
    synchronous: bool = False


def _network(stage: Stage, troubles: Troubles, seconds: float) -> Deeds:
    with stage.renewals_in_doubt(*{host for way in troubles for host in way if host in WORKERS}):
        stage.trouble(troubles)
        yield seconds
        stage.trouble({})


def partition(stage: Stage) -> Deeds:
    hosts = ("worker1", "web", "tasks")
    yield from _network(stage, {way: CUT for host in hosts for way in both_ways(host)}, 2 * stage.lease)


def deaf(stage: Stage) -> Deeds:
    hosts = ("worker1", "web", "tasks")
    yield from _network(stage, {("primary", host): CUT for host in hosts}, 2 * stage.lease)


def mute(stage: Stage) -> Deeds:
    hosts = ("worker1", "web", "tasks")
    yield from _network(stage, {(host, "primary"): CUT for host in hosts}, 2 * stage.lease)


def loss(stage: Stage) -> Deeds:
    lossy = Trouble(loss=0.2)
    yield from _network(stage, {way: lossy for host in CLIENTS for way in both_ways(host, "primary")}, 30)


def delay(stage: Stage) -> Deeds:
    slow = Trouble(delay=2.0)
    yield from _network(stage, {("primary", host): slow for host in CLIENTS}, 30)


def no_notices(stage: Stage) -> Deeds:
    """No frame with a notice arrives, nor what comes after it on that connection: it hears nothing more."""
    from jobs.wakeups import CANCEL_CHANNEL, CHANNEL, ROOM_CHANNEL  # takes Django's settings

    notices = [channel.encode() + b"\0" for channel in (CHANNEL, ROOM_CHANNEL, CANCEL_CHANNEL)]
    unheard = Trouble(loss=1.0, concerns=lambda frame: any(each in frame for each in notices))
    yield from _network(stage, {("primary", host): unheard for host in WORKERS}, 30)


def promotion(stage: Stage) -> Deeds:
    """The old primary lives on, answers, and takes no writes; no connection is broken."""
    with stage.renewals_in_doubt(*WORKERS):
        stage.pair.make_read_only()
        yield 4
        stage.pair.promote()


def power_loss(stage: Stage) -> Deeds:
    """The primary's host is gone without a word: whoever has a connection to it waits for an answer."""
    with stage.renewals_in_doubt(*WORKERS):
        stage.trouble(dict.fromkeys(both_ways("primary"), CUT))
        stage.pair.one.stop_at_once()
        yield 2
        stage.pair.promote()


def lag(stage: Stage) -> Deeds:
    """The server dies on a host that lives on, so connections break off at once, and the new primary, which lacks the
    last ten seconds, is asked for more while workers still run what it knows nothing of."""
    with stage.renewals_in_doubt(*WORKERS):
        stage.replica_lags()
        stage.trouble(dict.fromkeys(both_ways("primary", "replica"), CUT))
        yield 10
        stage.pair.one.stop_at_once()
        stage.pair.promote()


def pooler(stage: Stage) -> Deeds:
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
