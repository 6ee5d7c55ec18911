"""The starting line: workers report that they are about to claim, and claim when they are let go.

It consists of files and not of a pipe: the claiming process may be a grandchild of the started one (django-q2).
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

LOOK_EVERY_SECONDS = 0.0005
GIVE_UP_AFTER_SECONDS = 90.0


class GateTimeout(Exception):
    """A process did not arrive in time."""


class Gate:
    """A directory in which each worker creates a file `ready-PID`, and the parent one named `go`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def wait_at(self) -> None:
        """Report this worker as ready, and return when it is let go. Raises: GateTimeout."""
        (self._directory / f"ready-{os.getpid()}").touch()
        _wait_until((self._directory / "go").exists, "the start of the measurement")

    def wait_for(self, workers: int, check: Callable[[], None]) -> None:
        """Wait in the parent until this many workers are ready. `check()` raises if one has died."""

        def all_ready() -> bool:
            check()
            return sum(1 for _ in self._directory.glob("ready-*")) >= workers

        _wait_until(all_ready, f"{workers} workers")

    def open(self) -> None:
        """Let the workers go."""
        (self._directory / "go").touch()


def _wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + GIVE_UP_AFTER_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise GateTimeout(f"{what} did not come within {GIVE_UP_AFTER_SECONDS:.0f} s")
        time.sleep(LOOK_EVERY_SECONDS)
