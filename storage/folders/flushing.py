"""Waits until the kernel has written programs' data to disk: rclone leaves that to the kernel, which takes half a
minute.
"""

import ctypes
import errno
import os
import re
import threading
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from external.processes.runner import POLL_SECONDS, StopSignal
from storage.places.rclone import StorageStopped

LEFT_BEHIND = re.compile(r"\..+\.[0-9a-f]{8}\.new")
DAY = 86_400
REFUSALS = (errno.ENOSYS, errno.EPERM, errno.EACCES, errno.EOPNOTSUPP, errno.EINVAL)
"""Error numbers by which a sandbox, an old kernel or a file system refuses syncfs(2). A disk that failed returns a
different one.
"""
TELLS_SINCE = (5, 8)
"""The first Linux whose syncfs(2) reports that an earlier write has failed."""


def flush(folder: Path, stop: StopSignal, since: Collection[int] = ()) -> None:
    """Wait until everything that was written to the file system of `folder` is on its disk.

    `since`: descriptors that were opened before the writes. Linux reports a failed write to every descriptor that was
    open by then, but only to the first one of those opened later: that may belong to another run, which ends at the
    same time.

    Raises: OSError, also if the disk did not take earlier writes, unless `why_untold`; StorageStopped.
    """
    failures: list[OSError] = []

    def work() -> None:
        try:
            _flush(folder, since)
        except OSError as error:
            failures.append(error)

    at_work = threading.Thread(target=work, daemon=True)  # there may be gigabytes to write
    at_work.start()
    while at_work.is_alive():
        if stop.is_set():
            raise StorageStopped
        at_work.join(POLL_SECONDS)
    for failure in failures:
        raise failure


def why_untold() -> str:
    """The reason why `flush` cannot detect here that a disk did not take a write. Empty if it can."""
    if not (libc := _libc()):
        return "this system has no syncfs"
    if libc.syncfs(-1) and ctypes.get_errno() in REFUSALS:
        return f"syncfs is refused here: {os.strerror(ctypes.get_errno())}"
    release = os.uname().release
    version = re.match(r"(\d+)\.(\d+)", release)
    tells = version is None or (int(version[1]), int(version[2])) >= TELLS_SINCE
    return "" if tells else f"Linux reports it since 5.8, and this is {release}"


def _flush(folder: Path, since: Collection[int]) -> None:
    if not (libc := _libc()):
        os.sync()
        return
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        device = os.fstat(opened).st_dev
        for each in (*(each for each in since if os.fstat(each).st_dev == device), opened):
            if libc.syncfs(each):
                if ctypes.get_errno() not in REFUSALS:
                    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(folder))
                os.sync()
                break
        if os.fstatvfs(opened).f_flag & os.ST_RDONLY:  # by its errors: syncfs reports success then
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(folder))
    finally:
        os.close(opened)


def _libc() -> ctypes.CDLL | None:
    """The C library. None if it has no syncfs, such as that of macOS."""
    libc = ctypes.CDLL(None, use_errno=True)
    return libc if hasattr(libc, "syncfs") else None


def remove_left_behind(new: Path) -> None:
    """Remove files that `put` was writing when it was killed, next to a `new` file: those last written a day before it,
    by the clock of its disk.
    """
    old = new.stat().st_mtime - DAY
    for each in new.parent.glob(".*.new"):
        with suppress(OSError):  # another one does the same
            if LEFT_BEHIND.fullmatch(each.name) and each.stat().st_mtime < old:
                each.unlink()
