"""In a fresh clone all tests are compiled. Each process of pytest-xdist would compile them all, since they collect at
the same time: here the first of them does, and the others wait for it."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]


def note_it(var_dir: Path) -> None:
    """For the processes that start from now on. What pytest keeps for the next session shows that there was one."""
    if not (ROOT / ".pytest_cache").exists():
        (var_dir / "fresh").touch()


@contextmanager
def compiled_once(var_dir: Path) -> Iterator[None]:
    """The block imports all tests: in a fresh clone one process does at first, and the others once it has."""
    fresh = var_dir / "fresh"
    if "PYTEST_XDIST_WORKER" in os.environ and fresh.exists():
        with (var_dir / "compiling.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if fresh.exists():
                yield
                fresh.unlink()
                return
    yield
