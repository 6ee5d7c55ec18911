"""Folders in which restores work at a source; a killed restore leaves them behind.

A backup keeps them like any other folder, and names them in a warning. If a server lost a file while it moved the new
one over it, only such a folder has the new one. At most one batch of a restore is left behind.
"""

import os
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import suppress

from external.processes.runner import StopSignal
from storage.folders.staging import STAGING
from storage.points.files import shown

BESIDE = "backupsched-restore-"
OVER_FILES = re.compile(rf"(.+/)?{BESIDE}[0-9a-f]{{8}}")
"""The paths of folders from which files are moved over others (`engines/restores/replacing.py`)."""
LEFT = (
    "folders of a restore that was killed or is still at work, kept like all others, since one may hold the only copy "
    "of a file (restore again, which removes them, or look into them and delete them)"
)


def new_name() -> str:
    return f"{BESIDE}{secrets.token_hex(4)}"


def is_of_a_restore(path: str) -> bool:
    """True if a folder has such a name, or the name of the staging folder of a restore into a folder on this host."""
    return OVER_FILES.fullmatch(path) is not None or STAGING.fullmatch(path.rpartition("/")[2]) is not None


def left_below(top: str, is_left_out: Callable[[str], bool], stop: StopSignal) -> Iterator[str]:
    """The paths of such folders below a folder on this host, from there. A folder that cannot be read is passed over.
    `is_left_out`: decides by a path; `stop` ends it early.
    """
    waiting = [(top, "")]
    while waiting and not stop.is_set():
        folder, above = waiting.pop()
        with suppress(OSError), os.scandir(folder) as found:
            for each in found:
                if each.is_dir(follow_symlinks=False) and not is_left_out(path := f"{above}{shown(each.name)}"):
                    if is_of_a_restore(path):
                        yield path
                    waiting.append((each.path, f"{path}/"))
