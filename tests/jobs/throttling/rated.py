"""Throttles with a rate, and a pure model of their bucket."""

from dataclasses import dataclass
from datetime import datetime
from itertools import count
from math import floor

from jobs.models import BacklogRecord, Throttle
from tests.factories import NOON, build_record, make_lane

_numbers = count(1)


def make_rated(rate: float, burst: int | None = None, *, tokens: float = 0, at: datetime = NOON, most: int = 1000):
    """A throttle of `rate` a second in whose bucket `tokens` lie at the instant `at`."""
    throttle = Throttle.objects.create(name=f"rated {next(_numbers)}", max_in_flight=most, rate=rate, burst=burst)
    put(throttle, tokens, at)
    return throttle


def put(throttle: Throttle, tokens: float, at: datetime = NOON) -> None:
    """Put this number of tokens into its bucket at that instant: past the trigger, as a claim writes them."""
    Throttle.objects.filter(pk=throttle.pk).update(tokens=tokens, tokens_at=at)


def tokens_of(throttle: Throttle) -> float:
    return Throttle.objects.values_list("tokens", flat=True).get(pk=throttle.pk)


def ready(throttle: Throttle, number: int = 1, **fields) -> list[int]:
    """The ids of so many ready records that name it."""
    lane = make_lane(throttle)
    records = BacklogRecord.objects.bulk_create([build_record(lane=lane, **fields) for _ in range(number)])
    return [record.pk for record in records]


@dataclass
class Bucket:
    """The database's bucket, computed once more without it: tokens, and what has flowed in since an instant."""

    rate: float
    burst: int | None
    tokens: float
    at: datetime

    def held(self, at: datetime) -> float:
        """The tokens in it at that instant."""
        size = self.burst if self.burst is not None else max(1.0, self.rate)
        return min(size, self.tokens + self.rate * max(0.0, (at - self.at).total_seconds()))

    def take(self, wanted: int, room: int, at: datetime) -> int:
        """The number of `wanted` records that begin at that instant, with `room` free places.

        Only a claim that could take something, or saw that the clock was set back, dates it again.
        """
        held = self.held(at)
        if min(wanted, room) < 1 or (held < 1 and self.at <= at):
            return 0
        taken = min(wanted, room, floor(held))
        self.tokens, self.at = held - taken, at
        return taken


def most_above(instants: list[datetime], rate: float, burst: float) -> float:
    """The most by which the claims of an interval exceed burst + rate · its length; 0 or less if they never do."""
    return most_above_seconds([(each - min(instants)).total_seconds() for each in instants], rate, burst)


def most_above_seconds(instants: list[float], rate: float, burst: float) -> float:
    """The same for instants in seconds."""
    seconds = sorted(instants)
    return max(
        last - first + 1 - burst - rate * (seconds[last] - seconds[first])
        for first in range(len(seconds))
        for last in range(first, len(seconds))
    )
