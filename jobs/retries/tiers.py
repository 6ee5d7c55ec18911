"""*progressive*: sweeps of all records younger than N days, the rarer the greater N is. No failures are counted.

The table is that of the progressive schedule (docs/glossary.md). Sweeps are on a grid: a tier's sweep belongs to the
instants that are multiples of its interval since the epoch, so a day's begin at midnight UTC.
"""

import math
from typing import NamedTuple

from jobs.retries.waits import Failure, Parameters, Rng

MINUTE, HOUR, DAY = 60, 3_600, 86_400


class Tier(NamedTuple):
    """Records up to `max_age_days` old are tried every `every` seconds."""

    max_age_days: int
    every: int

    @property
    def max_age(self) -> int:
        """The age in seconds."""
        return self.max_age_days * DAY


TIERS = (
    Tier(1, 5 * MINUTE),
    Tier(7, HOUR),
    Tier(14, 12 * HOUR),
    Tier(30, 24 * HOUR),
    Tier(180, 96 * HOUR),
    Tier(360, 192 * HOUR),
)

OLDEST = TIERS[-1].max_age
"""Seconds: older records are no longer swept."""


def slot_of(at: float, every: int) -> float:
    """The instant of the grid at or before `at`; all in seconds, instants since the epoch."""
    return math.floor(at / every) * float(every)


def next_sweep(at: float, inserted_at: float) -> float | None:
    """The instant of the first sweep after `at` that covers a record from `inserted_at`; None if no sweep does any
    more.
    """
    coming = (slot_of(at, tier.every) + tier.every for tier in TIERS)
    covering = [sweep for tier, sweep in zip(TIERS, coming, strict=True) if sweep - inserted_at <= tier.max_age]
    return min(covering, default=None)


def progressive(failure: Failure, given: Parameters, cap: float, rng: Rng) -> float:
    """Seconds until the next sweep that covers the record's age; infinity if there is none."""
    sweep = next_sweep(failure.at, failure.of_a_record_from)
    return math.inf if sweep is None else sweep - failure.at
