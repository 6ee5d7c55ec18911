"""The site of the storm: two repositories of one kind, and the leases of the workers."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from storage.places import remotes
from storage.places.identity import Identity, digest_of
from storage.places.location import RESTIC, Location, of_directory
from storage.points.store import Store
from storage.recover import instructions
from storage.stores import store_of

KINDS = ("directory", "crypt", "remote", "shared", "timeless", "restic")
"""A folder on this host, the same encrypted, the same as a remote (so that nothing is locked), such a remote of two
installations (so that there is no lease either), a remote without file times, and restic's format.
"""
KEY = "k" * 43
FIRST, SECOND = "first", "second"
FOLDERS = ("a-1/p", "b-2/p")
"""The folders of the assignments; each begins with the name of the source."""


@dataclass(frozen=True)
class StorageSite:
    kind: str
    directory: Path

    @property
    def sources(self) -> Path:
        return self.directory / "sources"

    @property
    def disk(self) -> Path:
        """The folder of the repositories."""
        return self.directory / "disk"

    @property
    def over(self) -> Path:
        """A file that is there once the workers should end."""
        return self.directory / "over"

    def location(self, which: str) -> Location:
        path = self.disk / which
        match self.kind:
            case "directory":
                return of_directory(path)
            case "crypt":
                return remotes.location_of(str(path), {}, {}, KEY)
            case "restic":
                return remotes.location_of(str(path), {}, {}, KEY, format=RESTIC, cache=str(self.directory / "cache"))
        return Location(str(path), str(path))

    def identity(self, which: str) -> Identity:
        place = self.location(which)
        key = KEY if place.is_encrypted else None
        return Identity(which, which, place.is_encrypted, digest_of(key), format=place.format)

    def store(self, which: str) -> Store:
        return store_of(self.location(which), Event())

    def make(self) -> None:
        """Make both repositories."""
        for which in (FIRST, SECOND):
            (self.disk / which).mkdir(parents=True)
            self.store(which).make(self.identity(which), None if which == FIRST else self.location(FIRST))
            instructions.keep_current(self.store(which), self.identity(which))

    @contextmanager
    def lease(self, folder: str, worker: str) -> Iterator[bool]:
        """Take an assignment's folder for one worker. Yields True if that is possible, as it always is in a plain or
        encrypted folder on this host, where only a lock separates two runs, and for two installations."""
        file = self._lease_of(folder)
        if self.kind in ("directory", "crypt", "shared"):
            yield True
            return
        try:
            file.symlink_to(worker)  # never half written for a reader
        except FileExistsError:
            yield False
            return
        yield True
        file.unlink()

    def rescue(self, worker: str) -> None:
        """Give back the leases of a worker whose processes are gone."""
        for file in map(self._lease_of, FOLDERS):
            with suppress(FileNotFoundError):
                if os.readlink(file) == worker:
                    file.unlink()

    def _lease_of(self, folder: str) -> Path:
        return self.directory / f"lease-{folder.replace('/', '-')}"
