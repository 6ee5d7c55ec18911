"""Batches of events: the speed at which a trigger's batch is put on the backlog, and the starts of its events.

One schedule, whose payload is like that of callbacks: an endpoint, a throttle, a body with facts of the event.
"""

import resource
import time
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db import connection, transaction

from delivery.models import Endpoint
from jobs import tick
from jobs.clock import database_clock
from jobs.models import BacklogRecord, Throttle
from jobs.prepared_statements import prepare_in_this_thread
from proving.bench.fleets.emission import COPY_IN, COPY_OUT, TABLE
from proving.bench.fleets.making import keep_vacuum_away
from schedules.models import Schedule

KIND = "http_callback"
BODY = {"job": "report of $schedule", "shard": "$number", "of": "$count", "key": "$event_id", "at": "$run_after"}
WINDOW_FOR = 3600

STARTS = f"SELECT extract(epoch FROM run_after)::float8 FROM {TABLE} ORDER BY 1"


class BatchFigures(NamedTuple):
    """`mebibytes`: the growth of the process in the meantime."""

    records: int
    seconds: float
    mebibytes: float


def make_batch(events: int, stagger: str) -> None:
    """Make a schedule whose trigger came a moment ago."""
    trigger_at = database_clock().replace(second=0, microsecond=0)
    Schedule.objects.create(
        name="reports",
        cron="* * * * *",
        kind=KIND,
        event_count=events,
        endpoint=Endpoint.objects.create(name="receiver", url="https://receiver.example.com/hooks/reports"),
        throttle=Throttle.objects.create(name="receiver", max_in_flight=50),
        payload_template=BODY,
        window_for=WINDOW_FOR,
        stagger=stagger,
        next_trigger_at=trigger_at,
    )
    keep_vacuum_away()


def emit() -> BatchFigures:
    """Tick until everything is on the backlog, as a worker does. Raises: RuntimeError if events are missing."""
    prepare_in_this_thread()
    schedule = Schedule.objects.get()
    now = schedule.next_trigger_at or database_clock()
    before = _peak_mebibytes()
    began = time.perf_counter()
    records = _tick_until_done(now)
    seconds = time.perf_counter() - began
    if records != schedule.event_count:
        raise RuntimeError(f"{records} of {schedule.event_count} events were emitted")
    return BatchFigures(records, seconds, _peak_mebibytes() - before)


def _tick_until_done(now: datetime) -> int:
    records = 0
    while True:
        due = tick.look(now=now)
        if not due.step.is_due:
            return records
        records += tick.act_on(due, now=now, rescue=False).emitted


def copy() -> BatchFigures:
    """Emit, read the rows back, empty the table, and COPY them in again, which is timed."""
    records = emit().records
    with connection.cursor() as cursor, cursor.cursor.copy(COPY_OUT) as out:
        whole = b"".join(bytes(block) for block in out)
    with connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE {TABLE} CASCADE")
        cursor.execute("CHECKPOINT")
    before = _peak_mebibytes()
    began = time.perf_counter()
    with transaction.atomic(), connection.cursor() as cursor, cursor.cursor.copy(COPY_IN) as into:
        into.write(whole)
    seconds = time.perf_counter() - began
    if BacklogRecord.objects.count() != records:
        raise RuntimeError(f"the COPY did not bring back {records} records")
    return BatchFigures(records, seconds, _peak_mebibytes() - before)


def starts() -> list[float]:
    """Emit. Returns the start of each event, in seconds from the trigger."""
    trigger_at = Schedule.objects.get().next_trigger_at or database_clock()
    emit()
    with connection.cursor() as cursor:
        cursor.execute(STARTS)
        return [at - trigger_at.timestamp() for (at,) in cursor.fetchall()]


def make_launches(kind: str, staggered: int, window_for: int, plain: int) -> float:
    """Make a batch of `staggered` events over `window_for` seconds, and `plain` schedules of one event, all with their
    trigger at the beginning of the next minute. Returns that instant, in seconds since the epoch."""
    now = database_clock()
    trigger_at = now.replace(second=0, microsecond=0) + timedelta(minutes=1)
    common = {
        "cron": "* * * * *",
        "kind": kind,
        "payload_template": {"at": "$run_after"},
        "next_trigger_at": trigger_at,
    }
    batch = {"event_count": staggered, "window_for": window_for, "stagger": "even"}
    Schedule.objects.create(name="staggered", **common, **batch)
    for number in range(plain):
        Schedule.objects.create(name=f"plain {number}", event_count=1, **common)
    return trigger_at.timestamp()


def _peak_mebibytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
