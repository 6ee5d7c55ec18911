"""The copy of a source on disk, and the earlier versions of what changed in it.

    <destination>/current/                       the source as of the last successful run
    <destination>/versions/20261121T065755Z/     what the run started then replaced or deleted, as it was before
    <destination>/versions/20261121T065755Z.unfinished/    the same, while that run is under way
    <destination>/lock                           held by the run, and by its program even when the worker is killed

The engine moves a file to the unfinished version *before* it fetches the new one. So a run that ends badly can leave
holes in `current`; `finish(complete=False)` closes them: what `current` lacks is moved back, what was replaced stays
as a version. A run that was killed could not do that: the next one does it first (`begin`).
"""

import contextlib
import fcntl
import itertools
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

PARTIAL_SUFFIX = ".rclone-partial"
"""Ends the name of a file that is being fetched. Not more than 16 characters."""
LOCK_PATIENCE_SECONDS = 2.0
"""A program that was killed with its worker takes a moment to let go."""
UNFINISHED = ".unfinished"
DISCARDED = ".discarded"

Stopped = Callable[[], bool]
"""Whether to end now. It is asked between any two files: a tree may hold millions."""


Entry = TypeVar("Entry")


class StoppedHere(Exception):
    """It was stopped between two files. The next run begins where it ends."""


class DestinationBusy(Exception):
    """Another run writes to this destination. The message is for people."""


@dataclass(frozen=True)
class Copy:
    """The copy of one assignment in the repository."""

    destination: Path

    @property
    def current(self) -> Path:
        return self.destination / "current"

    @property
    def versions(self) -> Path:
        return self.destination / "versions"

    def begin(self, started_at: datetime, stopped: Stopped) -> Path:
        """Make the directories, heal after a run that was killed, return the directory for the new version.

        Raises: StoppedHere; OSError when the repository cannot be written.
        """
        self.current.mkdir(parents=True, exist_ok=True)
        self.versions.mkdir(exist_ok=True)
        interrupted = sorted(self.versions.glob("*" + UNFINISHED))
        for version in interrupted:
            self.finish(version, complete=False, stopped=stopped)
        version = self.versions / (unused_version_name(self.versions, started_at) + UNFINISHED)
        version.mkdir()
        return version

    def finish(self, version: Path, *, complete: bool, stopped: Stopped) -> None:
        """Turn an unfinished version into a kept one. Unless the run was complete, close the holes it left first.

        Raises: StoppedHere; OSError when the repository cannot be written.
        """
        if not complete:
            _remove_partial_files(self.current, stopped)
            _move_what_is_missing(version, self.current, stopped)
        if _remove_empty_directories(version, stopped):
            return
        version.rename(version.with_name(version.name.removesuffix(UNFINISHED)))

    def prune(self, keep: int, stopped: Stopped) -> None:
        """Remove all but the newest `keep` versions. Raises: StoppedHere, OSError."""
        for leftover in self.versions.glob("*" + DISCARDED):
            _remove_tree(leftover, stopped)
        names = sorted(path.name for path in self.versions.iterdir() if not path.name.endswith(UNFINISHED))
        for name in names[: max(0, len(names) - keep)]:
            # first out of sight, so that no half version is ever found
            discarded = self.versions / (name + DISCARDED)
            (self.versions / name).rename(discarded)
            _remove_tree(discarded, stopped)

    def measure(self, stopped: Stopped) -> tuple[int, int]:
        """Files in `current` and their bytes. Raises: StoppedHere, OSError."""
        files = size = 0
        for entry in _files_below(self.current, stopped):
            files += 1
            size += entry.stat(follow_symlinks=False).st_size
        return files, size


def version_name(started_at: datetime) -> str:
    """The name of the version of a run: its start in UTC, as 20261121T065755Z."""
    return started_at.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")


def unused_version_name(directory: Path, started_at: datetime, ending: str = "") -> str:
    """The same, numbered when `directory` has that one: two runs may start within one second."""
    name = version_name(started_at)
    names = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
    return next(name for name in names if not (directory / (name + ending)).exists())


@contextlib.contextmanager
def locked(destination: Path) -> Iterator[int]:
    """Hold the destination for one run. Yields the lock's file descriptor, for the program to inherit.

    Raises: DestinationBusy; OSError when the repository cannot be written.
    """
    destination.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(destination / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        deadline = time.monotonic() + LOCK_PATIENCE_SECONDS
        while not _try_lock(descriptor):
            if time.monotonic() >= deadline:
                raise DestinationBusy(f"another run still writes to {destination}")
            time.sleep(0.05)
        yield descriptor
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _asking(entries: Iterable[Entry], stopped: Stopped) -> Iterator[Entry]:
    for entry in entries:
        if stopped():
            raise StoppedHere
        yield entry


def _below(directory: Path, stopped: Stopped) -> Iterator[os.DirEntry[str]]:
    """Directories, each before what is in it, and files. Each may be moved or removed before the next is asked for."""
    open_directories = [os.fspath(directory)]
    while open_directories:
        with os.scandir(open_directories.pop()) as found:
            entries = list(_asking(found, stopped))
        for entry in _asking(entries, stopped):
            if entry.is_dir(follow_symlinks=False):
                open_directories.append(entry.path)
            yield entry


def _files_below(directory: Path, stopped: Stopped) -> Iterator[os.DirEntry[str]]:
    return (entry for entry in _below(directory, stopped) if not entry.is_dir(follow_symlinks=False))


def _remove_partial_files(directory: Path, stopped: Stopped) -> None:
    for entry in _files_below(directory, stopped):
        if entry.name.endswith(PARTIAL_SUFFIX):
            os.unlink(entry.path)


def _move_what_is_missing(version: Path, current: Path, stopped: Stopped) -> None:
    for entry in _files_below(version, stopped):
        home = current / os.path.relpath(entry.path, version)
        # the name may be another thing now (a file where a directory was): then the version keeps it
        with contextlib.suppress(FileExistsError, NotADirectoryError):
            home.parent.mkdir(parents=True, exist_ok=True)
            if not os.path.lexists(home):
                os.rename(entry.path, home)


def _remove_tree(directory: Path, stopped: Stopped) -> None:
    for entry in _files_below(directory, stopped):
        os.unlink(entry.path)
    _remove_empty_directories(directory, stopped)


def _remove_empty_directories(directory: Path, stopped: Stopped) -> bool:
    """Remove the empty directories from `directory` down. Returns whether it is gone itself."""
    found = [entry.path for entry in _below(directory, stopped) if entry.is_dir(follow_symlinks=False)]
    for path in _asking([*reversed(found), os.fspath(directory)], stopped):
        with contextlib.suppress(OSError):
            os.rmdir(path)
    return not directory.exists()
