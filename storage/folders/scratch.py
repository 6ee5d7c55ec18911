"""Scratch folders on this host, for data on its way. Each is locked as long as it is used: one without a lock was left
by a process that was killed, and is removed by the next one that needs such a folder there, or by a worker that starts.
"""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from storage.folders.beneath import LIST, empty

PREFIX = "backupsched-scratch-"
"""The beginning of the name of a scratch folder, which may be in a folder that others use as well, such as /tmp."""


@contextmanager
def scratch_in(parent: Path) -> Iterator[Path]:
    """A folder in `parent` that is closed to other accounts, and removed at the end. Raises: OSError."""
    parent.mkdir(parents=True, exist_ok=True)
    remove_left(parent)
    folder, lock = _made(parent.resolve())
    try:
        yield folder
    finally:
        remove(folder)
        os.close(lock)


def remove(folder: Path) -> None:
    """Remove a folder, even with folders in it that were restored as read-only. What cannot be removed stays."""
    with suppress(OSError):
        opened = os.open(folder, LIST)
        try:
            empty(opened)
        finally:
            os.close(opened)
        os.rmdir(folder)


def remove_left(parent: Path) -> int:
    """Remove the scratch folders that killed processes of this account have left in `parent`. Returns how many."""
    found, removed = list[Path](), 0
    with suppress(OSError):
        found += parent.glob(f"{PREFIX}*")
    for left in found:
        with suppress(OSError):  # locked, or gone by now, or of another account
            lock = os.open(left, LIST)
            try:
                if os.fstat(lock).st_uid == os.geteuid():
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    remove(left)
                    removed += not os.path.lexists(left)
            finally:
                os.close(lock)
    return removed


def _made(parent: Path) -> tuple[Path, int]:
    """A new folder, and the descriptor that locks it. One that another process removes before it is locked is made
    again.
    """
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        with suppress(FileNotFoundError):
            lock = os.open(folder, LIST)
            with suppress(OSError):  # a file system without locks, where it is never removed by others
                fcntl.flock(lock, fcntl.LOCK_EX)
            if folder.exists():
                return folder, lock
            os.close(lock)
