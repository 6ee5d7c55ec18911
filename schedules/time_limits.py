"""How long one request may walk through time. A cron expression, a window and their number are chosen by whoever edits,
so a loop over triggers or openings has no bound of its own."""

import time
from collections.abc import Callable

LONGEST_SECONDS = 3.0
"""For a page or an answer: a thread of the website is busy for so long."""

LONGEST_LOOK_SECONDS = 600.0
"""For a person at a terminal."""

GoOn = Callable[[], None]
"""Called at each step. Raises: ValueError when the time is over."""


def for_ever() -> None:
    """Of what somebody waits for at a terminal, or whose steps are few."""


def within(seconds: float, what: str) -> GoOn:
    """For so many seconds from now on. `what`: takes longer, in words that end with what to do."""
    until = time.monotonic() + seconds

    def go_on() -> None:
        if time.monotonic() > until:
            raise ValueError(f"it takes more than {seconds:g} s to find {what}")

    return go_on
