"""A backlog in virtual time: the units and the attempts are imagined, the rows and the statements on them are real.

At each instant at which something happens, this happens in order:

1. attempts that end are settled;
2. the tick does the due work: triggers, promotions, trials of breakers; at the instants of their grid, sweeps;
3. free units claim;
4. arrivals from outside are put on the backlog; units that are still free claim again.

So an arrival just misses the units that become free at the same instant: the figures are not better than the truth.
Everything gets `now` as an argument, so nothing waits, and two runs with the same seed do the same. No lease is renewed
or rescued: an attempt may take longer than a lease. Instants are seconds since START.
"""

import heapq
import math
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import NamedTuple

from django.db import connection
from django.db.models import Min

from jobs import claiming, settling, sweeps, tick, transitions
from jobs.handlers import StepDue
from jobs.models import Worker
from jobs.outcomes import ClaimedRecord, Held, Outcome
from jobs.retries import tiers
from jobs.transitions import transition
from schedules.models import Schedule

START = datetime(2026, 3, 2, tzinfo=UTC)
"""The midnight before a Monday, on the grid of all sweeps up to the daily one."""

MINUTE, HOUR, DAY = 60.0, 3_600.0, 86_400.0
NEVER = math.inf

INSERTED = "UPDATE jobs_backlogrecord SET inserted_at = %(now)s WHERE inserted_at > %(now)s"
"""The column's default is the database's clock, which does not follow virtual time."""


def instant(seconds: float) -> datetime:
    """The aware instant this many seconds after START."""
    return START + timedelta(seconds=seconds)


def seconds(moment: datetime) -> float:
    return (moment - START).total_seconds()


class VirtualAttempt(NamedTuple):
    """One attempt, in seconds since START. `outcome`: the one that its handler returned."""

    record_id: int
    subject: str
    number: int
    unit: int
    start: float
    end: float
    outcome: Outcome

    @property
    def called(self) -> bool:
        """True if it called the service, which a refusing breaker prevents."""
        return not isinstance(self.outcome, Held)


Handler = Callable[[ClaimedRecord, float], tuple[float, Outcome]]
"""(record, instant of its start) → the seconds that the attempt takes, and its outcome."""

Arrival = Callable[[datetime], object]


@dataclass
class Backlog:
    """`units` execution units that serve one queue. `tick_every`: seconds between two looks at waiting records.

    `sweeps`: run the progressive schedule, with at most `max_records` records.
    """

    units: int
    handler: Handler
    queue: str = "bench"
    tick_every: float = 5.0
    sweeps: bool = False
    max_records: int | None = None
    seed: int = 1
    tried: list[VirtualAttempt] = field(default_factory=list)
    now: float = 0.0

    def __post_init__(self) -> None:
        worker = Worker.objects.create(name="virtual", hostname="virtual", pid=1, queues={self.queue: self.units})
        self._worker_id = worker.pk
        self._dice = random.Random(self.seed)  # noqa: S311 - figures, no secrets
        self._free = list(range(self.units))
        self._ends: list[tuple[float, int, int, ClaimedRecord, VirtualAttempt]] = []
        self._arrivals: list[tuple[float, int, Arrival]] = []
        self._arrived = 0
        self._trigger_at = NEVER

    def put(self, at: float, arrival: Arrival) -> None:
        """Call `arrival(now)` at that instant; it puts something on the backlog."""
        self._arrived += 1
        heapq.heappush(self._arrivals, (at, self._arrived, arrival))

    def run(self, until: float, *, stop: Callable[[], bool] = lambda: False) -> None:
        """Let time pass, up to `until` at the latest, or until `stop()` is true after an instant."""
        with _chance(self._dice):
            self._see_triggers()
            self._due = tick.look(now=instant(self.now))
            self._do_what_is_due()
            while not stop():
                if (at := self._next()) > until:
                    self.now = until
                    return
                self.now = at
                self._do_what_is_due()

    def _next(self) -> float:
        """The next instant at which something happens."""
        ends = self._ends[0][0] if self._ends else NEVER
        arrives = self._arrivals[0][0] if self._arrivals else NEVER
        return min(ends, arrives, self._trigger_at, self._next_look(), self._next_sweep())

    def _next_look(self) -> float:
        """The instant at which the first waiting record is noticed, which does not matter while all units are busy."""
        comes = min((seconds(at) for at in (self._due.run_after, self._due.probe_at) if at), default=NEVER)
        if comes == NEVER or not self._free:
            return NEVER
        return max(math.ceil(comes / self.tick_every) * self.tick_every, self.now + self.tick_every)

    def _next_sweep(self) -> float:
        return (self.now // tiers.TIERS[0].every + 1) * tiers.TIERS[0].every if self.sweeps else NEVER

    def _do_what_is_due(self) -> None:
        now = instant(self.now)
        self._settle()
        # nothing but that settle has changed since the last look
        step = StepDue(is_due=self._trigger_at <= self.now)
        tick.act_on(replace(self._due, now=now, step=step), now=now, rescue=False)
        if self._trigger_at <= self.now:
            self._see_triggers()
        if self.sweeps and self.now % tiers.TIERS[0].every == 0:
            for tier in tiers.TIERS:
                if now.timestamp() % tier.every == 0:
                    sweeps.sweep_tier(tier.max_age_days, max_records=self.max_records, now=now)
        self._claim()
        while self._arrivals and self._arrivals[0][0] <= self.now:
            heapq.heappop(self._arrivals)[2](now)
            with connection.cursor() as cursor:
                cursor.execute(INSERTED, {"now": now})
            self._claim()
        self._due = tick.look(now=now)

    def _see_triggers(self) -> None:
        trigger_at = Schedule.objects.filter(enabled=True).aggregate(at=Min("next_trigger_at"))["at"]
        self._trigger_at = seconds(trigger_at) if trigger_at else NEVER

    def _settle(self) -> None:
        ended = []
        while self._ends and self._ends[0][0] <= self.now:
            _, _, unit, record, tried = heapq.heappop(self._ends)
            heapq.heappush(self._free, unit)
            self.tried.append(tried)
            ended.append((record, tried.outcome))
        if ended:
            ended.sort(key=lambda result: result[0].id)
            settling.settle(ended, now=instant(self.now)).raise_if_lost()

    def _claim(self) -> None:
        if not self._free:
            return
        now = instant(self.now)
        claimed = claiming.claim(self.queue, worker_id=self._worker_id, limit=len(self._free), now=now)
        for record in claimed:
            takes, outcome = self.handler(record, self.now)
            unit = heapq.heappop(self._free)
            tried = VirtualAttempt(record.id, record.subject, record.attempt, unit, self.now, self.now + takes, outcome)
            heapq.heappush(self._ends, (tried.end, record.id, unit, record, tried))


@contextmanager
def _chance(rng: random.Random) -> Iterator[None]:
    """Draw the random part of waits from `rng`: a settle has no such parameter, and figures must be reproducible."""
    names = vars(transitions)
    usual = names["transition"]
    names["transition"] = partial(transition, rng=rng)
    try:
        yield
    finally:
        names["transition"] = usual
