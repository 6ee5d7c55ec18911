"""The backlog at one moment: the records in each queue, the workers that serve it, and the work done."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Count, Exists, OuterRef, Q

from external.durations import span
from external.formatting import first_line, several
from jobs import conf
from jobs.clock import database_clock
from jobs.handlers import registry
from jobs.models import BacklogRecord, Breaker, PausedQueue, Worker
from jobs.prepared_statements import execute
from jobs.states import Status, WaitingFor
from operations import hold
from operations.backlog import IN_NEED
from operations.backlog import summary_statements as statements

BOUND = 50_000
"""The most ready records in a queue that are counted, and likewise waiting and finished ones."""

SILENT_SHOWN_FOR = timedelta(days=1)
"""The time after which a silent worker that holds nothing is no longer shown."""

LYING = ("waiting", "ready", "running", "oldest_ready_for")
"""Numbers of a queue that lists show."""

LAST_MINUTE, LAST_HOUR = timedelta(minutes=1), timedelta(hours=1)


@dataclass
class QueueSummary:
    """One queue. Ages are seconds; None if there is nothing.

    `at_least` names the numbers that are lower bounds, since more than `BOUND` records would have had to be read.
    `overdue_for`: how long ago the first waiting record should have become ready. `backing_off`: waiting after a
    failure. `workers` and `places`: the living workers that serve it, and the number of its records they run at once.
    """

    name: str
    in_settings: bool
    paused_at: datetime | None = None
    paused_reason: str = ""
    paused_until: datetime | None = None
    waiting: int = 0
    backing_off: int = 0
    ready: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    oldest_ready_for: float | None = None
    overdue_for: float | None = None
    finished_last_minute: int = 0
    finished_last_hour: int = 0
    failed_last_hour: int = 0
    workers: int = 0
    places: int = 0
    at_least: set[str] = field(default_factory=set)

    def describe(self, name: str) -> str:
        """The number or age of that name as text, such as `50,000+` or `2 h`; empty if there is none."""
        value = getattr(self, name)
        shown = span(value) if value is None or isinstance(value, float) else f"{value:,}"
        return f"{shown}+" if shown and name in self.at_least else shown

    @property
    def unfinished(self) -> int:
        """The number of its records."""
        return self.waiting + self.ready + self.running

    @property
    def served_by(self) -> str:
        """Words such as `2 workers, 32 places`."""
        if not self.workers:
            return "no worker"
        return f"{several(self.workers, 'worker')}, {self.places} places"


@dataclass(frozen=True)
class WorkerSummary:
    """A worker that has not stopped. `heartbeat_for`: seconds since its last heartbeat. Silent: not `alive`."""

    id: int
    name: str
    queues: dict[str, int]
    started_at: datetime
    heartbeat_for: float
    alive: bool
    running: int


@dataclass(frozen=True)
class BreakerSummary:
    """An open breaker. `open_for`: seconds since it opened; `waiting`: records that it holds; `failures` in a row, and
    `trials` that failed since.
    """

    key: str
    title: str
    open_for: float
    waiting: int
    last_error: str
    failures: int
    trials: int


@dataclass(frozen=True)
class BacklogSummary:
    """The backlog at the instant `at`. `unknown_kinds`: kinds of unfinished records that are not registered here.
    `held`: a sentence if everything is on hold, `held_since` then; else empty. `in_need`: problems for an operator from
    other apps.
    """

    at: datetime
    queues: list[QueueSummary]
    workers: list[WorkerSummary]
    unknown_kinds: list[str]
    breakers: list[BreakerSummary] = field(default_factory=list)
    held: str = ""
    held_since: datetime | None = None
    dead_letters: int = 0
    in_need: list[str] = field(default_factory=list)


def summary(
    now: datetime | None = None, *, bound: int = BOUND, without: Collection[str] = (), ended: bool = True
) -> BacklogSummary:
    """Look at the whole backlog, in 50 to 150 ms with a million records. `now` (aware) is for tests.

    `without`: names of `IN_NEED` that are not asked, since the caller does not need the answer or has it already.
    `ended`: also count ended records.
    """
    with transaction.atomic():
        execute(statements.BY_INDEX, {})
        instant = now or database_clock()
        running = execute(statements.RUNNING, {}).fetchall()
        workers = workers_of(instant, running)
        queues = Queues(running)
        for name, _, count in running:
            queues[name].running += count
        _add_ready(queues, instant, bound)
        _add_waiting(queues, instant, bound)
        if ended:
            _add_finished(queues, instant, bound)
        kinds = [kind for (kind,) in execute(statements.UNFINISHED_KINDS, {}).fetchall()]
        opened = open_breakers(instant)
        execute(statements.AS_BEFORE, {})
    for worker in workers:
        for name, places in worker.queues.items():
            if worker.alive and name in queues:
                queues[name].workers += 1
                queues[name].places += places
    unknown = [kind for kind in kinds if kind not in registry.kinds]
    on_hold = hold.held()
    held, held_since = (hold.sentence(on_hold), on_hold.since) if on_hold else ("", None)
    dead = BacklogRecord.objects.filter(status=Status.FAILED).count()
    in_need = [line for name, ask in IN_NEED.items() if name not in without for line in ask(instant)]
    return BacklogSummary(instant, list(queues.values()), workers, unknown, opened, held, held_since, dead, in_need)


class Queues(dict[str, QueueSummary]):
    """The queues in the settings, in their order, then others that have ready or running records or are paused; any
    other queue is added when it is looked up.
    """

    def __init__(self, running: list[tuple[Any, ...]]) -> None:
        paused = {queue.name: queue for queue in PausedQueue.objects.all()}
        found = {name for (name,) in execute(statements.QUEUES_WITH_READY, {}).fetchall()}
        others = sorted((found | {name for name, *_ in running} | set(paused)) - set(conf.queue_rules()))
        for name in (*conf.queue_rules(), *others):
            queue = self[name]
            if name in paused:
                queue.paused_at, queue.paused_reason = paused[name].paused_at, paused[name].reason
                queue.paused_until = paused[name].paused_until

    def __missing__(self, name: str) -> QueueSummary:
        return self.setdefault(name, QueueSummary(name, name in conf.queue_rules()))


def _add_ready(queues: Queues, now: datetime, bound: int) -> None:
    for name, count, oldest in execute(statements.READY, {"queues": list(queues), "bound": bound}).fetchall():
        queue = queues[name]
        queue.ready = min(count, bound)
        queue.oldest_ready_for = _age(oldest, now)
        if count > bound:
            queue.at_least |= {"ready", "oldest_ready_for"}


def _add_waiting(queues: Queues, now: datetime, bound: int) -> None:
    rows = execute(statements.WAITING, {"bound": bound}).fetchall()
    for name, count, first, backing_off in rows:
        queues[name].waiting, queues[name].backing_off = count, backing_off
        queues[name].overdue_for = _age(first, now) if first <= now else None
    if sum(count for _, count, *_ in rows) > bound:
        for queue in queues.values():
            queue.at_least |= {"waiting", "backing_off"}


def _add_finished(queues: Queues, now: datetime, bound: int) -> None:
    rows = execute(statements.FINISHED, {"now": now, "bound": bound}).fetchall()
    for name, status, count, minute, hour, _ in rows:
        queue = queues[name]
        setattr(queue, Status(status).label, count)
        queue.finished_last_minute += minute
        queue.finished_last_hour += hour
        if status == Status.FAILED:
            queue.failed_last_hour = hour
    if sum(row[2] for row in rows) > bound:
        cut = {"succeeded", "failed", "cancelled"}
        reached = min(row[5] for row in rows)
        cut |= {"finished_last_minute"} if reached > now - LAST_MINUTE else set()
        cut |= {"finished_last_hour", "failed_last_hour"} if reached > now - LAST_HOUR else set()
        for queue in queues.values():
            queue.at_least |= cut


def workers_of(now: datetime, running: list[tuple[Any, ...]]) -> list[WorkerSummary]:
    """Workers that have not stopped: alive, silent for less than a day and not replaced, or still holding records."""
    held: Counter[int] = Counter()
    for _, worker_id, count in running:
        held[worker_id] += count
    # a killed worker without records is history, too, if one has begun on its host since
    alive_before = now - timedelta(seconds=conf.lease_seconds())
    since = Worker.objects.filter(hostname=OuterRef("hostname"), started_at__gt=OuterRef("heartbeat_at"))
    since = since.filter(Q(stopped_at__isnull=False) | Q(heartbeat_at__gt=alive_before))
    missed = Q(heartbeat_at__gt=alive_before) | ~Exists(since)
    shown = Q(heartbeat_at__gt=now - SILENT_SHOWN_FOR) & missed | Q(pk__in=list(held))
    return [
        WorkerSummary(
            id=worker.pk,
            name=worker.name,
            queues=worker.queues,
            started_at=worker.started_at,
            heartbeat_for=_age(worker.heartbeat_at, now) or 0.0,
            alive=worker.is_alive(now),
            running=held[worker.pk],
        )
        for worker in Worker.objects.filter(shown, stopped_at=None).order_by("pk")
    ]


def open_breakers(now: datetime, most: int | None = None) -> list[BreakerSummary]:
    """The breakers that have been open longest, up to a bound."""
    found = Breaker.objects.filter(opened_at__isnull=False).order_by("opened_at", "pk")[:most]
    waiting = BacklogRecord.objects.waiting().filter(waiting_for=WaitingFor.BREAKER, breaker__in=[*found])
    held = dict(waiting.order_by().values_list("breaker").annotate(Count("pk"))) if found else {}
    return [
        BreakerSummary(
            key=breaker.key,
            title=str(breaker),
            open_for=_age(breaker.opened_at, now) or 0.0,
            waiting=held.get(breaker.pk, 0),
            last_error=first_line(breaker.last_error),
            failures=breaker.failures,
            trials=breaker.trials,
        )
        for breaker in found
    ]


def _age(instant: datetime | None, now: datetime) -> float | None:
    return None if instant is None else max(0.0, (now - instant).total_seconds())
