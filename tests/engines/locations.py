"""Repositories of each kind, in a folder."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from storage.places import remotes
from storage.places.location import Location, of_directory
from tests.engines.served import serving
from tests.storage.disks import ownerless_disk
from tests.storage.renaming_disk import renaming_disk
from tests.storage.repositories import encrypted

SERVED = ("s3", "sftp", "webdav-other")
"""The last one keeps no times."""


@contextmanager
def location_of(kind: str, folder: Path) -> Iterator[Location]:
    """A repository in a folder, which is served where that is its kind."""
    if kind in SERVED:
        with serving(kind, folder) as (settings, secrets, path):
            yield remotes.location_of(path, settings, secrets, None)
    elif kind == "folding":
        with ownerless_disk(folder, "--vfs-case-insensitive") as disk:
            yield of_directory(disk)
    elif kind == "decomposes":
        with renaming_disk(folder, kind) as disk:
            yield of_directory(disk)
    else:
        yield encrypted(of_directory(folder)) if kind == "encrypted" else of_directory(folder)


def free(disk: Path) -> int:
    found = os.statvfs(disk)
    return found.f_bavail * found.f_frsize
