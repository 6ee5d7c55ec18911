"""How many records a worker claims at once.

Long handlers: one per free place, so that nothing waits in a claimed batch while another worker is free. Quick ones:
as many more as the places will get through in a moment, hundreds of no-ops.
"""

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
