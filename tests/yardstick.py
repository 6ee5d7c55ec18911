"""Bounds on the time of a processor that hold on a slow one, too."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

PIECE_SECONDS = 0.025
"""The seconds that the piece of work takes on a usual machine."""


@contextmanager
def of_a_processor(seconds: float) -> Iterator[None]:
    """The block takes less than these seconds of a usual processor, in this thread alone. A slower one, which takes
    longer for a piece of Python as well, has as much longer."""
    began = time.thread_time()
    yield
    took = time.thread_time() - began
    slowness = max(1.0, min(_piece() for _ in range(3)) / PIECE_SECONDS)
    assert took / slowness < seconds, f"{took:.3f} s on a processor that is {slowness:.1f} times slower than usual"


def _piece() -> float:
    began = time.thread_time()
    known = {}
    for number in range(60_000):
        known[str(number)] = len(f"{number:x}")
    sum(known.values())
    return time.thread_time() - began
