"""The confinement of the process that works in a repository on this host: no link in there leads what it, rclone and
restic write to another place, whoever puts it there at any moment.

Besides the repository they write to temporary files, the folder for staged files, restic's cache and, next to a SQLite
database, its index of what is not yet in its file. All these are opened before the work begins.
"""

import os
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from external.processes.confinement import confine_writes
from external.processes.programs import ProgramMissing, find_rclone, find_restic
from storage.places.location import Location
from storage.places.rclone import BY_ACCOUNT

IN_A_REPOSITORY = frozenset({
    "back_up", "remove_points", "prune", "remove_folder", "check_files", "foreign_points", "copy_points",
})  # fmt: skip
"""The orders for a repository that exists. Others make one, or only ask."""
TEMPORARY_OF_SQLITE = "/var/tmp"  # noqa: S108 - SQLite takes it where TMPDIR is not set


def confine(do: str, facts: Mapping[str, Any]) -> None:
    """Confine this process to the folders in which an order may write, where the kernel can do that."""
    if sys.platform != "linux" or do not in IN_A_REPOSITORY:
        return
    with suppress(OSError):  # there is no directory for temporary files: the order reports it
        if (folders := writable(facts)) and not _have_more_rights():
            confine_writes(folders)


def writable(facts: Mapping[str, Any]) -> list[str]:
    """The folders in which the order with these `facts` may write; those of the scheduler are made. Empty if nothing is
    confined: no repository is on this host, or a remote uses accounts of the worker, and it is not known where the
    programs of these write.
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
        with suppress(OSError):  # what needs it will report it
            os.makedirs(each, 0o700, exist_ok=True)
    return [*here, tempfile.gettempdir(), *filter(None, ours), *_of_sqlite(source)]


def _of_sqlite(source: Mapping[str, Any]) -> tuple[str, ...]:
    if source.get("kind") != "sqlite":
        return ()
    return os.path.dirname(os.path.realpath(source.get("real_path") or source["path"])), TEMPORARY_OF_SQLITE


def _have_more_rights() -> bool:
    """True if an administrator lets rclone or restic read more than this account (`setcap`): whoever is not root can
    be confined only at the price of that.
    """
    for find in (find_rclone, find_restic) if os.geteuid() else ():
        with suppress(ProgramMissing, OSError):
            os.getxattr(find(), "security.capability")
            return True
    return False
