"""The verdict on a sweep, from its attempts. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from jobs.states import AttemptOutcome
from proving.bench.fleets.spans import UnitSpan, busy_share, unit_seconds
from proving.bench.processes import ContestantFailed

ASKING, COPYING = "availability", "backups"


class SweepAttempt(NamedTuple):
    """One attempt, in seconds of the database's clock. `outcome` is None while it runs."""

    absent: bool
    queue: str
    start: float
    end: float
    outcome: int | None

    @property
    def span(self) -> UnitSpan:
        return UnitSpan(self.start, self.end)


class NoSweep(ContestantFailed):
    """The run was not the sweep that was to be measured."""


@dataclass(frozen=True)
class SweepVerdict:
    """`whole`: the span from the first claim until the last absent source had been asked. `busy`: the share (0 to 1) of
    the units' time in it that present sources took. `wasted`: unit-seconds that absent ones took, in all."""

    whole: UnitSpan
    busy: float
    wasted: float


def swept(attempts: Iterable[SweepAttempt], *, absent: int, units: int, timeout: float) -> SweepVerdict:
    """Judge a sweep. Raises: NoSweep if an absent source was not asked, asked twice, found present, or given less than
    `timeout`."""
    tried = list(attempts)
    asked = [attempt for attempt in tried if attempt.absent and attempt.queue == ASKING]
    silent = [a.span for a in asked if a.outcome == AttemptOutcome.UNAVAILABLE]
    if not len(asked) == len(silent) == absent:
        raise NoSweep(f"{absent} sources are absent; {len(asked)} times one was asked, {len(silent)} times silent")
    if (shortest := min(span.seconds for span in silent)) < timeout:
        raise NoSweep(f"an absent source was found silent after {shortest:.2f} s of {timeout:g}")
    whole = UnitSpan(min(a.start for a in tried), max(span.end for span in silent))
    copied = [a for a in tried if a.queue == COPYING]
    return SweepVerdict(
        whole,
        busy=busy_share((a.span for a in copied if not a.absent), units, whole),
        wasted=unit_seconds(a.span for a in copied if a.absent),
    )
