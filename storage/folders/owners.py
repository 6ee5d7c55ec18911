"""Owners and modes of new files in a folder on this host, where its file system knows them: a memory stick and many
network shares give all their files one owner and mode.
"""

import errno
import os
from contextlib import suppress
from typing import Any

NONE_KEPT = (errno.EPERM, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
"""Error numbers of a file system that has no owners or does not let them be changed, such as a share that maps root to
the account nobody.
"""


def is_closed(found: os.stat_result) -> bool:
    """True if it belongs to this process and is closed to all other accounts."""
    return found.st_uid == os.geteuid() and not found.st_mode & 0o077


def are_not_kept(folder: int, name: bytes) -> bool:
    """True if the file system of an open folder cannot close anything to other accounts. A file that is made there
    under this name, and removed, shows it; it is looked at by its descriptor, since the owner of the folder could put
    another one in its place.
    """
    with suppress(OSError):
        made = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder)
        try:
            return not is_closed(os.fstat(made))
        finally:
            os.close(made)
            os.unlink(name, dir_fd=folder)
    return False


def give(what: int | bytes, owner: tuple[int, int], **where: Any) -> None:
    """Give a file, a folder or a link to an owner (uid, gid), as `os.chown` does, where the file system has owners.
    Raises: OSError.
    """
    try:
        os.chown(what, *owner, **where)
    except OSError as error:
        if error.errno not in NONE_KEPT:
            raise
