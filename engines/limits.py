"""What ends a run between two looks at its program: too little free space, or too slow a source.

Space: backups leave some free on a repository's file system, so that one source cannot fill it for all. Less than that
before a run: the repository is full. When it gets less during a run, the run that wrote more than the reserve has
filled it and is ended at once; one that wrote little goes on until half of it is left, so that it does not end for what
another one does.

Rate: where a policy names a least one. Without it a source that drips keeps its unit for a day.
"""

import os
import time
from contextlib import suppress
from pathlib import Path

from engines.base import RunEnded, Verdict
from external.processes.runner import StopSignal
from storage.folders import room

LOOK_EVERY_SECONDS = 0.1
"""A disk that takes 5 GB a second gets 0.5 GB between two looks, half of the smallest reserve of a large disk."""


WINDOW_SECONDS = 300.0
"""Over which the rate is taken. A link that stands still for a minute or two is nothing to end a backup for."""


class Space:
    """The file system of `directory`, of which `percent` stay free, and at least 1 GiB, or a tenth if that is less.

    0: nothing has to stay free. None: it is not known how much is free. `filled`: what comes of a run that fills it.
    """

    def __init__(self, directory: Path | None, percent: float, filled: Verdict = Verdict.SOURCE_FAILED) -> None:
        self._directory, self._percent, self._filled = directory, percent, filled
        self._look_at = float("-inf")

    def check_before(self) -> None:
        """Raises: RunEnded, when a run must not begin."""
        if lack := self.lack():
            raise RunEnded(Verdict.REPOSITORY_FAILED, lack)

    def check(self, written: int, growing: str) -> None:
        """Called often during a run that has `written` bytes; `growing` names what gets larger. Raises: RunEnded."""
        if (now := time.monotonic()) < self._look_at:
            return
        self._look_at = now + LOOK_EVERY_SECONDS
        if lack := self.lack(written):
            raise RunEnded(self._filled, f"it was ended because it fills the repository with {growing}: {lack}")

    def room(self) -> float:
        """Bytes that may be written now."""
        if self._directory is None:
            return float("inf")
        found = os.statvfs(self._directory)
        reserve = room.reserve_of(found.f_blocks * found.f_frsize, self._percent)
        return found.f_bavail * found.f_frsize - reserve

    def lack(self, written: float = float("inf")) -> str:
        """As `room.lack`; empty, too, where nothing is known of the file system."""
        return room.lack(self._directory, self._percent, written) if self._directory else ""


def room_of(directory: Path | None) -> tuple[int, int] | None:
    """Bytes that are free there, and that its file system has; None: not known, as of a remote."""
    with suppress(OSError):
        if directory:
            found = os.statvfs(directory)
            return found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize
    return None


class Later:
    """A stop signal that gives so many seconds more, from when it is first seen to be set."""

    def __init__(self, stop: StopSignal, seconds: float) -> None:
        self._stop, self._seconds, self._until = stop, seconds, float("inf")

    def is_set(self) -> bool:
        if self._stop.is_set():
            self._until = min(self._until, time.monotonic() + self._seconds)
        return time.monotonic() >= self._until


class InTime:
    """A stop signal that is set, too, once so many seconds are over."""

    def __init__(self, stop: StopSignal, seconds: float) -> None:
        self._stop, self._until = stop, time.monotonic() + seconds

    def is_set(self) -> bool:
        return self.is_stopped or time.monotonic() >= self._until

    @property
    def is_stopped(self) -> bool:
        """True if it is set by the signal itself: what then ends has not been too slow."""
        return self._stop.is_set()


class LeastRate:
    """`least`: bytes a second; None: any rate will do."""

    def __init__(self, least: int | None) -> None:
        self._least = least
        self._looked_at = time.monotonic()
        self._fetched_for, self._before = 0.0, 0

    def check(self, written: int, *, is_fetching: bool) -> None:
        """Called often during a run that has `written` bytes. Time in which nothing is fetched does not count: a
        million files that are only compared move no byte. Raises: RunEnded."""
        now = time.monotonic()
        self._fetched_for += now - self._looked_at if is_fetching else 0.0
        self._looked_at = now
        if self._least is None or self._fetched_for < WINDOW_SECONDS:
            return
        rate = (written - self._before) / self._fetched_for
        if rate < self._least:
            raise RunEnded(
                Verdict.SOURCE_FAILED,
                f"it was ended because it sent {rate:,.0f} bytes a second over {self._fetched_for:.0f} s, and the "
                f"least rate of its policy is {self._least:,}: see what slows it down, or lower that",
            )
        self._fetched_for, self._before = 0.0, written
