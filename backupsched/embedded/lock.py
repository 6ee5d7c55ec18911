"""The lock of the embedded server's files: one process at a time starts, stops or upgrades it.

The file names its holder, for the message to others: one that was stopped (Ctrl-Z) in the middle of a start keeps it.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from backupsched.embedded.layout import OTHERWISE, EmbeddedDatabaseAway

START_SECONDS = 60
LOCK_SECONDS = 5.0 * START_SECONDS
"""More than a stop, a first start's files and a start take together. An upgrade takes longer: others try again."""
LOOK_SECONDS = 0.05
LONGEST_PID = 20


@contextmanager
def held(file: Path, patience: float = LOCK_SECONDS) -> Iterator[None]:
    """Hold a lock file, which is made if it is missing, once it is free. Raises: EmbeddedDatabaseAway if another
    process does not release it within `patience` seconds; OSError.
    """
    # a user that could open it could hold it, and keep every process waiting
    lock = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        deadline = time.monotonic() + patience
        while not _try_lock(lock):
            if time.monotonic() >= deadline:
                raise EmbeddedDatabaseAway(_taken(file, lock, patience))
            time.sleep(LOOK_SECONDS)
        with suppress(OSError):  # the disk is full
            os.ftruncate(lock, 0)
            os.pwrite(lock, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(lock)


def _try_lock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _taken(file: Path, lock: int, patience: float) -> str:
    pid = os.pread(lock, LONGEST_PID, 0).decode(errors="replace")
    return (
        f"{file} is held by {f'process {pid}' if pid else 'another process'}, for more than {patience:.0f} s. Only its "
        "holder may start or stop the embedded PostgreSQL. Wait for it if it is `database upgrade`; continue it if it "
        f"was stopped with Ctrl-Z (`fg`, or `kill -CONT {pid or 'PID'}`); otherwise end it "
        f"(`kill -KILL {pid or 'PID'}`), {OTHERWISE}"
    )
