"""What a restore into a folder of this host may write to. It is asked before anything is written."""

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from sources.storage.location import Location
from sources.storage.places import Refused
from sources.storage.trees import Tree


def check(folder: Path, location: Location, tree: Tree) -> None:
    """Raises: Refused for a folder that cannot be written, or in which the restore would write into its repository."""
    directory, target = location.directory, os.path.realpath(folder)
    if directory is not None:
        real = os.path.realpath(directory)
        if Path(target).is_relative_to(real):
            raise Refused(f"{folder} lies in the repository {directory}; name a folder outside of it")
        if Path(real).is_relative_to(target):
            inside = os.path.relpath(real, target)
            if any(True for _ in tree.below(inside)):
                raise Refused(f"this would write into the repository {directory}; name another folder")
    existing = _existing(Path(target))
    if not existing.is_dir():
        raise Refused(f"{existing} is not a directory; name a folder")
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        raise Refused(f"{existing} cannot be written ({error.strerror}); name another folder") from None


def foreign(target: Path, staging: Path, expected: set[bytes], ask: Callable[[], None]) -> str | None:
    """A file in the target that this restore would not put there."""
    for folder, names, files in os.walk(os.fsencode(target)):
        ask()
        if folder == os.fsencode(target):
            names[:] = [each for each in names if each != os.fsencode(staging.name)]
        for name in (*files, *(each for each in names if os.path.islink(os.path.join(folder, each)))):
            if os.path.join(folder, name) not in expected:
                return os.fsdecode(os.path.relpath(os.path.join(folder, name), os.fsencode(target)))
    return None


def check_room(target: Path, size: int, way_out: str = "name another folder") -> None:
    """Raises: Refused when `size` bytes do not fit. `way_out`: what to do then, beside restoring less."""
    existing = _existing(target)
    free = shutil.disk_usage(existing).free
    if size > free:
        raise Refused(
            f"{size:,} bytes are to be restored, and {existing} has {free:,} free; {way_out}, or restore some paths at "
            "a time"
        )


def _existing(path: Path) -> Path:
    """The nearest folder above a path, or itself, that is there."""
    return next(each for each in (path, *path.parents) if os.path.lexists(each))
