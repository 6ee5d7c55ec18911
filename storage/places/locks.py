"""The lock of an assignment's folder: one run at a time.

Where the repository is a folder on this host, the run's programs inherit the lock: a program that is stuck in the
kernel, or outlives its worker for a moment, still holds it. On a remote, the lease and the exclusive key of the run's
record are the lock.
"""

import contextlib
import fcntl
import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from storage.places.location import Location

PATIENCE_SECONDS = 2.0
"""The time that a program, killed with its worker, may take to release the lock."""


class Busy(Exception):
    """Another run works in this folder. The message is for users."""


@contextlib.contextmanager
def locked(location: Location, folder: str) -> Iterator[tuple[int, ...]]:
    """Hold the folder of an assignment. Yields the descriptors that its programs must inherit.

    Raises: Busy; OSError if the repository cannot be written.
    """
    if location.directory is None:
        yield ()
        return
    with held(_file(location.directory, location, folder), location.at(folder)) as descriptor:
        yield (descriptor,)


def is_in_place(location: Location, folder: str) -> bool:
    """True if the lock file of a folder that is held is where it was made: False once the repository was moved away
    or its disk unmounted. Its inode is not compared: some network file systems give a file another one at any time.
    """
    return location.directory is None or _file(location.directory, location, folder).exists()


@contextlib.contextmanager
def held(file: Path, what: str, patience: float = PATIENCE_SECONDS) -> Iterator[int]:
    """Hold a lock file, which is made if it is missing, for `what`. Yields its descriptor. Raises: Busy, OSError."""
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        deadline = time.monotonic() + patience
        while not _try_lock(descriptor):
            if time.monotonic() >= deadline:
                raise Busy(f"another run still works in {what}")
            time.sleep(0.05)
        yield descriptor
    finally:
        os.close(descriptor)


def _file(directory: Path, location: Location, folder: str) -> Path:
    """The lock file of a folder: names of sources stay hidden where they are encrypted."""
    if location.is_plain and not location.is_encrypted:
        return directory / folder / "lock"
    return directory / "locks" / hashlib.sha256(folder.encode()).hexdigest()[:16]


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
