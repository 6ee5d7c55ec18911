"""What an operator does to a worker at work, and what an idle one asks of the database."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connection

from jobs import wakeups
from jobs.clock import boot_seconds, database_clock
from jobs.models import Attempt, BacklogRecord, PausedQueue, RetryPolicy
from jobs.states import AttemptOutcome, Status
from tests.jobs.worker_processes import WorkerProcesses, database_url
from tests.sources.engines.peers import free_port
from tests.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

LONG_LEASE = {"BACKUPSCHED_LEASE": "60"}
"""Its heartbeat comes every 15 s: what happens sooner was not found by it."""


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[WorkerProcesses]:
    workers = WorkerProcesses(tmp_path)
    yield workers
    workers.end()


def put(kind: str, tmp_path: Path, **fields: object) -> BacklogRecord:
    payload = {"gate": str(tmp_path / f"{kind}-gate"), "started": str(tmp_path / f"{kind}-started")}
    defaults = {"queue": "default", "subject": kind, "status": Status.READY, "run_after": database_clock()}
    return BacklogRecord.objects.create(kind=kind, payload=payload, **{**defaults, **fields})


def status_of(record: BacklogRecord) -> Status:
    return Status(BacklogRecord.objects.values_list("status", flat=True).get(pk=record.pk))


def outcomes_of(record: BacklogRecord) -> list[AttemptOutcome]:
    return [AttemptOutcome(outcome) for outcome in record.attempts.values_list("outcome", flat=True)]


class TestCancelling:
    @pytest.mark.parametrize("kind", ["hang", "hang async"])
    def test_a_running_record_stops_its_handler_long_before_the_next_heartbeat(self, workers, tmp_path, kind):
        record = put(kind, tmp_path)
        workers(**LONG_LEASE)
        eventually((tmp_path / f"{kind}-started").exists)
        BacklogRecord.objects.filter(pk=record.pk).update(cancel_requested_at=database_clock())
        asked_at = boot_seconds()
        wakeups.notify_cancelled(record.pk)
        eventually(lambda: status_of(record) == Status.CANCELLED)
        assert boot_seconds() - asked_at < 10
        assert outcomes_of(record) == [AttemptOutcome.CANCELLED]

    def test_is_found_by_the_heartbeat_when_nobody_was_told(self, workers, tmp_path):
        record = put("hang", tmp_path)
        workers()
        eventually((tmp_path / "hang-started").exists)
        BacklogRecord.objects.filter(pk=record.pk).update(cancel_requested_at=database_clock())
        eventually(lambda: status_of(record) == Status.CANCELLED)


class TestPausing:
    def test_a_queue_keeps_its_ready_records_from_being_started_until_it_is_resumed(self, workers, tmp_path):
        PausedQueue.objects.create(name="default")
        held = put("quick", tmp_path)
        workers(**LONG_LEASE)
        other = put("quick", tmp_path, queue="backups", subject="other")
        eventually(lambda: Attempt.objects.filter(record=other).exists() or status_of(other) == Status.WAITING)
        assert status_of(held) == Status.READY
        PausedQueue.objects.all().delete()
        wakeups.notify("default")
        eventually(lambda: status_of(held) == Status.SUCCEEDED)

    def test_lets_what_runs_end(self, workers, tmp_path):
        record = put("hang", tmp_path)
        workers(**LONG_LEASE)
        eventually((tmp_path / "hang-started").exists)
        PausedQueue.objects.create(name="default")
        (tmp_path / "hang-gate").touch()
        eventually(lambda: status_of(record) == Status.SUCCEEDED)


@pytest.mark.parametrize("kind", ["short hang", "short deaf"])
def test_what_runs_for_longer_than_its_kind_may_is_a_failure_and_its_lease_is_not_renewed(workers, tmp_path, kind):
    policy = RetryPolicy.objects.create(name="once", algorithm="constant", max_failures=1)
    record = put(kind, tmp_path, retry_policy=policy)
    workers()
    eventually(lambda: status_of(record) == Status.FAILED)
    expected = AttemptOutcome.FAILED if kind == "short hang" else AttemptOutcome.RESCUED
    assert outcomes_of(record) == [expected]


def test_a_worker_that_finds_no_database_waits_for_it_until_it_is_told_to_stop(workers):
    worker = workers(DATABASE_URL=f"postgresql://nobody@127.0.0.1:{free_port('127.0.0.1')}/none")
    eventually(lambda: workers.log(0).count("the database does not answer") > 1)
    worker.terminate()
    assert worker.wait(20) == 0
    assert "Traceback" not in workers.log(0)


def test_an_idle_worker_asks_at_most_one_question_a_second(workers, tmp_path):
    workers(
        DATABASE_URL=f"{database_url()}?options=-c%20log_statement%3Dall&application_name=idle-worker", **LONG_LEASE
    )
    log = Path(os.environ["BACKUPSCHED_TEST_VAR"]) / "postgres" / "server.log"
    seconds = 8.0
    settled_at = boot_seconds() + 3
    eventually(lambda: boot_seconds() > settled_at)  # LISTEN, and the looks that follow it
    beginning, began_at = log.stat().st_size, boot_seconds()
    eventually(lambda: boot_seconds() > began_at + seconds)
    with log.open() as lines:
        lines.seek(beginning)
        questions = [line for line in lines if of_the_worker(line)]
    assert 3 < len(questions) <= seconds, questions


def of_the_worker(line: str) -> bool:
    found = re.search(r"\[(\d+)\] LOG: +(statement|execute)", line)
    return found is not None and int(found[1]) in backends()


def backends() -> set[int]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pid FROM pg_stat_activity WHERE application_name = 'idle-worker'")
        return {pid for (pid,) in cursor.fetchall()}
