"""Counts the handlers that were called, across processes, at some tens of nanoseconds a call.

It is a mapped file with a slot of eight bytes per process. The first slot has the number of slots taken.
"""

import fcntl
import itertools
import mmap
import os
from pathlib import Path

SLOTS = 64
BYTES = 8


class Tally:
    """The counter in `path`; made by the parent with `create`. Each process takes a slot at its first `tick`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with path.open("r+b") as file:
            self._view = memoryview(mmap.mmap(file.fileno(), SLOTS * BYTES)).cast("Q")
        self._slot = 0
        self._owner = 0
        self._numbers = itertools.count(1)

    @classmethod
    def create(cls, path: Path) -> "Tally":
        path.write_bytes(bytes(SLOTS * BYTES))
        return cls(path)

    def take_slot(self) -> None:
        """Give this process its slot: once, and again after a fork. Before any of its threads ticks."""
        if self._owner == os.getpid():
            return
        with self._path.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            self._view[0] += 1
            self._slot = self._view[0]
        self._numbers = itertools.count(1)
        self._owner = os.getpid()

    def tick(self) -> None:
        """Count one. Among threads a late write may hide the last few until `settle`."""
        self._view[self._slot] = next(self._numbers)

    def settle(self) -> None:
        """Make the count exact, once no worker ticks any more."""
        if self._owner == os.getpid():
            self._view[self._slot] = next(self._numbers) - 1

    def total(self) -> int:
        """The count of all processes."""
        return sum(self._view[1:])
