"""Handler starts, for the latency: lines with job number and instant in a file that all processes append to."""

import os
import time
from collections.abc import Callable
from pathlib import Path


def stamper(path: Path) -> Callable[[int], None]:
    """A function that records that the handler of a job has been called now."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def stamp(number: int) -> None:
        now = time.monotonic_ns()
        os.write(file, f"{number} {now}\n".encode())

    return stamp


def read_stamps(path: Path) -> dict[int, int]:
    """Job number → instant (monotonic, ns) of its first start."""
    found: dict[int, int] = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        number, instant = line.split()
        found.setdefault(int(number), int(instant))
    return found
