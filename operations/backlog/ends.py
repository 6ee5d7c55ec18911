"""The expected end of a running record, from its progress and from earlier durations. Pure.

Progress predicts elapsed × ((total - done) / done + TAIL) for the rest: the average rate so far, and a tail in which no
bytes are counted. Decision 0161 compares it with real runs. Once a tenth of the bytes are done, the error of its
logarithm is 0.55 (one standard deviation), whatever the share; that of earlier durations is 0.7 at a third of the
bytes, and 1.9 at the end. So the two are combined, as a weighted mean of their logarithms, with weights close to those
of the least error. Before a tenth, listing and comparing take most of the time, and progress predicts nothing.
"""

import random
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from math import exp, inf
from typing import Any, NamedTuple

TAIL = 0.05
"""The time after the last byte, relative to the time before it."""
LEAST_SHARE, LEAST_SECONDS = 0.1, 5.0
"""The least share of the bytes, and the least seconds of a run, for its progress to count."""
SPREAD = 0.55
"""The standard deviation of the logarithm of the rest that progress predicts."""
STALE_AFTER = timedelta(seconds=60)
"""A working engine reports at least every few seconds."""
SHORTEST = 1.0


class RunProgress(NamedTuple):
    """The share of its bytes, 0.1 to 1, that a run had done after `seconds`."""

    share: float
    seconds: float

    @property
    def weight(self) -> float:
        """The weight of progress, 0.73 to 1; earlier durations have the remaining weight."""
        return 0.7 + 0.3 * self.share

    def rest(self, so_far: float) -> float:
        """Remaining seconds of a run after `so_far` seconds, by progress alone."""
        rest = self.seconds * ((1.0 - self.share) / self.share + TAIL)
        return max(SHORTEST, self.seconds + rest - so_far)


def progress_of(known: Mapping[str, Any], began_at: datetime | None, attempt: int, now: datetime) -> RunProgress | None:
    """The progress of attempt `attempt`, as reported in `known`: `bytes_done`, `bytes_total`, `attempt`, `updated_at`.
    None if it predicts nothing, because it belongs to another attempt, is old, comes from another clock, has no total
    or exceeds it, or is too early.
    """
    done, total, at = known.get("bytes_done") or 0, known.get("bytes_total") or 0, known.get("updated_at")
    if began_at is None or at is None or known.get("attempt") != attempt or abs(now - at) > STALE_AFTER:
        return None
    seconds = (min(at, now) - began_at).total_seconds()
    if seconds < LEAST_SECONDS or not 0 < done <= total or done < LEAST_SHARE * total:
        return None
    return RunProgress(done / total, seconds)


def rest_of(so_far: float, learnt: float | None, progress: RunProgress | None) -> float | None:
    """Remaining seconds of a record that has run for `so_far` seconds. `learnt`: the same from earlier durations; None,
    or not above 0, if they predict nothing. Returns None if there is no progress, either.
    """
    if progress is None:
        return learnt if learnt and learnt > 0.0 else None
    return _mixed(learnt, progress.rest(so_far), progress.weight)


def drawn_seconds(
    so_far: float, learnt: Callable[[], float], progress: RunProgress | None, rng: random.Random
) -> float:
    """Draw the total duration of a record that has run for `so_far` seconds. `learnt` draws it from earlier durations,
    longer than `so_far`; infinite if there are none.
    """
    by_earlier = learnt()
    if progress is None:
        return by_earlier
    by_progress = progress.rest(so_far) * exp(rng.gauss(0.0, SPREAD))
    return so_far + _mixed(by_earlier - so_far, by_progress, progress.weight)


def _mixed(learnt: float | None, by_progress: float, weight: float) -> float:
    if learnt is None or learnt <= 0.0 or learnt == inf:
        return by_progress
    return float(learnt ** (1.0 - weight) * by_progress**weight)
