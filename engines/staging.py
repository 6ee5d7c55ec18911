"""A directory on this host for one assignment, which stores files that cannot go into its repository directly.

It stays between runs, so that the next one fetches only changes, and is removed with its assignment
(`backups.copying.staging`). It holds the source's data unencrypted: no other account may look into it.
"""

import hashlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from engines.base import BackupTask, RunEnded, Verdict
from engines.limits import Space
from storage.folders import scratch
from storage.places.locks import Busy, held

LOCKS = "locks"


@contextmanager
def staged(task: BackupTask) -> Iterator[Path]:
    """The directory of a task's assignment, for this run alone as long as the block lasts. Files that are written there
    in the meantime are watched by `limits.Space`, as in a repository.

    Raises: RunEnded when too little space is free; Busy while another run works there; OSError.
    """
    root = Path(task.staging)
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    with held(_lock(root, task.folder), str(root / task.folder)):
        directory = root / task.folder
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if lack := Space(root, task.reserve).lack():
            raise RunEnded(Verdict.SOURCE_FAILED, f"there is no room to stage it on this host: {lack}")
        yield directory


def unused(root: Path, used: Collection[str]) -> list[str]:
    """The folders of assignments that have a directory there, and are not among `used`."""
    with suppress(FileNotFoundError, NotADirectoryError):
        found = (each for each in root.glob("*/*") if each.is_dir() and each.parent.name != LOCKS)
        return sorted(folder for each in found if (folder := str(each.relative_to(root))) not in used)
    return []


def remove(root: Path, folder: str) -> bool:
    """Remove the directory of an assignment. Returns False, and leaves it, while a run works there."""
    try:
        with held(_lock(root, folder), folder, patience=0):
            scratch.remove(root / folder)
            with suppress(OSError):
                (root / folder).parent.rmdir()  # it may hold another one
    except Busy:
        return False
    return not (root / folder).exists()


def _lock(root: Path, folder: str) -> Path:
    return root / LOCKS / hashlib.sha256(folder.encode()).hexdigest()[:16]
