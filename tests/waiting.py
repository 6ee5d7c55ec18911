"""Waiting for other processes, with a deadline."""

import time
from collections.abc import Callable
from typing import Any


def eventually(condition: Callable[[], Any], seconds: float = 25) -> Any:
    """Return what `condition` returns once it is true. Fails after `seconds`."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"did not come true within {seconds} s"
        time.sleep(0.05)
    return found
