"""The confinement of the process that works in a repository on this host: no link, whoever puts it there and whenever,
leads the writes of this process, rclone and restic to another place.

In addition to the repository they write to temporary files, the folder for staged files, restic's cache and, next to a
SQLite database, the index of its write-ahead log. All these are opened before the work begins.
"""

import os
import sys
import tempfile
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from engines import engine_for
from external.processes.confinement import confine_writes
from external.processes.programs import ProgramMissing, find_rclone, find_restic
from storage.places.location import Location
from storage.places.rclone import BY_ACCOUNT
from storage.points.moving import NO_LINKS

IN_A_REPOSITORY = frozenset({
    "back_up", "remove_points", "prune", "remove_folder", "check_files", "foreign_points", "copy_points",
})  # fmt: skip
"""The orders for a repository that exists. Others make one, or only ask."""
TEMPORARY_OF_SQLITE = "/var/tmp"  # noqa: S108 - SQLite takes it where TMPDIR is not set
DEEPEST, MOST_LOOKED_AT, LOOK_SECONDS = 5, 20_000, 5.0
"""The levels of a repository with folders that a run makes or writes in; and the bounds of a look for links there."""
LINK_OUT = f"{{}} is a link to {{}}, out of the repository: {NO_LINKS}"

_confined_to: list[str] = []
"""The folders in which this process may write. Empty if it is not confined."""


def confine(do: str, facts: Mapping[str, Any]) -> None:
    """Confine this process to the folders in which an order may write, where the kernel can do that."""
    if sys.platform != "linux" or do not in IN_A_REPOSITORY:
        return
    with suppress(LookupError, ValueError, TypeError):  # the order reports it
        # its modules are compiled while that can be written
        engine_for(facts["task"]["source"]["kind"], facts["task"]["location"]["format"])
    with suppress(OSError):  # there is no directory for temporary files: the order reports it
        if (folders := writable(facts)) and not _have_more_rights() and confine_writes(folders):
            _confined_to[:] = map(os.path.realpath, folders)


def explained(problem: str, *places: Location) -> str:
    """The message of a failure; with the link that is its cause, if a part of a repository among `places` is behind
    one, where this process may not write.
    """
    if _confined_to and "permission denied" in problem.lower():
        for each in filter(None, (place.directory for place in places)):
            if found := _link_out_of(str(each)):
                return f"{found} ({problem})"
    return problem


def _link_out_of(repository: str) -> str:
    """A sentence about the first link in a repository to a place where this process may not write; empty if none is
    found in its upper levels.
    """
    waiting, looked_at, until = deque([(repository, 0)]), 0, time.monotonic() + LOOK_SECONDS
    while waiting and looked_at < MOST_LOOKED_AT and time.monotonic() < until:
        folder, depth = waiting.popleft()
        with suppress(OSError), os.scandir(folder) as entries:
            for each in entries:
                looked_at += 1
                if each.is_symlink():
                    real = os.path.realpath(each.path)
                    if not any(real == may or real.startswith(f"{may.rstrip('/')}/") for may in _confined_to):
                        return LINK_OUT.format(each.path, real)
                elif depth < DEEPEST and each.is_dir(follow_symlinks=False):
                    waiting.append((each.path, depth + 1))
    return ""


def writable(facts: Mapping[str, Any]) -> list[str]:
    """The folders in which the order with these `facts` may write; the scheduler's are made. Empty if nothing is
    confined: no repository is on this host, or a remote uses accounts of the worker, whose programs may write anywhere.
    """
    task = facts.get("task", facts)
    places = [Location.of_json(each) for each in (task.get("location"), task.get("target")) if each]
    here = [str(each.directory) for each in places if each.directory]
    source = task.get("source") or {}
    settings = {f"_{each.upper()}" for each in source.get("options", ())}.union(*(each.environment for each in places))
    if not here or any(map(BY_ACCOUNT.search, settings)):
        return []
    ours = [task.get("staging"), *(each.environment.get("RESTIC_CACHE_DIR") for each in places)]
    for each in filter(None, ours):
        with suppress(OSError):  # the step that needs it will report it
            os.makedirs(each, 0o700, exist_ok=True)
    return [*here, tempfile.gettempdir(), *filter(None, ours), *_of_sqlite(source)]


def _of_sqlite(source: Mapping[str, Any]) -> tuple[str, ...]:
    if source.get("kind") != "sqlite":
        return ()
    return os.path.dirname(os.path.realpath(source.get("real_path") or source["path"])), TEMPORARY_OF_SQLITE


def _have_more_rights() -> bool:
    """True if an administrator lets rclone or restic read more than this account (`setcap`): confining an account that
    is not root would take these rights away.
    """
    for find in (find_rclone, find_restic) if os.geteuid() else ():
        with suppress(ProgramMissing, OSError):
            os.getxattr(find(), "security.capability")
            return True
    return False
