"""Owners and modes of what is made in a folder of this host, where its file system knows them: a memory stick and many
network shares give all that is there an owner and modes of their own."""

import errno
import os
from contextlib import suppress
from typing import Any

NONE_KEPT = (errno.EPERM, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
"""What a file system says that knows no owners, or gives none away, as a share that takes root for nobody."""


def is_closed(found: os.stat_result) -> bool:
    """Whether it belongs to this process, and is closed to all others."""
    return found.st_uid == os.geteuid() and not found.st_mode & 0o077


def are_not_kept(folder: int, name: bytes) -> bool:
    """Whether the file system of an open folder cannot close anything to others. A file that is made there under this
    name, and removed, says so; by its descriptor, since who owns the folder could put another one in its place."""
    with suppress(OSError):
        made = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder)
        try:
            return not is_closed(os.fstat(made))
        finally:
            os.close(made)
            os.unlink(name, dir_fd=folder)
    return False


def give(what: int | bytes, owner: tuple[int, int], **where: Any) -> None:
    """Give a file, a folder or a link to an owner (uid, gid), as `os.chown` does, where there are owners. Raises:
    OSError."""
    try:
        os.chown(what, *owner, **where)
    except OSError as error:
        if error.errno not in NONE_KEPT:
            raise
