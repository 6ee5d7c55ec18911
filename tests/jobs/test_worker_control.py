"""Actions of an operator on a worker at work, and the statements of an idle one."""

import os
import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from django.db import connection

from jobs import backlog, wakeups
from jobs.clock import database_clock
from jobs.models import Attempt, BacklogRecord, Hold, PausedQueue
from jobs.states import AttemptOutcome, Status
from tests.factories import status_of
from tests.jobs.worker_processes import BEATING_LEASE, database_url, once, outcomes_of
from tests.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

FEW = 6
"""Questions of an idle worker, over which their pace is taken."""


@pytest.mark.promise
def test_a_cancel_a_pause_and_the_longest_time_of_a_kind_stop_what_they_name_long_before_the_next_heartbeat(
    workers,
):
    kinds = ["hang", "hang async"]
    cancelled, too_long = [workers.put(kind) for kind in kinds], workers.put("short hang", retry_policy=once())
    workers()
    workers.wait_for(*kinds)
    backlog.cancel([record.pk for record in cancelled])
    eventually(lambda: [status_of(record) for record in cancelled] == [Status.CANCELLED] * 2)
    assert [outcomes_of(record) for record in cancelled] == [[AttemptOutcome.CANCELLED]] * 2
    eventually(lambda: status_of(too_long) == Status.FAILED)
    assert outcomes_of(too_long) == [AttemptOutcome.FAILED]

    PausedQueue.objects.create(name="default")
    held = workers.put("quick")
    other = workers.put("quick", queue="backups", subject="other")
    wakeups.notify("default")
    wakeups.notify("backups")
    eventually(lambda: Attempt.objects.filter(record=other).exists() or status_of(other) == Status.WAITING)
    assert status_of(held) == Status.READY
    PausedQueue.objects.all().delete()
    wakeups.notify("default")
    eventually(lambda: status_of(held) == Status.SUCCEEDED)


@pytest.mark.promise
def test_a_hold_stops_what_runs_without_a_failure_and_a_release_starts_it_again(workers):
    stopped = workers.put("hang")
    sent = workers.put("hang async")
    workers()
    workers.wait_for("hang", "hang async")
    backlog.hold("a bad day", by="kim")
    eventually(lambda: status_of(stopped) == Status.READY)
    assert outcomes_of(stopped) == [AttemptOutcome.RELEASED]
    assert BacklogRecord.objects.get(pk=stopped.pk).failures == 0
    assert "everything is on hold: stopping the records that run here (1)" in workers.log()
    assert status_of(sent) == Status.RUNNING  # what it sent cannot be taken back
    workers.let_go("hang")
    backlog.release(by="kim")
    eventually(lambda: status_of(stopped) == Status.SUCCEEDED)


@pytest.mark.promise
def test_a_heartbeat_finds_a_cancel_and_a_hold_that_sent_no_notice_and_does_not_renew_what_runs_too_long(workers):
    cancelled, too_long = workers.put("hang async"), workers.put("short unresponsive", retry_policy=once())
    held = workers.put("hang")
    workers(**BEATING_LEASE)
    workers.wait_for("hang async", "hang", "short unresponsive")
    BacklogRecord.objects.filter(pk=cancelled.pk).update(cancel_requested_at=database_clock())
    eventually(lambda: status_of(cancelled) == Status.CANCELLED)
    Hold.objects.create(reason="a bad day", by="kim")
    eventually(lambda: status_of(held) == Status.READY)
    assert set(outcomes_of(held)) == {AttemptOutcome.RELEASED}
    eventually(lambda: status_of(too_long) == Status.FAILED)
    assert outcomes_of(too_long)[-1] == AttemptOutcome.RESCUED


def test_an_idle_worker_asks_at_most_one_question_a_second_also_beside_what_is_held_back(workers):
    log = Path(os.environ["BACKUPSCHED_TEST_VAR"]) / "postgres" / "server.log"
    workers(DATABASE_URL=f"{database_url()}?options=-c%20log_statement%3Dall&application_name=idle-worker")

    def asks_as_seldom(since: int) -> bool:
        with log.open(errors="replace") as lines:  # of all tests, and being written
            lines.seek(since)
            asked_at = times_of_questions(lines, backends())
        return len(asked_at) > FEW and asked_at[-1] - asked_at[-FEW] >= timedelta(seconds=FEW - 1)

    def becomes_idle() -> None:  # not at once: it listens, or is woken, and the looks follow that
        since = log.stat().st_size
        eventually(lambda: asks_as_seldom(since))

    becomes_idle()
    backlog.pause_queue("default")
    held_back = workers.put("hang")  # it is not claimed, and not asked for again and again
    becomes_idle()
    backlog.hold("a bad day", by="kim")
    backlog.resume_queue("default")
    becomes_idle()
    assert status_of(held_back) == Status.READY


def times_of_questions(lines: Iterable[str], askers: set[int]) -> list[datetime]:
    """The instants at which these sessions asked something, by the server's log."""
    found = [re.match(r"(\S+ \S+) UTC \[(\d+)\] LOG: +(statement|execute)", line) for line in lines]
    return [datetime.fromisoformat(each[1]) for each in found if each and int(each[2]) in askers]


def backends() -> set[int]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pid FROM pg_stat_activity WHERE application_name = 'idle-worker'")
        return {pid for (pid,) in cursor.fetchall()}
