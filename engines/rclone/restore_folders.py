"""Folders in which restores work at a source, and which killed ones leave there.

A backup keeps them like all others, and names them. Where a server has lost a file while it moved the new one over it,
the new one is in such a folder only; and what is left is one batch of a restore at the most.
"""

import re
import secrets

from storage.folders.staging import STAGING

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
    """True if a folder has such a name, or that of the staging folder of a restore into a folder of this host."""
    return OVER_FILES.fullmatch(path) is not None or STAGING.fullmatch(path.rpartition("/")[2]) is not None
