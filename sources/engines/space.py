"""The free space that backups leave on a repository's file system, so that one source cannot fill it for all.

Less than that before a run: the repository is full. When it gets less during a run, the run that wrote more than the
reserve has filled it and is ended at once; one that wrote little goes on until half of it is left, so that it does not
end for what another one does.
"""

import os
import time
from contextlib import suppress
from pathlib import Path

from sources.engines.base import RunEnded, Verdict

GIB = 2**30
LOOK_EVERY_SECONDS = 0.1
"""A disk that takes 5 GB a second gets 0.5 GB between two looks, half of the smallest reserve of a large disk."""


class Space:
    """The file system of `directory`, of which `percent` stay free, and at least 1 GiB, or a tenth if that is less.

    0: nothing has to stay free.
    """

    def __init__(self, directory: Path, percent: float) -> None:
        self._directory, self._percent = directory, percent
        self._look_at = float("-inf")

    def check_before(self) -> None:
        """Raises: RunEnded, when a run must not begin."""
        if said := self.lack():
            raise RunEnded(Verdict.REPOSITORY_FAILED, said)

    def check(self, written: int, growing: str) -> None:
        """Called often during a run that has `written` bytes; `growing` names what gets larger. Raises: RunEnded."""
        if (now := time.monotonic()) < self._look_at:
            return
        self._look_at = now + LOOK_EVERY_SECONDS
        if said := self.lack(written):
            raise RunEnded(
                Verdict.SOURCE_FAILED, f"it was ended because it fills the repository with {growing}: {said}"
            )

    def lack(self, written: float = float("inf")) -> str:
        """What is lacking for a run that has `written` so many bytes; empty: nothing, or that cannot be known."""
        with suppress(OSError):  # the engine will say so
            found = os.statvfs(self._directory)
            total, free = found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize
            reserve = max(total * self._percent / 100, min(GIB, total / 10)) if self._percent else 0
            if free < (reserve if written >= reserve else reserve / 2):
                return f"{_mib(free)} are free at {self._directory}, and {_mib(reserve)} have to stay free"
            if self._percent and found.f_favail < found.f_files / 100:
                return f"{found.f_favail:,} more files fit at {self._directory}, and {found.f_files / 100:,.0f} have to"
        return ""


def _mib(size: float) -> str:
    return f"{size / 2**20:,.1f} MiB"
