"""The starting line: workers say that they stand before their first claim, and claim when they are let go.

Files, and not a pipe: the process that claims may be a grandchild of the one that was started (django-q2).
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
    """A directory in which each worker leaves a file `ready-PID`, and the parent one named `go`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def wait_at(self) -> None:
        """In a worker: say that it is ready, and return when it is let go. Raises: GateTimeout."""
        (self._directory / f"ready-{os.getpid()}").touch()
        _wait_until((self._directory / "go").exists, "the start of the measurement")

    def wait_for(self, workers: int, check: Callable[[], None]) -> None:
        """In the parent: return when as many workers are ready. `check()` raises when one has died."""

        def all_ready() -> bool:
            check()
            return sum(1 for _ in self._directory.glob("ready-*")) >= workers

        _wait_until(all_ready, f"{workers} workers")

    def open(self) -> None:
        """Let them go."""
        (self._directory / "go").touch()


def _wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + GIVE_UP_AFTER_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise GateTimeout(f"waited {GIVE_UP_AFTER_SECONDS:.0f} s for {what}, which did not come")
        time.sleep(LOOK_EVERY_SECONDS)
