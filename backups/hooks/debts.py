"""Debts of workers that were killed, or stopped before they were done: the `after` of a hook whose `before` has run, or
may have run.

before `before` begins     a note is written into a folder on this host, under a lock for the time of the run
`before` has succeeded     `succeeded` is added to the name of the note
before `after` begins      `again` is added to it, too
when `after` has ended     the note is removed, as it is when `before` has failed by itself
the worker is killed       the note stays, and the kernel releases the lock

So a note without a lock is a debt. Workers on this host look for debts when they start and each minute, and the next
backup of the assignment looks before it begins. A mark is a word in the file's name, since a rename needs no space on a
full disk and happens as a whole or not at all.
"""

import json
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from django.conf import settings

from storage.places.locks import PATIENCE_SECONDS, Busy, held

log = logging.getLogger(__name__)

SUCCEEDED, AGAIN = "succeeded", "again"
"""Words in the name of a note: `before` has succeeded, and `after` has begun at least once."""

Pay = Callable[["Debt", dict[str, Any]], bool]
"""Pays a debt, given with the content of its note. Returns whether it is paid."""


class DebtUnpaid(Exception):
    """A debt of an earlier run cannot be paid now."""


class Debt:
    """A note, by its file: `ASSIGNMENT.json`, with `marks` in between, such as `7.succeeded.json`."""

    def __init__(self, file: Path) -> None:
        self.file = file
        number, *marks, _ = file.name.split(".")
        self.assignment, self.marks = int(number), set(marks)

    def mark(self, word: str) -> None:
        """Add a word to the name of the note, so that it outlives a power failure. On a disk that has become read-only
        that fails, with a line in the log."""
        if word not in self.marks:
            renamed = self.file.with_name(f"{self.file.name.removesuffix('.json')}.{word}.json")
            self.marks.add(word)
            try:
                self.file = self.file.rename(renamed)
                _flush(renamed.parent)
            except OSError as error:
                log.warning("cannot note at %s that it is %s: %s", self.file, word, error.strerror)

    def note(self) -> dict[str, Any] | None:
        """The note. None if it was cut off, so that no `before` has begun, or is paid. Raises: OSError."""
        with suppress(FileNotFoundError, ValueError):
            found: dict[str, Any] = json.loads(self.file.read_text())
            return found
        return None

    def mark_paid(self) -> None:
        """Remove the note."""
        with suppress(OSError):  # if the disk has become read-only since, `after` runs once more later
            self.file.unlink()


def root() -> Path:
    return Path(settings.VAR_DIR) / "hooks"


@contextmanager
def noted(assignment: int, note: dict[str, Any], pay: Pay) -> Iterator[Debt]:
    """Pay the debts of earlier runs, and owe this note until it is paid. A context manager around a run.

    Raises: Busy while another run of it holds its lock; DebtUnpaid; OSError if no note can be written.
    """
    root().mkdir(mode=0o700, parents=True, exist_ok=True)
    with held(_lock(assignment), f"the hook of assignment {assignment}", PATIENCE_SECONDS):
        if not all(_paid(debt, pay) for debt in debts() if debt.assignment == assignment):
            raise DebtUnpaid
        debt = Debt(root() / f"{assignment}.json")
        _write(debt.file, note)
        yield debt


def pay_all(pay: Pay) -> None:
    """Pay all debts on this host. Runs that are under way hold their locks."""
    for assignment in {debt.assignment for debt in debts()}:
        with suppress(Busy), held(_lock(assignment), "", patience=0):
            for debt in debts():
                if debt.assignment == assignment:
                    _paid(debt, pay)


def debts() -> list[Debt]:
    return [Debt(file) for file in root().glob("*.json") if file.name.partition(".")[0].isdecimal()]


def _paid(debt: Debt, pay: Pay) -> bool:
    note = debt.note()
    if note is not None and not pay(debt, note):
        return False
    debt.mark_paid()
    return True


def _write(file: Path, note: dict[str, Any]) -> None:
    """Write a note so that it is there after a power failure, too."""
    with open(file, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as opened:
        json.dump(note, opened)
        opened.flush()
        os.fsync(opened.fileno())
    _flush(file.parent)


def _flush(path: Path) -> None:
    """Have the kernel write the names in a directory. Raises: OSError."""
    directory = os.open(path, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _lock(assignment: int) -> Path:
    return root() / "locks" / str(assignment)
