"""Free space that must remain on a file system on this host while something is written there."""

import os
from contextlib import suppress
from pathlib import Path

GIB = 2**30


def reserve_of(total: int, percent: float) -> float:
    """Bytes that stay free on a file system of `total` bytes: `percent` of it, and at least 1 GiB, or a tenth if that
    is less. 0 if `percent` is 0.
    """
    return max(total * percent / 100, min(GIB, total / 10)) if percent else 0


def lack(directory: Path, percent: float, written: float = float("inf")) -> str:
    """The shortage of space or of files at `directory`, for a writer that has written `written` bytes. Empty if nothing
    is short, or if that is unknown. A writer of little data continues until half of the reserve is left, so that
    another process's writes do not end it.
    """
    with suppress(OSError):  # the writer will report it
        found = os.statvfs(directory)
        total, free = found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize
        reserve = reserve_of(total, percent)
        if free < (reserve if written >= reserve else reserve / 2):
            return f"{_mib(free)} are free at {directory}, and {_mib(reserve)} have to stay free"
        if percent and found.f_favail < found.f_files / 100:
            return f"{found.f_favail:,} more files fit at {directory}, and {found.f_files / 100:,.0f} have to"
    return ""


def _mib(size: float) -> str:
    return f"{size / 2**20:,.1f} MiB"
