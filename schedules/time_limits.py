"""The limit for a walk through time in one request. A cron expression, a window and their number are chosen by the user
who edits, so a loop over triggers or openings has no bound by itself.
"""

import time
from collections.abc import Callable

LONGEST_SECONDS = 3.0
"""The limit of a page or an answer, which keeps a thread of the website busy."""

LONGEST_LOOK_SECONDS = 600.0
"""Limit of a command at a terminal."""

TimeCheck = Callable[[], None]
"""Called at each step. Raises: ValueError when the time is over."""


def without_limit() -> None:
    """No limit: a user waits for it at a terminal, or its steps are few."""


def within(seconds: float, what: str) -> TimeCheck:
    """A limit of that many seconds from now on. `what` ends the error: the purpose of the work, and advice."""
    until = time.monotonic() + seconds

    def check_time() -> None:
        if time.monotonic() > until:
            raise ValueError(f"it takes more than {seconds:g} s to find {what}")

    return check_time
