"""Waiting for other threads and processes, with a deadline."""

import time
from collections.abc import Callable
from typing import Any

PATIENCE = 60.0
"""Seconds that a test waits for what is to come at once: longer than a busy machine stands still. Only a test that
fails waits for so long."""


def eventually(condition: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    """Return what `condition` returns once it is true. Fails after `seconds`."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"did not come true within {seconds} s"
        time.sleep(0.05)
    return found
