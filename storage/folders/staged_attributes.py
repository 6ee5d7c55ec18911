"""Extended attributes of folders that another program has restored, on their way through a staging folder.

A folder there carries them itself, and the sticky bit once it has all of them: a folder without that bit was made for
the files in it, or by a process that was killed.
"""

import os
import stat
from base64 import b64encode
from contextlib import suppress
from pathlib import Path

DEFAULT_ACL = "system.posix_acl_default"
BARE, COMPLETE = 0o700, 0o1700
MOST_BYTES = 2**20
PROBES = ("user.backupsched", "trusted.backupsched")


def inherit_nothing(folder: Path) -> None:
    """Let what is made in a folder from now on have no ACL of that folder."""
    with suppress(OSError, AttributeError):  # it has none, or this system has no attributes
        os.removexattr(folder, DEFAULT_ACL)


def copy_attributes(given: int, staged: int) -> None:
    """Give a folder in the staging folder the attributes of another one, and no others."""
    if not hasattr(os, "setxattr"):
        return
    mode = BARE
    with suppress(OSError):
        wanted = os.listxattr(given)
        for name in os.listxattr(staged):
            if name not in wanted:  # inherited, or left by a process that was killed
                os.removexattr(staged, name)
        for name in wanted:
            os.setxattr(staged, name, os.getxattr(given, name))
        mode = COMPLETE
    os.fchmod(staged, mode)  # an ACL may have taken rights away


def attributes_of_staged(staged: int) -> dict[str, str] | None:
    """The attributes of a folder in the staging folder, as in a manifest. None if they have not come, or have more than
    `MOST_BYTES`. Raises: OSError.
    """
    if not os.fstat(staged).st_mode & stat.S_ISVTX:
        return None
    found, size = dict[str, str](), 0
    for name in os.listxattr(staged):
        value = os.getxattr(staged, name)
        if (size := size + len(value)) > MOST_BYTES:
            return None
        found[name] = b64encode(value).decode()
    return found


def takes_all_attributes(folder: int) -> bool:
    """True if this account can set all kinds of attributes there. A program may say nothing about those that it could
    not set, as restic does for one that is not root, and for a disk that has none.
    """
    try:
        for name in PROBES:
            os.setxattr(folder, name, b"")
            os.removexattr(folder, name)
    except (OSError, AttributeError):
        return False
    return os.geteuid() == 0
