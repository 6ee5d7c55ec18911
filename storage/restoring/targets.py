"""Targets that a restore into a folder on this host may write to. They are checked before anything is written."""

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from external.processes import serving
from storage.folders import room
from storage.folders.beneath import Beneath, LinkOnTheWay
from storage.folders.own_folders import OwnFolders
from storage.folders.staging import STAGING
from storage.folders.walking import folders_below
from storage.places.location import Location
from storage.points.moving import SMALLEST_RESERVE
from storage.points.trees import Tree
from storage.restoring.base import RestoreRefused


def opened(folder: Path, *, make: bool = False) -> OwnFolders:
    """The target, open. `make`: create its missing parts. Raises: RestoreRefused if a link is on the way to it;
    OSError.
    """
    try:
        return OwnFolders.opened(folder, make=make)
    except LinkOnTheWay as error:
        raise RestoreRefused(f"{error}; name a folder") from None


def check(folder: Path, location: Location, tree: Tree) -> None:
    """Raises: RestoreRefused for a folder that cannot be written, for one that a link leads to, and for one in which
    the restore would write into its repository.
    """
    directory = location.directory
    if directory is not None:
        real = Path(os.path.realpath(directory))
        if folder.is_relative_to(real):
            raise RestoreRefused(f"{folder} is in the repository {directory}; name a folder outside of it")
        if real.is_relative_to(folder):
            inside = os.path.relpath(real, folder)
            if any(True for _ in tree.below(inside)):
                raise RestoreRefused(f"this would write into the repository {directory}; name another folder")
    existing, use = _existing(folder), "written"
    try:
        with opened(existing) as there, tempfile.TemporaryFile(dir=there.outside):
            use = "listed"
            if existing == folder:
                there.names()
    except OSError as error:
        raise RestoreRefused(f"{existing} cannot be {use} ({error.strerror}); name another folder") from None


def foreign(target: Beneath, expected: set[bytes], ask: Callable[[], None]) -> str | None:
    """A file in the target that this restore would not put there. Raises: OSError."""
    for way, _, entries in folders_below(target.descriptor):
        ask()
        if not way:
            entries[:] = [each for each in entries if not STAGING.fullmatch(each.name)]
        for each in entries:
            path = "/".join([*way, each.name])
            if not each.is_dir(follow_symlinks=False) and os.fsencode(path) not in expected:
                return path
    return None


def check_room(target: Path, size: int, way_out: str = "name another folder") -> None:
    """Raises: RestoreRefused if `size` bytes do not fit. `way_out`: advice in that case, next to restoring less."""
    existing = _existing(target)
    found = shutil.disk_usage(existing)
    free = int(max(0, found.free - room.reserve_of(found.total, SMALLEST_RESERVE if serving.reserve_percent else 0)))
    if size > free:
        raise RestoreRefused(
            f"{size:,} bytes are to be restored, and {existing} has {free:,} free; {way_out}, or restore some paths at "
            "a time"
        )


def _existing(path: Path) -> Path:
    """The nearest existing folder above a path, or the path itself."""
    return next(each for each in (path, *path.parents) if os.path.lexists(each))
