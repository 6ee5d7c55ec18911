"""Rows for tests, only such as could exist: the status decides which timestamps and lease fields are set."""

from datetime import UTC, datetime, timedelta
from importlib import import_module
from itertools import count
from typing import Any
from uuid import uuid4

from django.db import connection

from jobs import claiming, settling, throttles
from jobs.models import BacklogRecord, RetryPolicy, Throttle, Worker
from jobs.outcomes import ClaimedRecord, Outcome
from jobs.states import FINISHED, Status, WaitingFor
from schedules.models import Schedule

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
"""A Monday. The instant of every row by default."""

_numbers = count(1)


def make_worker(name: str = "", **fields: Any) -> Worker:
    """A worker that lives: its heartbeat is now."""
    return Worker.objects.create(name=name or f"host:{next(_numbers)}", hostname="host", pid=1, **fields)


def make_record(status: Status = Status.READY, *, worker: Worker | None = None, **fields: Any) -> BacklogRecord:
    """One backlog record in `status`."""
    record = build_record(status, worker=worker, **fields)
    record.save(force_insert=True)
    return record


def build_record(status: Status = Status.READY, *, worker: Worker | None = None, **fields: Any) -> BacklogRecord:
    """The same, unsaved. What runs is leased by `worker` until a minute after it was claimed."""
    values: dict[str, Any] = {
        "kind": "test",
        "queue": "default",
        "subject": f"subject {next(_numbers)}",
        "status": status,
        "inserted_at": NOON,
        "run_after": NOON,
    }
    if status == Status.WAITING:
        values.update(waiting_for=WaitingFor.START, run_after=NOON + timedelta(minutes=1))
    if status == Status.RUNNING:
        values.update(
            attempt=1,
            started_at=NOON,
            leased_by=worker or make_worker(),
            lease_token=uuid4(),
            lease_expires_at=NOON + timedelta(minutes=1),
        )
    if status in FINISHED:
        values.update(attempt=1, started_at=NOON, finished_at=NOON)
    if fields.get("failures"):
        values.update(first_failure_at=NOON, last_failure_at=NOON)
    return BacklogRecord(**(values | fields))


def make_claimed(**fields: Any) -> ClaimedRecord:
    """A claimed record as a value, for pure functions. It was never backed up and never failed."""
    values: dict[str, Any] = {
        "id": next(_numbers),
        "kind": "test",
        "queue": "default",
        "subject": "subject",
        "payload": {},
        "attempt": 1,
        "worker_id": 1,
        "lease_token": uuid4(),
        "started_at": NOON,
        "priority": 0,
        "due_day": None,
        "rank_day": None,
        "tried_at": None,
        "expected_seconds": None,
        "failures": 0,
        "first_failure_at": None,
        "last_failure_at": None,
        "closes_at": None,
        "origin_id": None,
        "retry_policy_id": None,
        "exclusive_key": None,
        "lane": 0,
    }
    return ClaimedRecord(**(values | fields))


def claim_ready(limit: int = 1000, queue: str = "default", now: datetime | None = NOON) -> list[ClaimedRecord]:
    """The ready records of `queue`, in claim order, claimed at `now` by a new worker."""
    return claiming.claim(queue, worker_id=make_worker().pk, limit=limit, now=now)


def claim_new(count: int = 1, now: datetime | None = NOON, **fields: Any) -> list[ClaimedRecord]:
    """This number of new records, claimed at `now`."""
    for _ in range(count):
        make_record(**fields)
    return claim_ready(count, now=now)


def settled(outcome: Outcome, now: datetime = NOON) -> BacklogRecord:
    """The record that is first in line, claimed at `now` and settled at once."""
    [claimed] = claim_ready(1, now=now)
    settling.settle([(claimed, outcome)], now=now)
    return BacklogRecord.objects.get(pk=claimed.id)


def make_retry_policy(**fields: Any) -> RetryPolicy:
    return RetryPolicy.objects.create(**({"name": f"retry {next(_numbers)}", "algorithm": "constant"} | fields))


def install_presets() -> None:
    """The retry policies that every installation begins with: a test with real transactions takes them away. In one
    statement, since most tests begin with it; the migration takes four for each."""
    migration = import_module("jobs.migrations.0002_functions_and_presets")
    presets = [{"max_delay": migration.LARGEST} | each for each in migration.PUBLISHED] + [*migration.OURS]
    RetryPolicy.objects.bulk_create([RetryPolicy(**each) for each in presets], ignore_conflicts=True)


def make_schedule(**fields: Any) -> Schedule:
    """Daily at nine, UTC, never emitted yet."""
    values = {"name": f"schedule {next(_numbers)}", "cron": "0 9 * * *", "kind": "test", "provider": "test"}
    return Schedule.objects.create(**(values | fields))


def make_throttle(max_in_flight: int) -> Throttle:
    return Throttle.objects.create(name=f"throttle {next(_numbers)}", max_in_flight=max_in_flight)


def make_lane(*caps: Throttle) -> int:
    """The lane of the records that name these throttles."""
    return throttles.lane_of([throttle.pk for throttle in caps])


def status_of(record: BacklogRecord) -> Status:
    return Status(BacklogRecord.objects.values_list("status", flat=True).get(pk=record.pk))


def statuses(*records: BacklogRecord) -> list[Status]:
    found = dict(BacklogRecord.objects.values_list("pk", "status"))
    return [Status(found[record.pk]) for record in records]


def everything_stored() -> str:
    """Every row of every table, as one text."""
    with connection.cursor() as cursor:
        found = []
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f'SELECT t::text FROM "{table}" t')
            found += [row[0] for row in cursor.fetchall()]
    return "\n".join(found)
