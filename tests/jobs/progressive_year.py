"""360 days of the progressive schedule in virtual time: the records, the instants to look at, and the series expected.

Nothing here knows `jobs/retries/tiers.py`: what is expected is written out. Beside the instants of the series, after
every fifth attempt the next multiple of each of the six intervals is visited, so that one too many would be seen.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from jobs import claiming, settling
from jobs.models import BacklogRecord, RetryPolicy
from jobs.outcomes import Claimed, Failed
from jobs.states import Status
from tests.factories import make_record, make_worker
from tests.jobs.virtual_time import VirtualTime

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
BANDS = (
    ("to 1 day", DAY, 5 * MINUTE),
    ("to 7 days", 7 * DAY, HOUR),
    ("to 14 days", 14 * DAY, 12 * HOUR),
    ("to 30 days", 30 * DAY, 24 * HOUR),
    ("to 180 days", 180 * DAY, 96 * HOUR),
    ("to 360 days", 360 * DAY, 192 * HOUR),
)
"""(ages, oldest, interval): the article's table."""

EXTRAS_AFTER = 5
"""Attempts, between looks at instants at which nothing is expected."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
START = EPOCH + 2566 * 192 * HOUR
"""An instant at which all six intervals have a multiple."""


def next_multiple(after: datetime, interval: timedelta) -> datetime:
    return EPOCH + ((after - EPOCH) // interval + 1) * interval


def series(inserted_at: datetime) -> list[tuple[datetime, str]]:
    """The instants of the sweeps of a record from then, each with its band, up to its 360th day."""
    found, at = [], inserted_at
    for name, oldest, interval in BANDS:
        while (following := next_multiple(at, interval)) - inserted_at <= oldest:
            found.append((following, name))
            at = following
    return found


@dataclass
class Life:
    """A record whose every attempt fails, and when it was tried. `late`: how long after its instants that is."""

    record: BacklogRecord
    late: timedelta
    tried: list[datetime] = field(default_factory=list)
    failed: bool = False

    def sweeps(self) -> list[datetime]:
        """The instants on the grid that its attempts belong to, but for the first attempt, which no sweep made."""
        return [at - self.late for at in self.tried[1:]]


class Year:
    """Two records, the second three days and a bit younger and off the grid, worked until both have given up."""

    def __init__(self, time: VirtualTime, late: timedelta) -> None:
        self.time = time
        self.late = late
        self.policy = RetryPolicy.objects.create(name="by age", algorithm="progressive")
        self.lives: dict[int, Life] = {}
        self.worker = make_worker()

    def insert(self, at: datetime) -> Life:
        record = make_record(retry_policy=self.policy, inserted_at=at, run_after=at)
        self.lives[record.pk] = life = Life(record, self.late)
        return life

    def work(self, at: datetime) -> None:
        """What a worker does with what is ready: every attempt fails."""
        if claimed := claiming.claim("default", worker_id=self.worker.pk, limit=10):
            self.fail(claimed, at)

    def fail(self, claimed: list[Claimed], at: datetime) -> None:
        """Settle these as failures."""
        for record in claimed:
            self.lives[record.id].tried.append(at)
        settling.settle([(record, Failed("still broken")) for record in claimed])
        given_up = BacklogRecord.objects.filter(pk__in=[record.id for record in claimed], status=Status.FAILED)
        for pk in given_up.values_list("pk", flat=True):
            self.lives[pk].failed = True

    def live(self, pass_instant: Callable[[datetime], None]) -> tuple[Life, Life]:
        """`pass_instant` does what the programs do about an instant of the grid, and lets `work` follow."""
        first = self.insert(START)
        self.time.go_to(START)
        self.work(START)
        born = START + timedelta(days=3, hours=7, minutes=13, seconds=29)
        for instant in self._instants(first, until=born):
            pass_instant(instant)
        second = self.insert(born)
        self.time.go_to(born)
        self.work(born)
        for instant in self._instants(first, second, until=START + 400 * DAY):
            pass_instant(instant)
        return first, second

    def _instants(self, *lives: Life, until: datetime) -> Iterator[datetime]:
        """The instants to look at, while a record lives."""
        expected = sorted({at for life in lives for at, _ in series(life.record.inserted_at)})
        visited = max(life.tried[-1] for life in lives)
        while alive := [life for life in lives if not life.failed]:
            coming = {
                at
                for life in alive
                if len(life.tried) % EXTRAS_AFTER == 0
                for at in self._multiples_after(life.tried[-1])
            }
            coming |= set(expected[bisect_right(expected, visited) :][:1])
            if not (later := [at for at in coming if at > visited]) or min(later) + self.late >= until:
                return
            visited = min(later)
            yield visited

    def _multiples_after(self, instant: datetime) -> list[datetime]:
        return [next_multiple(instant, interval) for _, _, interval in BANDS]


def counts(life: Life) -> list[int]:
    """Attempts by sweeps per band of age, youngest first."""
    bands = dict(series(life.record.inserted_at))
    return [sum(bands.get(at) == name for at in life.sweeps()) for name, *_ in BANDS]
