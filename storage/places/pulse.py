"""Notices an rclone that hangs although no server or disk keeps it waiting.

rclone prints its statistics twice a second (`--stats=500ms`), whatever it waits for. If it has printed some, and then
nothing for a minute, it is in a deadlock, as happens to rclone 1.75 with many small files and a limit
(docs/decisions/0157), or was stopped by a signal.
"""

import time
from collections.abc import Callable

STATS, LOGGED = '"stats":{', '{"time"'
SILENT_SECONDS = 60.0
SILENT_LOOKS = 300
"""Looks, ten a second: after this computer has slept for an hour, its clock alone proves nothing."""


class StoodStill(Exception):
    """An rclone that hangs. The message is for users."""


class Pulse:
    """Wraps the `on_line` and the `sign_of_life` of an rclone that prints statistics (`runner.run`)."""

    def __init__(self, on_line: Callable[[str], object], sign_of_life: Callable[[], object] | None = None) -> None:
        self._lines, self._looks = 0, 0
        self._on_line, self._sign_of_life = on_line, sign_of_life or (lambda: self._lines)
        self._heard_at = float("inf")

    def on_line(self, line: str) -> None:
        self._lines, self._looks = self._lines + 1, 0
        is_first = line.startswith(LOGGED) and STATS in line  # it may need minutes before, and a name is not statistics
        if is_first or self._heard_at < float("inf"):
            self._heard_at = time.monotonic()
        self._on_line(line)

    def sign_of_life(self) -> object:
        """Raises: StoodStill."""
        self._looks += 1
        if self._looks > SILENT_LOOKS and time.monotonic() - self._heard_at > SILENT_SECONDS:
            raise StoodStill(f"rclone hung: it printed nothing for {SILENT_SECONDS:.0f} s, and was ended")
        return self._sign_of_life()
