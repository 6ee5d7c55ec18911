"""The parts around the worker's main loop: look-ahead, guard, heartbeat, options, periodic tasks."""

from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.core.management.base import CommandError
from django.db import connection, transaction
from django.db.utils import DataError, OperationalError
from django.test.utils import CaptureQueriesContext

from jobs import claiming, periodic, settling
from jobs.clock import database_clock
from jobs.conf import QueueRule
from jobs.handlers import Run, registry
from jobs.management.commands.worker import _rules
from jobs.models import Attempt, BacklogRecord
from jobs.outcomes import Succeeded
from jobs.states import Status
from jobs.worker import hints, process
from jobs.worker.heartbeat import Guard, Heartbeat
from jobs.worker.process import POLL_SECONDS, SHORTEST_SLEEP_SECONDS
from jobs.worker.units import STARVED_SECONDS
from tests.factories import make_claimed, make_record, make_worker
from tests.jobs.held import Held
from tests.threads import another_connection, impatience
from tests.waiting import eventually


class TestGuard:
    def test_stops_what_was_not_renewed_for_two_thirds_of_a_lease(self, settings):
        settings.JOBS = {"LEASE_SECONDS": 60}
        late, fresh = Run(make_claimed(id=1), renewed_at=100.0), Run(make_claimed(id=2), renewed_at=130.0)
        guard = Guard(Held(late, fresh))
        guard.look(139.9)
        assert not late.stop.is_set()
        guard.look(140.1)
        assert late.stop.is_set()
        assert not fresh.stop.is_set()


@pytest.mark.django_db
class TestHeartbeat:
    def test_renews_what_the_worker_owns_and_stops_what_it_lost(self):
        worker = make_worker(heartbeat_at=database_clock() - timedelta(hours=1))
        owned, lost = make_record(), make_record()
        claimed = {record.id: record for record in claiming.claim("default", worker_id=worker.pk, limit=2)}
        settling.settle([(claimed[lost.pk], Succeeded())])
        runs = {record_id: Run(record) for record_id, record in claimed.items()}
        before = BacklogRecord.objects.get(pk=owned.pk).lease_expires_at
        Heartbeat(worker.pk, Held(*runs.values())).beat()
        assert runs[lost.pk].stop.is_set()
        assert not runs[owned.pk].stop.is_set()
        assert runs[owned.pk].renewed_at > 0
        assert BacklogRecord.objects.get(pk=owned.pk).lease_expires_at > before
        worker.refresh_from_db()
        assert database_clock() - worker.heartbeat_at < timedelta(minutes=1)

    @pytest.mark.parametrize("is_forgotten", [True, False], ids=["settled", "about to be settled"])
    def test_says_nothing_of_what_has_ended_meanwhile(self, is_forgotten, caplog, monkeypatch):
        worker, record = make_worker(), make_record()
        [claimed] = claiming.claim("default", worker_id=worker.pk, limit=1)
        run = Run(claimed)
        run.began_at = 1.0
        held, renew = Held(run), claiming.renew

        def ends_after(*arguments, **options):
            settling.settle([(claimed, Succeeded())])
            renewed = renew(*arguments, **options)
            held.end(run)
            if is_forgotten:
                held.forget(run)
            return renewed

        monkeypatch.setattr(claiming, "renew", ends_after)
        Heartbeat(worker.pk, held).beat()
        assert BacklogRecord.objects.get(pk=record.pk).status == Status.SUCCEEDED
        assert "lost the lease" not in caplog.text
        assert not run.is_stopped

    def test_a_beat_that_fails_is_logged_and_tried_again(self, caplog, monkeypatch, settings):
        settings.JOBS = {**settings.JOBS, "LEASE_SECONDS": 2}
        beats = []

        def fails_once(heartbeat):
            beats.append(heartbeat)
            if not beats[1:]:
                raise DataError("a broken row\n")

        monkeypatch.setattr(Heartbeat, "beat", fails_once)
        heartbeat = Heartbeat(make_worker().pk, Held())
        heartbeat.start()
        eventually(lambda: beats[1:])
        heartbeat.end()
        assert caplog.messages == ["heartbeat failed, trying again: a broken row"]


@pytest.mark.django_db
def test_a_newer_version_on_its_host_ends_a_worker_and_is_logged(caplog, monkeypatch):
    worker = process.WorkerProcess([QueueRule("default", 4)])
    worker.row = make_worker()
    monkeypatch.setattr(worker.upgrades, "found", lambda: "another version was installed on this host")
    worker._notice_upgrades()
    assert worker.is_outdated
    assert caplog.messages == [
        f"another version was installed on this host after worker {worker.row} started: it ends once its running "
        "records have ended"
    ]


