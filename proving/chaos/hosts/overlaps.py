"""Runs of the same thing at the same time. Pure.

The storm over one host counts an execution until it lost its attempt. Here nothing is forgiven: a worker that is cut
off has to stop its runs before another worker may begin with them.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from proving.chaos.facts import Execution


def overlaps(executions: Iterable[Execution], ended: dict[int, float]) -> Iterator[tuple[Execution, Execution, float]]:
    """Yields pairs of executions of one record, or under one exclusive key, and the seconds in which both ran. `ended`:
    process → its end, which is that of executions that were cut off with it."""
    groups: dict[object, list[Execution]] = defaultdict(list)
    for execution in executions:
        groups[execution.record_id].append(execution)
        if execution.exclusive_key and execution.queue != "ask":
            groups[execution.exclusive_key].append(execution)

    def end(execution: Execution) -> float:
        return ended[execution.pid] if execution.ended is None else execution.ended

    for group in groups.values():
        ordered = sorted(group, key=lambda each: each.began)
        for number, later in enumerate(ordered):
            for earlier in ordered[:number]:
                if (seconds := min(end(earlier), end(later)) - later.began) > 0:
                    yield earlier, later, seconds
