"""The worker as real processes, ended by real signals."""

import signal
import subprocess
from datetime import timedelta

import pytest
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from jobs import rescuing
from jobs.clock import database_clock
from jobs.models import Attempt, BacklogRecord, Worker
from jobs.states import AttemptOutcome, Status, WaitingFor
from tests.factories import make_retry_policy, status_of
from tests.jobs.worker_processes import outcomes_of
from tests.upgrades.newer import HERE, version_with
from tests.waiting import PATIENCE, eventually

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

RENEWED_LEASE_SECONDS = 20
"""Long enough not to be lost by a machine that stands still for ten seconds. It is renewed every five."""


def cut_all_others() -> None:
    """End every session of the database but this one."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


@pytest.mark.promise
def test_a_stopped_worker_releases_the_rest_also_what_does_not_stop_and_that_is_no_failure(workers):
    records = [workers.put("hang"), workers.put("unresponsive")]
    worker = workers(grace=0.2, WORKER_STOPPING="1")
    workers.wait_for("hang", "unresponsive")
    worker.terminate()
    assert worker.wait(PATIENCE) == 0
    for record in records:
        record.refresh_from_db()
        assert (record.status, record.failures, outcomes_of(record)) == (Status.READY, 0, [AttemptOutcome.RELEASED])


def test_a_second_signal_does_not_wait_for_the_grace(workers):
    record = workers.put("hang")
    worker = workers(grace=600)
    workers.wait_for("hang")
    worker.terminate()
    eventually(lambda: "stops: 1 running" in workers.log())
    worker.terminate()
    assert worker.wait(PATIENCE) == 0
    assert status_of(record) == Status.READY


@pytest.mark.promise
def test_a_worker_that_slept_past_its_lease_drops_its_result(workers, settings):
    settings.JOBS = {**settings.JOBS, "LEASE_SECONDS": 1}  # this process rescues, once the server has run for so long
    record = workers.put("hang", retry_policy=make_retry_policy(parameters={"base": 0.1}))
    sleeper = workers()
    workers.wait_for("hang")
    sleeper.send_signal(signal.SIGSTOP)
    BacklogRecord.objects.filter(pk=record.pk).update(lease_expires_at=database_clock())
    workers.let_go("hang")
    other = workers()
    eventually(rescuing.rescue)
    eventually(lambda: status_of(record) == Status.SUCCEEDED)
    before = list(Attempt.objects.filter(record=record).order_by("number").values())
    sleeper.send_signal(signal.SIGCONT)
    sleeper.terminate()
    assert sleeper.wait(PATIENCE) == 0
    assert list(Attempt.objects.filter(record=record).order_by("number").values()) == before
    assert outcomes_of(record) == [AttemptOutcome.RESCUED, AttemptOutcome.SUCCEEDED]
    assert other.poll() is None


def need(comment: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"COMMENT ON TABLE django_migrations IS {comment}")


def test_a_worker_continues_on_expanded_tables_and_on_others_finishes_what_runs_claims_no_more_and_ends(workers):
    record = workers.put("hang")
    worker = workers(grace=0.1, WORKER_MINUTELY="0.2")
    workers.wait_for("hang")
    expanding = MigrationRecorder.Migration.objects.create(app="jobs", name="0999_later")
    try:
        eventually(lambda: "jobs 0999_later; this worker continues" in workers.log())
        assert status_of(workers.put("quick")) == Status.READY
        eventually(lambda: not BacklogRecord.objects.filter(kind="quick").exclude(status=Status.SUCCEEDED).exists())
        need("'programs need: jobs.0999_later'")
        contracting = MigrationRecorder.Migration.objects.create(app="jobs", name="1000_less")
        eventually(lambda: "stops: 1 running" in workers.log())
        after = workers.put("quick")
        workers.let_go("hang")
        assert worker.wait(PATIENCE) == 0
    finally:
        need("NULL")
        contracting.delete()
        expanding.delete()
    assert (status_of(record), status_of(after)) == (Status.SUCCEEDED, Status.READY)
    assert workers.log().count("the database was migrated") == 1


def test_a_worker_ends_when_its_host_is_upgraded_after_the_database_and_loads_no_new_migration(workers, tmp_path):
    def start(name: str) -> "subprocess.Popen[bytes]":
        return workers(grace=0.1, WORKER_MINUTELY="0.2", **version_with({**HERE}, tmp_path / name))

    def upgrade(*names: str) -> None:
        for name in names:
            for migration in ("9001_more", "9002_not_applied_yet"):
                file = tmp_path / name / f"version{len(HERE)}" / "migrations" / f"{migration}.py"
                file.write_text("from jobs.online import WhatOnlyTheNewVersionHas")

    at_work = [start("its database first"), start("its host first")]
    for number, _ in enumerate(at_work):
        eventually(lambda number=number: " serves " in workers.log(number))
    upgrade("its host first")
    expanding = MigrationRecorder.Migration.objects.create(app="audit", name="9001_more")
    try:
        at_work.append(start("while ahead"))
        eventually(lambda: "audit 9001_more; this worker continues" in workers.log(0))
        eventually(lambda: " serves " in workers.log(2))
        assert at_work[1].wait(PATIENCE) == 0, workers.log(1)
        upgrade("its database first", "while ahead")
        assert [each.wait(PATIENCE) for each in at_work] == [0, 0, 0]
    finally:
        expanding.delete()
    for number, _ in enumerate(at_work):
        assert workers.log(number).count("another version was installed on this host after worker") == 1


@pytest.mark.promise
def test_a_live_worker_keeps_its_lease_and_a_stopped_one_finishes_what_ends_within_the_grace_and_asks_no_more(workers):
    record, question = workers.put("hang"), workers.put("question", queue="questions")
    environment = {"BACKUPSCHED_LEASE": str(RENEWED_LEASE_SECONDS), "WORKER_QUESTIONS": "1"}
    both = [workers(grace=PATIENCE, **environment) for _ in range(2)]
    workers.wait_for("hang", "question")
    nearly_over = database_clock() + timedelta(seconds=RENEWED_LEASE_SECONDS / 2)
    this = BacklogRecord.objects.filter(pk=record.pk)
    this.update(lease_expires_at=nearly_over)
    eventually(this.filter(lease_expires_at__gt=nearly_over).exists)
    for worker in both:
        worker.terminate()
    eventually(lambda: question.attempts.exists())
    workers.let_go("hang")
    assert [worker.wait(PATIENCE) for worker in both] == [0, 0]
    assert set(outcomes_of(question)) == {AttemptOutcome.RELEASED}
    assert (status_of(record), outcomes_of(record)) == (Status.SUCCEEDED, [AttemptOutcome.SUCCEEDED])
    assert not Worker.objects.filter(stopped_at=None).exists()


def test_a_database_that_refuses_writes_is_waited_for_and_no_result_is_lost(workers):
    record = workers.put("hang")
    worker = workers()
    workers.wait_for("hang")
    with connection.cursor() as cursor:
        cursor.execute("SELECT quote_ident(current_database())")
        [database] = cursor.fetchone()
        cursor.execute(f"ALTER DATABASE {database} SET default_transaction_read_only = on")
        try:
            cut_all_others()
            workers.let_go("hang")
            after = workers.put("quick")  # neither its claim is written now nor the result of the first
            refused = [f"cannot execute {what} in a read-only transaction" for what in ("SELECT FOR UPDATE", "INSERT")]
            eventually(lambda: all(each in workers.log() for each in refused))  # by its main loop and its settler
        finally:
            cursor.execute(f"ALTER DATABASE {database} RESET default_transaction_read_only")
    eventually(lambda: status_of(record) == status_of(after) == Status.SUCCEEDED)
    assert worker.poll() is None
    assert outcomes_of(record) == outcomes_of(after) == [AttemptOutcome.SUCCEEDED]
    eventually(lambda: "the database answers again" in workers.log())
    assert [workers.log().count(each) for each in refused] == [1, 1]


def test_what_the_database_has_forgotten_while_it_was_away_is_stopped_when_it_is_back_and_not_at_the_next_heartbeat(
    workers,
):
    """The state after a failover to a replica that lagged: the next heartbeat is due in a quarter of an hour."""
    record = workers.put("hang")
    workers()
    workers.wait_for("hang")
    BacklogRecord.objects.filter(pk=record.pk).update(
        status=Status.WAITING,
        waiting_for=WaitingFor.START,
        run_after=database_clock() + timedelta(hours=1),
        attempt=0,
        started_at=None,
        leased_by=None,
        lease_token=None,
        lease_expires_at=None,
    )
    cut_all_others()
    eventually(lambda: "lost the lease of hang" in workers.log())