@pytest.mark.django_db
class TestSleep:
    """Seconds for which the main loop sleeps after a look, unless it is woken: no time passes but the database's."""

    @pytest.fixture(params=[60])
    def worker(self, request, settings, monkeypatch) -> process.WorkerProcess:
        """A worker, by the length of its leases in seconds."""
        settings.JOBS = {**settings.JOBS, "LEASE_SECONDS": request.param}
        for module in (process, hints):
            monkeypatch.setattr(module, "boot_seconds", lambda: 0.0)
        worker = process.WorkerProcess([QueueRule("default", 4)])
        worker.units = SimpleNamespace(waiting=lambda: 0)
        return worker

    @pytest.mark.parametrize(("worker", "seconds"), [(60, 1.25), (2, 0.5)], indirect=["worker"])
    def test_lasts_until_the_next_poll_when_nothing_is_due_soon(self, worker, seconds):
        later = database_clock() + timedelta(hours=1)
        make_record(Status.WAITING, run_after=later)
        make_record(Status.RUNNING, lease_expires_at=later)
        make_record(closes_at=later)
        for _ in range(3):
            assert not worker.look()
            assert worker._seconds_to_sleep() == seconds

    def test_ends_when_a_waiting_record_may_run_and_lasts_a_moment_after_one_did(self, worker):
        record = make_record(Status.WAITING, run_after=database_clock() + timedelta(seconds=POLL_SECONDS / 2))
        worker.look()
        assert SHORTEST_SLEEP_SECONDS <= worker._seconds_to_sleep() <= POLL_SECONDS / 2
        BacklogRecord.objects.filter(pk=record.pk).update(run_after=database_clock())
        assert worker.look()
        assert worker._seconds_to_sleep() == SHORTEST_SLEEP_SECONDS

    def test_ends_when_a_queue_is_worth_a_claim_or_what_was_claimed_has_waited_for_too_long(self, worker):
        worker.look()
        worker.units = SimpleNamespace(waiting=lambda: 1)
        assert worker._seconds_to_sleep() == STARVED_SECONDS
        worker.hints.again("default", 0.25)
        assert worker._seconds_to_sleep() == 0.25


@pytest.mark.django_db(transaction=True)
def test_a_worker_asks_for_records_that_it_owns_unknowingly_after_the_database_was_busy():
    """It may have claimed them: a record that cannot be read is written to after its claim was committed."""
    worker, unreadable = process.WorkerProcess([QueueRule("default", 4)]), make_record()
    with another_connection() as other, impatience():
        other.execute("SELECT FROM jobs_backlogrecord WHERE id = %s FOR UPDATE", [unreadable.pk])
        assert not worker._safely(lambda: BacklogRecord.objects.filter(pk=unreadable.pk).update(priority=1))
    assert worker._was_cut_off


class TestOptions:
    def test_queues_narrow_and_size_what_is_served(self):
        rules = _rules("backups:3, availability", None)
        assert [(rule.name, rule.concurrency) for rule in rules] == [
            ("arrivals", 200),
            ("backups", 3),
            ("availability", 200),
        ]
        assert rules[2].feeds == "backups"
        assert {rule.name: rule.concurrency for rule in _rules("", 5)}["backups"] == 5

    @pytest.mark.parametrize(
        ("queues", "concurrency", "problem"),
        [
            ("nonsense", None, "no queue 'nonsense'; there are arrivals, availability"),
            ("backups:none", None, "'none' is not a number"),
            ("backups:0", None, "'0' is not a number of 1 or more"),
            ("", 0, "--concurrency is a number"),
            ("availability", 4, "--queues leaves out"),
        ],
    )
    def test_a_bad_option_is_named(self, queues, concurrency, problem):
        with pytest.raises(CommandError, match=problem) as refused:
            _rules(queues, concurrency)
        assert refused.value.returncode == 2


@pytest.mark.django_db
class TestPeriodicTasks:
    def test_one_that_fails_or_waits_for_a_lock_is_logged_and_holds_up_no_other(self, monkeypatch, caplog):
        def fail() -> int:
            raise ZeroDivisionError

        def fail_in_the_database() -> int:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute("SET LOCAL lock_timeout = '10ms'; SELECT 1 / 0")
            return 0

        def wait_for_a_lock() -> int:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute("SET LOCAL statement_timeout = 1; SELECT pg_sleep(1)")
            return 0

        def last() -> int:
            done.append("besides")
            return 3

        record = make_record(status=Status.WAITING, run_after=database_clock() - timedelta(minutes=1))
        done: list[str] = []
        monkeypatch.setattr(periodic.sweeps, "run_overdue", fail)
        monkeypatch.setattr(registry, "periodic", [fail, fail_in_the_database, wait_for_a_lock, last])
        monkeypatch.setattr(registry, "rare", [])
        message = periodic.tick()
        record.refresh_from_db()
        assert (record.status, done) == (Status.READY, ["besides"])
        assert "promoted=1" in message
        assert "3 changed besides" in message
        failures = [record.getMessage() for record in caplog.records if record.name == "jobs.periodic"]
        assert len(failures) == 4
        assert "fail_in_the_database failed" in failures[2]

    def test_a_round_asks_the_clock_once_and_does_rare_work_where_it_is_asked_to(self, monkeypatch):
        done, instants = [], []

        def often() -> int:
            instants.append(database_clock())
            return 0

        monkeypatch.setattr(registry, "periodic", [often, often])
        monkeypatch.setattr(registry, "rare", [lambda: done.append("rarely") or 1])
        with CaptureQueriesContext(connection) as asked:
            assert periodic.run_minutely(rare=False) == 0
        assert sum("clock_timestamp" in each["sql"] for each in asked) == 1
        assert instants[0] < instants[1] <= database_clock()
        assert not done
        assert periodic.run_rarely() == 1
        assert periodic.run_minutely() == 1
        assert done == ["rarely"] * 2

    def test_a_database_that_is_away_is_told_to_who_asked(self, monkeypatch):
        def ask() -> int:
            raise OperationalError("server closed the connection unexpectedly")

        monkeypatch.setattr(registry, "periodic", [ask])
        with pytest.raises(OperationalError):
            periodic.run_minutely()

    def test_pruning_deletes_old_finished_records_with_their_attempts_and_no_others(self):
        worker = make_worker()
        old, waiting = make_record(), make_record(status=Status.WAITING)
        [claimed] = claiming.claim("default", worker_id=worker.pk, limit=1)
        settling.settle([(claimed, Succeeded())])
        assert periodic.prune() == 0
        assert periodic.prune(now=database_clock() + timedelta(days=91)) == 1
        assert list(BacklogRecord.objects.values_list("pk", flat=True)) == [waiting.pk]
        assert not Attempt.objects.filter(record_id=old.pk).exists()
