"""What a worker that was killed owes: the `after` of a hook whose `before` has run, or may have.

before `before` begins     a note is written into a folder of this host, under a lock that lasts as long as the run
when `after` has ended     the note is removed, and when `before` has failed
the worker is killed       the note stays, and the kernel lets go of the lock

So a note without a lock is owed. Workers of this host look for them when they start and each minute, and the next
backup of the assignment looks before it begins. It is paid once, however its `after` ends; a worker that is killed over
that leaves the note for the next one.
"""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from django.conf import settings

from sources.storage.locks import PATIENCE_SECONDS, Busy, held

Pay = Callable[[int, dict[str, Any]], bool]
"""Of an assignment, by its id, and a note. Returns whether it is paid."""


class Unpaid(Exception):
    """What is owed of an earlier run cannot be paid now."""


def root() -> Path:
    return Path(settings.VAR_DIR) / "hooks"


@contextmanager
def noted(assignment: int, note: dict[str, Any], pay: Pay) -> Iterator[None]:
    """For a run: pay what is owed of an earlier one, and owe this note as long as the block lasts.

    Raises: Busy while another run of it holds its lock; Unpaid; OSError where no note can be written.
    """
    root().mkdir(mode=0o700, parents=True, exist_ok=True)
    file = root() / f"{assignment}.json"
    with held(_lock(assignment), f"the hook of assignment {assignment}", PATIENCE_SECONDS):
        if not _paid(assignment, file, pay):
            raise Unpaid
        _write(file, note)
        try:
            yield
        finally:
            with suppress(OSError):  # on a disk that is read-only since, `after` runs once more later
                file.unlink()


def pay_all(pay: Pay) -> None:
    """What is owed on this host. Runs that are under way hold their locks."""
    for file in files():
        assignment = int(file.stem)
        with suppress(Busy), held(_lock(assignment), "", patience=0):
            if _paid(assignment, file, pay):
                file.unlink(missing_ok=True)


def files() -> list[Path]:
    return [file for file in root().glob("*.json") if file.stem.isdecimal()]


def _paid(assignment: int, file: Path, pay: Pay) -> bool:
    with suppress(FileNotFoundError, ValueError):  # of a note that was cut off no `before` has begun
        return pay(assignment, json.loads(file.read_text()))
    return True


def _write(file: Path, note: dict[str, Any]) -> None:
    """So that it is there after a power failure, too."""
    with open(file, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as opened:
        json.dump(note, opened)
        opened.flush()
        os.fsync(opened.fileno())
    directory = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _lock(assignment: int) -> Path:
    return root() / "locks" / str(assignment)
