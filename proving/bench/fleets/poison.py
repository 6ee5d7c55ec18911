"""Records that can never succeed, next to a stream of good ones: how long do the good ones wait?

The stream is a policy's: a batch of due records every hour, some of which fail once for a passing reason, and a trickle
of single ones. The poison has been there for so long that each of its records has failed at least once when the stream
begins: before that nothing distinguishes it from a good record. The stream crosses a midnight. All attempts take
equally long. The same stream passes through the same backlog with the poison and without.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from statistics import fmean
from typing import Any, NamedTuple

from django.db import connection

from jobs.handlers import Kind, registry
from jobs.models import Attempt, BacklogRecord, Decision, Origin, RetryPolicy, Sweep, Worker
from jobs.outcomes import ClaimedRecord, Failed, Outcome, Succeeded
from jobs.states import Status
from proving.bench.results import percentile
from proving.bench.virtual import DAY, HOUR, MINUTE, Backlog, instant, seconds
from schedules import providers
from schedules.models import Schedule

KIND = QUEUE = "bench"
PROVIDER = "bench batches"
UNITS = 16
ATTEMPT = 70.0
"""Seconds. An hour is not a multiple, so each batch comes at another moment of the attempts under way."""
EVERY = HOUR
MIDNIGHT = 2 * DAY
"""Half of the batches come before it, half after: records that failed yesterday must not precede those due today."""
FAILS_ONCE = 20
"""One good record in this many fails at its first attempt."""
TABLES = tuple(model._meta.db_table for model in (BacklogRecord, Attempt, Decision, Origin, Sweep, Worker))
PATIENCE = DAY
"""Seconds after the last batch until which the run continues if good records are left."""


@dataclass(frozen=True)
class Load:
    """`poison` records next to `batches` of `batch` records, and one more every `trickle` seconds.

    `max_records`: the most that a sweep takes, as configured if None. `within_a_day`: nothing comes after midnight.
    """

    poison: int = 10_000
    batches: int = 12
    batch: int = 320
    trickle: float = 10 * MINUTE
    units: int = UNITS
    max_records: int | None = None
    within_a_day: bool = False
    seed: int = 1

    @property
    def first_pass(self) -> float:
        """The seconds that it takes to try each poison record once."""
        return self.poison * ATTEMPT / self.units

    @property
    def stream_begins(self) -> float:
        before = self.batches + 2 if self.within_a_day else self.batches // 2
        return MIDNIGHT - before * EVERY

    @property
    def stream_ends(self) -> float:
        return self.stream_begins + self.batches * EVERY


class Waits(NamedTuple):
    """Seconds that good records waited. `first`: until their first attempt began; `single`: those of the trickle alone.

    `again`: from its failure until its success, for each that failed once. `unfinished`: the number that never
    succeeded; they count as if they had at the end.
    """

    first: list[float]
    single: list[float]
    again: list[float]
    unfinished: int


class Figures(NamedTuple):
    """The figures of one run, in seconds. `attempts`: those at poison; `left_some`: sweeps that warned of a rest."""

    mean: float
    p99: float
    single: float
    again: float
    unfinished: int
    attempts: int
    left_some: int


@dataclass
class Stream:
    """The good records: puts them on the backlog, and remembers when."""

    load: Load
    policy: RetryPolicy
    inserted: dict[str, float] = field(default_factory=dict)
    """Subject → seconds since the start of virtual time."""
    succeeded: int = 0
    done_at: float = 0.0

    @property
    def expected(self) -> int:
        return self.load.batches * self.load.batch + self._singles

    @property
    def _singles(self) -> int:
        return int(self.load.batches * EVERY // self.load.trickle)

    def put_on(self, backlog: Backlog) -> None:
        """Let the tick emit the batches, as it does for a schedule, and add the trickle."""
        providers.add_provider(PROVIDER, self._emit)
        Schedule.objects.create(
            name=PROVIDER,
            cron="0 * * * *",
            kind=KIND,
            provider=PROVIDER,
            retry_policy=self.policy,
            next_trigger_at=instant(self.load.stream_begins),
        )
        for number in range(self._singles):
            at = self.load.stream_begins + (number + 0.5) * self.load.trickle
            backlog.put(at, partial(self._insert, [f"single {number}"]))

    def handle(self, record: ClaimedRecord, at: float) -> tuple[float, Outcome]:
        if record.payload.get("poison"):
            return ATTEMPT, Failed("can never succeed")
        if record.failures < record.payload.get("fails", 0):
            return ATTEMPT, Failed("a passing fault")
        self.succeeded += 1
        self.done_at = at + ATTEMPT
        return ATTEMPT, Succeeded()

    def is_done(self, now: float) -> bool:
        return self.succeeded == self.expected and now >= self.done_at

    def _emit(self, triggers: Sequence[tuple[Schedule, datetime]], now: datetime) -> int:
        if seconds(now) >= self.load.stream_ends:
            return 0
        return sum(
            self._insert([f"{at:%a %H:%M} {number}" for number in range(self.load.batch)], now) for _, at in triggers
        )

    def _insert(self, subjects: list[str], now: datetime) -> int:
        self.inserted.update((subject, seconds(now)) for subject in subjects)
        payloads = [{"fails": int(number % FAILS_ONCE == FAILS_ONCE // 2)} for number in range(len(subjects))]
        return insert(zip(subjects, payloads, strict=True), self.policy, now)

    def waits(self, backlog: Backlog) -> Waits:
        """The waits, from the attempts."""
        starts: dict[str, float] = {}
        failed_at: dict[str, float] = {}
        done: dict[str, float] = {}
        for each in sorted((t for t in backlog.tried if t.subject in self.inserted), key=lambda tried: tried.start):
            starts.setdefault(each.subject, each.start)
            if isinstance(each.outcome, Failed):
                failed_at[each.subject] = each.end
            else:
                done[each.subject] = each.end
        end = backlog.now
        first = {subject: starts.get(subject, end) - at for subject, at in self.inserted.items()}
        return Waits(
            first=list(first.values()),
            single=[wait for subject, wait in first.items() if subject.startswith("single")],
            again=[done.get(subject, end) - at for subject, at in failed_at.items()],
            unfinished=len(self.inserted) - len(done),
        )


def insert(records: Iterable[tuple[str, dict[str, Any]]], policy: RetryPolicy, now: datetime) -> int:
    """Put (subject, payload) on the backlog as the emission of a policy does: due on the day of `now`."""
    rows = [
        BacklogRecord(
            kind=KIND,
            queue=QUEUE,
            subject=subject,
            payload=payload,
            status=Status.READY,
            inserted_at=now,
            run_after=now,
            due_day=now.date(),
            rank_day=now.date(),
            retry_policy=policy,
        )
        for subject, payload in records
    ]
    return len(BacklogRecord.objects.bulk_create(rows, batch_size=2000))


def run(load: Load, policy: RetryPolicy) -> tuple[Backlog, Stream]:
    """Let the stream through a backlog that is empty except for the poison. Starts with empty tables."""
    registry.add(Kind(KIND, home_queue=QUEUE))
    stream = Stream(load, policy)
    backlog = Backlog(
        load.units,
        stream.handle,
        queue=QUEUE,
        tick_every=ATTEMPT,
        sweeps=policy.as_rule().waits_for_sweeps,
        max_records=load.max_records,
        seed=load.seed,
    )
    poison = ((f"poison {number}", {"poison": True}) for number in range(load.poison))
    backlog.now = max(0.0, load.stream_begins - load.first_pass - 10 * MINUTE)
    backlog.put(backlog.now, lambda now: insert(poison, policy, now))
    stream.put_on(backlog)
    backlog.run(load.stream_ends)
    backlog.run(load.stream_ends + PATIENCE, stop=lambda: stream.is_done(backlog.now))
    return backlog, stream


def compare(load: Load, policy: RetryPolicy) -> tuple[Figures, Figures]:
    """The figures of the same stream without and with the poison. Starts with empty tables, and leaves the rows of the
    second run."""
    without = figures(replace(load, poison=0), policy)
    empty()
    return without, figures(load, policy)


def empty() -> None:
    """Delete the rows of a run; the next one begins with the same ids, so *phased* gives the same waits."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute(f"TRUNCATE {', '.join(TABLES)} RESTART IDENTITY CASCADE")


def figures(load: Load, policy: RetryPolicy) -> Figures:
    """Do one run and return its figures. Starts with empty tables."""
    backlog, stream = run(load, policy)
    waits = stream.waits(backlog)
    return Figures(
        mean=fmean(waits.first),
        p99=percentile(waits.first, 0.99),
        single=fmean(waits.single) if waits.single else 0.0,
        again=fmean(waits.again) if waits.again else 0.0,
        unfinished=waits.unfinished,
        attempts=sum(1 for tried in backlog.tried if tried.subject not in stream.inserted),
        left_some=Decision.objects.filter(what="sweep left some").count(),
    )
