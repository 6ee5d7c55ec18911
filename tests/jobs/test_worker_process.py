"""The worker as real processes, ended by real signals."""

import signal
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from jobs.clock import database_clock
from jobs.models import Attempt, BacklogRecord, RetryPolicy, Worker
from jobs.states import AttemptOutcome, Status
from tests.factories import status_of
from tests.jobs.worker_processes import RESCUING_LEASE, WorkerProcesses
from tests.waiting import PATIENCE, eventually

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

RENEWED_LEASE_SECONDS = 20
"""Long enough not to be lost by a machine that stands still for ten seconds. It is renewed every five."""


@pytest.fixture
def start_worker(tmp_path: Path) -> Iterator[WorkerProcesses]:
    """Starts workers and kills what is left of them at the end."""
    workers = WorkerProcesses(tmp_path)
    yield workers
    workers.end()


def put(kind: str, tmp_path: Path, **fields: Any) -> BacklogRecord:
    """A ready record that hangs until `gate` exists, if it is of a kind that hangs."""
    payload = {"gate": str(tmp_path / f"{kind}-gate"), "started": str(tmp_path / f"{kind}-started")}
    policy, _ = RetryPolicy.objects.get_or_create(
        name="at once", defaults={"algorithm": "constant", "parameters": {"base": 0.1}, "max_failures": 3}
    )
    defaults = {"queue": "default", "subject": kind, "status": Status.READY, "run_after": database_clock()}
    return BacklogRecord.objects.create(kind=kind, payload=payload, retry_policy=policy, **{**defaults, **fields})


def outcomes_of(record: BacklogRecord) -> list[AttemptOutcome]:
    attempts = Attempt.objects.filter(record=record).order_by("number")
    return [AttemptOutcome(outcome) for outcome in attempts.values_list("outcome", flat=True)]


def started_by_a_worker(kind: str, tmp_path: Path) -> Callable[[], bool]:
    return (tmp_path / f"{kind}-started").exists


def cut_all_others() -> None:
    """End every session of the database but this one."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


@pytest.mark.promise
def test_a_stopped_worker_releases_the_rest_also_what_does_not_stop_and_that_is_no_failure(start_worker, tmp_path):
    records = [put("hang", tmp_path), put("unresponsive", tmp_path)]
    worker = start_worker(grace=0.2, WORKER_STOPPING="1")
    for record in records:
        eventually(started_by_a_worker(record.kind, tmp_path))
    worker.terminate()
    assert worker.wait(PATIENCE) == 0
    for record in records:
        record.refresh_from_db()
        assert (record.status, record.failures, outcomes_of(record)) == (Status.READY, 0, [AttemptOutcome.RELEASED])


def test_a_second_signal_does_not_wait_for_the_grace(start_worker, tmp_path):
    record = put("hang", tmp_path)
    worker = start_worker(grace=600)
    eventually(started_by_a_worker("hang", tmp_path))
    worker.terminate()
    eventually(lambda: "stops: 1 running" in (tmp_path / "log-0").read_text())
    worker.terminate()
    assert worker.wait(PATIENCE) == 0
    assert status_of(record) == Status.READY


@pytest.mark.promise
def test_a_worker_that_slept_past_its_lease_drops_its_result(start_worker, tmp_path):
    record = put("hang", tmp_path)
    sleeper = start_worker()
    eventually(started_by_a_worker("hang", tmp_path))
    sleeper.send_signal(signal.SIGSTOP)
    BacklogRecord.objects.filter(pk=record.pk).update(lease_expires_at=database_clock())
    (tmp_path / "hang-gate").touch()
    other = start_worker(**RESCUING_LEASE)
    eventually(lambda: status_of(record) == Status.SUCCEEDED)
    before = list(Attempt.objects.filter(record=record).order_by("number").values())
    sleeper.send_signal(signal.SIGCONT)
    sleeper.terminate()
    assert sleeper.wait(PATIENCE) == 0
    assert list(Attempt.objects.filter(record=record).order_by("number").values()) == before
    assert outcomes_of(record) == [AttemptOutcome.RESCUED, AttemptOutcome.SUCCEEDED]
    assert other.poll() is None


def test_a_worker_whose_database_is_migrated_finishes_what_runs_claims_no_more_and_ends(start_worker, tmp_path):
    record = put("hang", tmp_path)
    worker = start_worker(grace=0.1, WORKER_BESIDES="0.2")
    eventually(started_by_a_worker("hang", tmp_path))
    migration = MigrationRecorder.Migration.objects.create(app="jobs", name="0999_later")
    try:
        eventually(lambda: "stops: 1 running" in start_worker.log(0))
        after = put("quick", tmp_path)
        (tmp_path / "hang-gate").touch()
        assert worker.wait(PATIENCE) == 0
    finally:
        migration.delete()
    assert (status_of(record), status_of(after)) == (Status.SUCCEEDED, Status.READY)
    assert start_worker.log(0).count("the database was migrated") == 1


@pytest.mark.promise
def test_a_live_worker_keeps_its_lease_and_a_stopped_one_finishes_what_ends_within_the_grace(start_worker, tmp_path):
    record = put("hang", tmp_path)
    workers = [start_worker(grace=20, BACKUPSCHED_LEASE=str(RENEWED_LEASE_SECONDS)) for _ in range(2)]
    eventually(started_by_a_worker("hang", tmp_path))
    nearly_over = database_clock() + timedelta(seconds=RENEWED_LEASE_SECONDS / 2)
    this = BacklogRecord.objects.filter(pk=record.pk)
    this.update(lease_expires_at=nearly_over)
    eventually(this.filter(lease_expires_at__gt=nearly_over).exists)
    for worker in workers:
        worker.terminate()
    (tmp_path / "hang-gate").touch()
    assert [worker.wait(PATIENCE) for worker in workers] == [0, 0]
    assert (status_of(record), outcomes_of(record)) == (Status.SUCCEEDED, [AttemptOutcome.SUCCEEDED])
    assert not Worker.objects.filter(stopped_at=None).exists()


def test_a_database_that_refuses_writes_is_waited_for_and_no_result_is_lost(start_worker, tmp_path):
    record = put("hang", tmp_path)
    worker = start_worker()
    eventually(started_by_a_worker("hang", tmp_path))
    with connection.cursor() as cursor:
        cursor.execute("SELECT quote_ident(current_database())")
        [database] = cursor.fetchone()
        cursor.execute(f"ALTER DATABASE {database} SET default_transaction_read_only = on")
        try:
            cut_all_others()
            (tmp_path / "hang-gate").touch()
            after = put("quick", tmp_path)  # neither its claim is written now nor the result of the first
            refused = [f"cannot execute {what} in a read-only transaction" for what in ("SELECT FOR UPDATE", "INSERT")]
            eventually(lambda: all(each in start_worker.log(0) for each in refused))  # by its main loop and its settler
        finally:
            cursor.execute(f"ALTER DATABASE {database} RESET default_transaction_read_only")
    eventually(lambda: status_of(record) == status_of(after) == Status.SUCCEEDED)
    assert worker.poll() is None
    assert outcomes_of(record) == outcomes_of(after) == [AttemptOutcome.SUCCEEDED]
    eventually(lambda: "the database answers again" in start_worker.log(0))
    assert [start_worker.log(0).count(each) for each in refused] == [1, 1]
