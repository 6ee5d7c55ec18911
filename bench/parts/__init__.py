"""The parts, in the order in which they are run. Each has `run(stage)`."""

from collections.abc import Callable

from bench.parts import capped, claim, drain, enqueue, latency, memory, pinned
from bench.stage import Stage

PARTS: dict[str, Callable[[Stage], None]] = {
    "drain": drain.run,
    "enqueue": enqueue.run,
    "latency": latency.run,
    "capped": capped.run,
    "claim": claim.run,
    "pinned": pinned.run,
    "memory": memory.run,
}
