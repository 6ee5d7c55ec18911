"""When a running backup has to stop because its window closes."""

from jobs.clock import boot_seconds
from sources.engines.base import StopSignal


class StopAtClose:
    """A stop signal that is also set once `seconds` are over (None: never). `closed` says that this was why."""

    def __init__(self, stop: StopSignal, seconds: float | None) -> None:
        self._stop = stop
        self._at = None if seconds is None else boot_seconds() + seconds

    @property
    def closed(self) -> bool:
        """Whether the time is over."""
        return self._at is not None and boot_seconds() >= self._at

    def is_set(self) -> bool:
        return self._stop.is_set() or self.closed
