"""The parts, in the order in which they run. Each has `run(stage)`."""

from collections.abc import Callable

from proving.bench.parts import (
    capped,
    check_in,
    claim,
    copies,
    crowd,
    decide,
    delivery,
    drain,
    emission,
    enqueue,
    events,
    latency,
    memory,
    outage,
    pages,
    pinned,
    poison,
    sweep,
)
from proving.bench.stage import Stage

PARTS: dict[str, Callable[[Stage], None]] = {
    "drain": drain.run,
    "enqueue": enqueue.run,
    "latency": latency.run,
    "capped": capped.run,
    "claim": claim.run,
    "pinned": pinned.run,
    "memory": memory.run,
    "decide": decide.run,
    "emission": emission.run,
    "events": events.run,
    "delivery": delivery.run,
    "sweep": sweep.run,
    "check-in": check_in.run,
    "crowd": crowd.run,
    "poison": poison.run,
    "outage": outage.run,
    "copies": copies.run,
    "pages": pages.run,
}
