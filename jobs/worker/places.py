"""What both kinds of places share: how a handler is called, what its end means, and how many records they are worth.

A worker claims of long handlers one record per free place, so that nothing waits in a claimed batch while another
worker is free; of quick ones as many more as the places will get through in a moment, hundreds of no-ops.
"""

import logging
import traceback
from collections.abc import Callable
from typing import Any, Protocol, cast

from jobs.handlers import Handler, Run, registry
from jobs.log_fields import handled
from jobs.outcomes import OUTCOMES, Failed, Outcome, Released

log = logging.getLogger(__name__)

Done = Callable[[Run, Outcome], None]
"""Called with the one outcome of each run, from whatever thread it ended in."""


class Places(Protocol):
    """The places of one queue in which handlers run. What was put in waits until a place takes it.

    `seconds` and `count` add up how long handlers took and how many ended; they only ever grow.
    """

    def put(self, runs: list[Run]) -> None:
        """Hand over runs in the order in which they are to begin. From the main thread only."""

    def take_back(self) -> list[Run]:
        """Those that no place has taken yet, out of their hands again. From the main thread only."""

    def in_hand(self) -> int:
        """How many were put in and have not ended."""

    def waiting(self) -> int:
        """How many no place has taken yet."""

    def busy(self) -> list[Run]:
        """Those whose handler runs now."""

    def spent(self) -> tuple[float, int]:
        """Seconds that handlers have taken since the start, and how many have ended."""

    def stop(self, run: Run) -> None:
        """Tell the handler of a run to end, or keep it from beginning."""

    def close(self) -> None:
        """Begin nothing more. Handlers that are busy are left behind."""


def handler_of(run: Run) -> Handler:
    """To be called where the handler is: log lines from there name its record."""
    handled.set(run.record)
    return registry.find(run.record.kind, run.record.queue)


def failure(run: Run, error: BaseException) -> Failed:
    """What a handler that raised has done."""
    record = run.record
    log.error("handler of %s %s raised", record.kind, record.subject, exc_info=error)
    last = traceback.extract_tb(error.__traceback__)[-1]
    return Failed(f"{type(error).__name__}: {error} (in {last.name}, line {last.lineno} of {last.filename})")


def ended(run: Run, outcome: Any) -> Outcome:
    """What counts as the outcome of a handler that returned `outcome`."""
    if type(outcome) not in OUTCOMES and not isinstance(outcome, Outcome):  # the first question is ten times quicker
        return Failed(f"the handler returned {outcome!r:.200}, which is no outcome")
    if run.ran_out and isinstance(outcome, Released):
        return Failed(f"stopped: it ran for longer than the {run.limit:g} s that it may take")
    return cast("Outcome", outcome)


NOT_BEGUN = Released("stopped before it began")


def may_begin(run: Run, now: float, deadline: float) -> bool:
    """Whether a run that was taken at `now` (boot seconds) may begin: not if it was stopped while it waited, nor if it
    was last renewed longer than `deadline` seconds ago, since a machine that slept may have lost it."""
    return now - run.renewed_at <= deadline and not run.is_stopped


AHEAD_SECONDS = 0.05
"""Claimed records wait for a place for about this long at most."""

MAX_CLAIM = 1000
"""Records in one claim: more in one statement gain nothing."""

MAX_AHEAD = 2 * MAX_CLAIM
"""One batch is claimed while the one before is worked through."""

NEW_WEIGHT = 0.5


class Pace:
    """What one queue's handlers take, learnt from what they took."""

    def __init__(self) -> None:
        self.mean_seconds: float | None = None
        self._seen = (0.0, 0)

    def learn(self, seconds: float, count: int) -> None:
        """Take notice of the time spent and the number of handlers that ended, both since the start."""
        ended = count - self._seen[1]
        if ended <= 0:
            return
        mean = (seconds - self._seen[0]) / ended
        known = mean if self.mean_seconds is None else self.mean_seconds
        self.mean_seconds = NEW_WEIGHT * mean + (1 - NEW_WEIGHT) * known
        self._seen = (seconds, count)

    def ahead(self, places: int) -> int:
        """How many records to hold beyond one per place, for `places` that are not stuck in something long."""
        if self.mean_seconds is None or places <= 0:
            return 0
        return min(MAX_AHEAD, int(places * AHEAD_SECONDS / max(self.mean_seconds, 1e-9)))
