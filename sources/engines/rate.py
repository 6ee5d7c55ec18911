"""The least rate of a copy, for a policy that names one: without it a source that drips keeps its unit for a day."""

import time

from sources.engines.base import RunEnded, Verdict

WINDOW_SECONDS = 300.0
"""Over which the rate is taken. A link that stands still for a minute or two is nothing to end a backup for."""


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
