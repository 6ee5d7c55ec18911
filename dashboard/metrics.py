"""The answer of `/metrics` to Prometheus: gauges of this moment, and the running totals of attempts.

All values are read from the database at each request, in a bounded number of statements whatever the fleet's size:
every web process returns the same. No label names a source, unless the request asks for it.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import accumulate
from typing import Any

from django.db.models import Count, Max
from prometheus_client import generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from alerting.models import Alert, AlertKind
from alerting.sending import undelivered
from dashboard import source_metrics
from declarations.surfaces.patience import at_most
from engines import ENGINES, engine_for
from fleet import assignment_findings, status
from jobs.backlog.pausing import held
from jobs.clock import database_clock
from jobs.states import AttemptOutcome
from operations import throttles
from operations.backlog import IN_NEED
from operations.backlog import summary as backlog
from operations.models import AttemptTotal
from operations.totals import STEPS
from sources.domain.status import ProtectionStatus
from sources.models import Assignment, Repository
from sources.planning import BACKUPS

STATEMENT_SECONDS = 5.0

Rows = Iterable[tuple[Any, ...]]


def exposition(*, by_source: bool = False) -> bytes:
    """All metrics in Prometheus's text format; `by_source`: with three series for each source under a policy.

    Raises: django.db.Error, TookTooLong.
    """
    began = time.monotonic()
    with at_most(STATEMENT_SECONDS):
        each_source, numbers = source_metrics.of_each(database_clock()) if by_source else ("", None)
        return generate_latest(_MetricsCollector(began, numbers)) + each_source.encode()


class _MetricsCollector(Collector):
    def __init__(self, began: float, by_status: dict[ProtectionStatus, int] | None) -> None:
        self._began, self._by_status = began, by_status

    def collect(self) -> Iterator[Metric]:
        now = database_clock()
        yield from _sources(now, self._by_status)
        yield from _backlog(now)
        yield _attempts()
        yield from _throttles()
        yield from _repositories()
        yield from _copies(now)
        yield from _alerts()
        hold = held()
        yield _gauge("hold", "1 while everything is on hold, so that nothing starts.", (), [(int(hold is not None),)])
        yield _gauge(
            "collect_seconds", "Seconds that it took to collect these metrics.", (), [(time.monotonic() - self._began,)]
        )


def _gauge(name: str, text: str, labels: Sequence[str], rows: Rows) -> Metric:
    """Each row: the values of the labels, then the number; None leaves the row out."""
    family = GaugeMetricFamily(f"backupsched_{name}", text, labels=labels)
    for *values, number in rows:
        if number is not None:
            family.add_metric([str(each) for each in values], float(number))
    return family


def _sources(now: datetime, by_status: dict[ProtectionStatus, int] | None) -> Iterator[Metric]:
    found = status.summary(now, by_status=by_status)
    yield _gauge("sources", "Sources by status.", ("status",), ((each.value, n) for each, n in found.by_status.items()))
    yield _gauge("sources_protected", "Sources with a backup that is recent enough.", (), [(found.protected,)])
    yield _gauge("sources_in_need", "Sources that need an operator.", (), [(found.in_need,)])
    yield _gauge("dead_letters", "Records that gave up.", (), [(found.dead_letters,)])


def _backlog(now: datetime) -> Iterator[Metric]:
    found = backlog.summary(now, without=IN_NEED, ended=False)
    queues = found.queues
    bound = f"{backlog.BOUND:,}"
    states = ("waiting", "ready", "running")
    yield _gauge(
        "records",
        f"Unfinished records by queue and status; at most {bound} waiting, and ready in a queue, are counted.",
        ("queue", "status"),
        ((each.name, state, getattr(each, state)) for each in queues for state in states),
    )
    yield _gauge(
        "oldest_ready_seconds",
        "Since when the oldest ready record of a queue could have run; 0 if none is ready.",
        ("queue",),
        ((each.name, each.oldest_ready_for or 0) for each in queues),
    )
    yield _gauge(
        "overdue_waiting_seconds",
        "Seconds since the first waiting record of a queue should have become ready; 0 if there is none.",
        ("queue",),
        ((each.name, each.overdue_for or 0) for each in queues),
    )
    yield _gauge(
        "queue_paused", "1 for a queue that is paused.", ("queue",), ((q.name, int(bool(q.paused_at))) for q in queues)
    )
    yield _gauge(
        "places", "Records of a queue that workers alive run at once.", ("queue",), ((q.name, q.places) for q in queues)
    )
    units = [each for each in queues if each.name == BACKUPS]
    yield _gauge("execution_units", "Execution units of workers alive.", (), ((each.places,) for each in units))
    yield _gauge("execution_units_in_use", "Execution units at work.", (), ((each.running,) for each in units))
    alive = sum(each.alive for each in found.workers)
    counted = (("alive", alive), ("silent", len(found.workers) - alive))
    yield _gauge("workers", "Workers that have not stopped; silent: without a heartbeat.", ("state",), counted)
    yield _gauge(
        "breaker_open_seconds",
        "Seconds for which a breaker has been open; closed ones are not listed.",
        ("breaker", "title"),
        ((each.key, each.title, each.open_for) for each in found.breakers),
    )


def _attempts() -> Metric:
    family = HistogramMetricFamily(
        "backupsched_attempt_seconds",
        "Attempts that have ended, with their durations. `engine` is empty but for backups that were begun.",
        labels=("kind", "queue", "engine", "outcome"),
    )
    found: dict[tuple[str, str, str, str], dict[float, int]] = {}
    spent: dict[tuple[str, str, str, str], float] = {}
    for total in AttemptTotal.objects.order_by("kind", "queue", "sort", "outcome"):
        engine = engine_for(total.sort).name if total.queue == BACKUPS and total.sort in ENGINES else ""
        key = (total.kind, total.queue, engine, AttemptOutcome(total.outcome).label)
        steps = found.setdefault(key, dict.fromkeys(STEPS, 0))
        steps[total.up_to] += total.number
        spent[key] = spent.get(key, 0.0) + total.seconds
    for key, steps in found.items():
        buckets = zip(map(floatToGoString, STEPS), accumulate(steps.values()), strict=True)
        family.add_metric(key, list(buckets), spent[key])
    return family


def _throttles() -> Iterator[Metric]:
    found = throttles.live()
    limits = [(each.throttle.name, each.throttle.max_in_flight) for each in found]
    yield _gauge("throttle_limit", "Most records of a throttle in flight; 0: paused.", ("throttle",), limits)
    for name, text in (("in_flight", "Records of a throttle that run."), ("ready", "Ready records of a throttle.")):
        rows = [(each.throttle.name, getattr(each, name)) for each in found]
        yield _gauge(f"throttle_{name}", text, ("throttle",), rows)


def _repositories() -> Iterator[Metric]:
    repositories = list(Repository.objects.order_by("name"))
    for name, text, field in (
        ("free", "Room left in a repository, as of its last backup or copy; none for a remote.", "room_free"),
        ("size", "Size of a repository's file system.", "room_total"),
    ):
        room = ((each.name, getattr(each, field)) for each in repositories)
        yield _gauge(f"repository_{name}_bytes", text, ("repository",), room)
    names = {each.pk: each.name for each in repositories}
    latest = Assignment.objects.values("policy__repository").order_by()
    found = list(latest.values_list("policy__repository", Max("last_backup_at"), Max("proved_at")))
    for column, name, text in (
        (1, "last_backup", "Start of the last backup into a repository."),
        (2, "last_proof", "When a drill last restored a point of a repository as its manifest says."),
    ):
        rows = ((names[row[0]], _seconds(row[column])) for row in found if row[0] in names)  # one may be a moment old
        yield _gauge(f"repository_{name}_timestamp_seconds", text, ("repository",), rows)


def _copies(now: datetime) -> Iterator[Metric]:
    found = assignment_findings.copies_late(now)
    names = Repository.objects.filter(copied_policies__isnull=False).distinct().values_list("name", flat=True)
    rows = ((name, found.get(name, 0)) for name in names.order_by("name"))
    yield _gauge("copies_overdue", "Sources with a point that came into no copy in time.", ("repository",), rows)


def _alerts() -> Iterator[Metric]:
    found = dict(Alert.objects.filter(ended_at=None).order_by().values_list("kind").annotate(Count("pk")))
    rows = ((kind, found.get(kind, 0)) for kind in AlertKind.values)
    yield _gauge("alerts", "Open alerts by kind; `watchdog`: the scheduler itself.", ("kind",), rows)
    yield _gauge("alerts_undelivered", "Messages about alerts that were not delivered.", (), [(undelivered().count(),)])


def _seconds(instant: Any) -> float | None:
    return instant.timestamp() if instant else None
