"""What an operator does to a worker at work, and what an idle one asks of the database."""

import os
import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from django.db import connection

from jobs import backlog, wakeups
from jobs.clock import database_clock
from jobs.models import Attempt, BacklogRecord, Hold, PausedQueue, RetryPolicy
from jobs.states import AttemptOutcome, Status
from tests.factories import status_of
from tests.jobs.worker_processes import BEATING_LEASE, database_url
from tests.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

FEW = 6
"""Questions of an idle worker, over which their pace is taken."""


def put(kind: str, tmp_path: Path, **fields: object) -> BacklogRecord:
    payload = {"gate": str(tmp_path / f"{kind}-gate"), "started": str(tmp_path / f"{kind}-started")}
    defaults = {"queue": "default", "subject": kind, "status": Status.READY, "run_after": database_clock()}
    return BacklogRecord.objects.create(kind=kind, payload=payload, **{**defaults, **fields})


def once() -> RetryPolicy:
    return RetryPolicy.objects.create(name="once", algorithm="constant", max_failures=1)


def outcomes_of(record: BacklogRecord) -> list[AttemptOutcome]:
    return [AttemptOutcome(outcome) for outcome in record.attempts.order_by("number").values_list("outcome", flat=True)]


@pytest.mark.promise
def test_a_cancel_a_pause_and_the_longest_time_of_a_kind_stop_what_they_name_long_before_the_next_heartbeat(
    workers, tmp_path
):
    kinds = ["hang", "hang async"]
    cancelled, too_long = [put(kind, tmp_path) for kind in kinds], put("short hang", tmp_path, retry_policy=once())
    workers()
    for kind in kinds:
        eventually((tmp_path / f"{kind}-started").exists)
    backlog.cancel([record.pk for record in cancelled])
    eventually(lambda: [status_of(record) for record in cancelled] == [Status.CANCELLED] * 2)
    assert [outcomes_of(record) for record in cancelled] == [[AttemptOutcome.CANCELLED]] * 2
    eventually(lambda: status_of(too_long) == Status.FAILED)
    assert outcomes_of(too_long) == [AttemptOutcome.FAILED]

    PausedQueue.objects.create(name="default")
    held = put("quick", tmp_path)
    other = put("quick", tmp_path, queue="backups", subject="other")
    wakeups.notify("default")
    wakeups.notify("backups")
    eventually(lambda: Attempt.objects.filter(record=other).exists() or status_of(other) == Status.WAITING)
    assert status_of(held) == Status.READY
    PausedQueue.objects.all().delete()
    wakeups.notify("default")
    eventually(lambda: status_of(held) == Status.SUCCEEDED)


@pytest.mark.promise
def test_a_hold_stops_what_runs_without_a_failure_and_a_release_starts_it_again(workers, tmp_path):
    stopped = put("hang", tmp_path)
    sent = put("hang async", tmp_path)
    workers()
    for kind in ("hang", "hang async"):
        eventually((tmp_path / f"{kind}-started").exists)
    backlog.hold("a bad day", by="kim")
    eventually(lambda: status_of(stopped) == Status.READY)
    assert outcomes_of(stopped) == [AttemptOutcome.RELEASED]
    assert BacklogRecord.objects.get(pk=stopped.pk).failures == 0
    assert "everything is on hold: stopping what runs here (1)" in workers.log()
    assert status_of(sent) == Status.RUNNING  # what it sent cannot be taken back
    (tmp_path / "hang-gate").touch()
    backlog.release(by="kim")
    eventually(lambda: status_of(stopped) == Status.SUCCEEDED)


@pytest.mark.promise
def test_a_heartbeat_finds_a_hold_that_sent_no_notice(workers, tmp_path):
    record = put("hang", tmp_path)
    workers(**BEATING_LEASE)
    eventually((tmp_path / "hang-started").exists)
    Hold.objects.create(reason="a bad day", by="kim")
    eventually(lambda: status_of(record) == Status.READY)
    assert set(outcomes_of(record)) == {AttemptOutcome.RELEASED}


@pytest.mark.promise
def test_a_heartbeat_finds_a_cancel_that_sent_no_notice_and_does_not_renew_what_runs_too_long(workers, tmp_path):
    cancelled, too_long = put("hang", tmp_path), put("short unresponsive", tmp_path, retry_policy=once())
    workers(**BEATING_LEASE)
    eventually((tmp_path / "hang-started").exists)
    BacklogRecord.objects.filter(pk=cancelled.pk).update(cancel_requested_at=database_clock())
    eventually(lambda: status_of(cancelled) == Status.CANCELLED)
    eventually(lambda: status_of(too_long) == Status.FAILED)
    assert outcomes_of(too_long)[-1] == AttemptOutcome.RESCUED


def test_an_idle_worker_asks_at_most_one_question_a_second(workers, tmp_path):
    log = Path(os.environ["BACKUPSCHED_TEST_VAR"]) / "postgres" / "server.log"
    beginning = log.stat().st_size
    workers(DATABASE_URL=f"{database_url()}?options=-c%20log_statement%3Dall&application_name=idle-worker")

    def asks_as_seldom() -> bool:
        with log.open(errors="replace") as lines:  # of all tests, and being written
            lines.seek(beginning)
            asked_at = times_of_questions(lines, backends())
        return len(asked_at) > FEW and asked_at[-1] - asked_at[-FEW] >= timedelta(seconds=FEW - 1)

    eventually(asks_as_seldom)  # not at its start: LISTEN, and the looks that follow it


def times_of_questions(lines: Iterable[str], askers: set[int]) -> list[datetime]:
    """When these sessions asked something, by the server's log."""
    found = [re.match(r"(\S+ \S+) UTC \[(\d+)\] LOG: +(statement|execute)", line) for line in lines]
    return [datetime.fromisoformat(each[1]) for each in found if each and int(each[2]) in askers]


def backends() -> set[int]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pid FROM pg_stat_activity WHERE application_name = 'idle-worker'")
        return {pid for (pid,) in cursor.fetchall()}
