"""Limits that end a run between two looks at its program: too little free space, or too slow a source.

Space: backups leave some space free on a repository's file system, so that one source cannot fill it for all. If there
is less before a run, the repository is full. If it becomes less during a run, the run that wrote more than the reserve
has filled it and is ended at once; a run that wrote little continues until half of the reserve is left, so that another
run does not end it.

Rate: applies if a policy names a least rate. Without one, a source that sends a byte now and then keeps its unit for a
day.
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
"""Seconds over which the rate is taken. A link that stalls for a minute or two is not a reason to end a backup."""


class Space:
    """The file system of `directory`, of which `percent` stay free, and at least 1 GiB, or a tenth if that is less.

    If `percent` is 0, nothing has to stay free. If `directory` is None, the free space is unknown. `filled`: the
    verdict on a run that fills it.
    """

    def __init__(self, directory: Path | None, percent: float, filled: Verdict = Verdict.SOURCE_FAILED) -> None:
        self._directory, self._percent, self._filled = directory, percent, filled
        self._look_at = float("-inf")

    def check_before(self) -> None:
        """Check the space before a run. Raises: RunEnded if it must not begin."""
        if lack := self.lack():
            raise RunEnded(Verdict.REPOSITORY_FAILED, lack)

    def check(self, written: int, growing: str) -> None:
        """Check the space; called often during a run that has `written` bytes. `growing` names what gets larger, empty
        if it is not known. Raises: RunEnded.
        """
        if (now := time.monotonic()) < self._look_at:
            return
        self._look_at = now + LOOK_EVERY_SECONDS
        if lack := self.lack(written):
            by = f" with {growing}" if growing else ""
            raise RunEnded(self._filled, f"it was ended because it fills the repository{by}: {lack}")

    def room(self) -> float:
        """Bytes that may be written now."""
        if self._directory is None:
            return float("inf")
        found = os.statvfs(self._directory)
        reserve = room.reserve_of(found.f_blocks * found.f_frsize, self._percent)
        return found.f_bavail * found.f_frsize - reserve

    def lack(self, written: float = float("inf")) -> str:
        """The same as `room.lack`; empty, too, if nothing is known of the file system."""
        return room.lack(self._directory, self._percent, written) if self._directory else ""


def room_of(directory: Path | None) -> tuple[int, int] | None:
    """The bytes that are free there, and the total of its file system; None if not known, such as those of a remote."""
    with suppress(OSError):
        if directory:
            found = os.statvfs(directory)
            return found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize
    return None


class Later:
    """A stop signal that gives some more seconds, counted from the moment when it was first found set."""

    def __init__(self, stop: StopSignal, seconds: float) -> None:
        self._stop, self._seconds, self._until = stop, seconds, float("inf")

    def is_set(self) -> bool:
        if self._stop.is_set():
            self._until = min(self._until, time.monotonic() + self._seconds)
        return time.monotonic() >= self._until


class InTime:
    """A stop signal that is also set once its time is over."""

    def __init__(self, stop: StopSignal, seconds: float) -> None:
        self._stop, self._until = stop, time.monotonic() + seconds

    def is_set(self) -> bool:
        return self.is_stopped or time.monotonic() >= self._until

    @property
    def is_stopped(self) -> bool:
        """True if it is set by the signal itself: a run that ends then was not too slow."""
        return self._stop.is_set()


class LeastRate:
    """The least rate of a run. `least`: bytes a second; None if any rate will do."""

    def __init__(self, least: int | None) -> None:
        self._least = least
        self._looked_at = time.monotonic()
        self._fetched_for, self._before = 0.0, 0

    def check(self, written: int, *, is_fetching: bool) -> None:
        """Check the rate; called often during a run that has `written` bytes. Time in which nothing is fetched does not
        count: a million files that are only compared move no byte. Raises: RunEnded.
        """
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
