"""The doctor on the work: workers, queues, periodic tasks and sweeps."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import connection
from django_q.models import OrmQ
from django_q.models import Schedule as PeriodicTask

from jobs.clock import database_clock
from jobs.models import BacklogRecord, Breaker, PausedQueue, Sweep, Worker
from jobs.states import Status, WaitingFor
from operations.backlog.attention import attention
from operations.backlog.summary import summary
from operations.finding import Finding, Severity
from tests.factories import NOON, make_record, make_worker
from tests.operations.conditions.examining import LEASE, OK, PROBLEM, WARNING, finding, in_time, serve


@pytest.mark.django_db
class TestWorkers:
    def test_none_alive_is_a_warning_and_a_problem_when_records_are_ready(self):
        make_record(Status.WAITING)
        assert finding("workers").severity is WARNING
        make_record()
        make_worker(heartbeat_at=in_time(seconds=-61))
        found = finding("workers")
        assert (found.severity, found.what) == (PROBLEM, "No worker is alive")
        make_worker(heartbeat_at=in_time(seconds=-30))
        assert finding("workers").severity is OK

    @pytest.mark.parametrize(("seconds", "severity"), [(30, OK), (65, WARNING), (3_700, OK)])
    def test_a_worker_that_fell_silent_within_the_last_hour_is_named_until_one_begins_there(self, seconds, severity):
        worker = make_worker(heartbeat_at=in_time(seconds=-seconds), started_at=in_time(days=-1))
        make_worker(
            started_at=in_time(days=-1), heartbeat_at=in_time(hours=-1), stopped_at=in_time(hours=-1)
        )  # by itself
        found = finding("silent_workers")
        assert found.severity is severity
        assert [each.subject for each in found.found] == ([f"worker:{worker.pk}"] if severity is WARNING else [])
        make_worker(started_at=in_time(seconds=-20), heartbeat_at=in_time(seconds=-1))
        assert finding("silent_workers").severity is OK

    @pytest.mark.parametrize(("minutes", "severity"), [(1, WARNING), (20, OK)])
    def test_a_worker_that_ran_out_of_sockets_lately_is_named(self, minutes, severity):
        worker = serve(availability=200)
        Worker.objects.filter(pk=worker.pk).update(sockets=3584, out_of_sockets_at=in_time(minutes=-minutes))
        found = finding("sockets")
        assert found.severity is severity
        assert (worker.name in found.what) == (severity is WARNING)

    @pytest.mark.parametrize(("leases", "severity"), [(1.5, OK), (2.1, PROBLEM)])
    def test_a_lease_that_expired_two_leases_ago_is_a_problem(self, leases, severity):
        now = in_time(days=1)  # the server has long been up
        make_record(Status.RUNNING, lease_expires_at=now - leases * LEASE)
        found = finding("expired_leases", now=now)
        assert found.severity is severity

    def test_nothing_has_to_be_rescued_just_after_a_start_of_the_server(self):
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_postmaster_start_time()")
            started_at: datetime = cursor.fetchone()[0]
        make_record(Status.RUNNING, lease_expires_at=started_at - 10 * LEASE)
        assert finding("expired_leases", now=started_at + 1.9 * LEASE).severity is OK
        assert finding("expired_leases", now=started_at + 2.1 * LEASE).severity is PROBLEM


@pytest.mark.django_db
def test_what_was_set_aside_without_a_reason_is_named_all_the_same() -> None:
    at = database_clock()
    record = make_record(
        Status.WAITING, waiting_for=WaitingFor.WINDOW, run_after=at, closes_at=at - LEASE, last_error="set aside: "
    )
    assert finding("set_aside").what.endswith(f"record {record.pk}: no reason was given")


def a_strange_kind() -> None:
    make_record(kind="strange")


def a_queue_without_a_worker() -> None:
    make_record(Status.WAITING, queue="backups")


def a_queue_that_no_settings_know() -> None:
    make_record(Status.RUNNING, queue="elsewhere")


def a_pause() -> None:
    PausedQueue.objects.create(name="default", reason="moving")
    make_record()


def an_open_breaker() -> None:
    Breaker.objects.create(key="k:1", title="nas", failures=3, opened_at=NOON, probe_at=NOON)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("make", "name", "severity", "subject"),
    [
        (a_queue_without_a_worker, "unserved_queues", PROBLEM, "queue:backups"),
        (a_queue_that_no_settings_know, "unserved_queues", PROBLEM, "queue:elsewhere"),
        (a_pause, "paused_queues", WARNING, "queue:default"),
        (a_strange_kind, "unknown_kinds", PROBLEM, "kind:strange"),
        (an_open_breaker, "open_breakers", WARNING, "breaker:k:1"),
    ],
)
def test_what_is_wrong_with_the_queue_is_a_finding_in_the_words_of_the_summary(
    make: Callable[[], None], name: str, severity: Severity, subject: str
) -> None:
    now = NOON + timedelta(hours=1)
    make_worker(queues={"default": 1}, heartbeat_at=now)
    assert finding(name, now).severity is OK
    make()
    found = finding(name, now)
    assert (found.severity, [each.subject for each in found.found]) == (severity, [subject])
    assert f"{found.what}: {found.do}." in attention(summary(now))


@pytest.mark.django_db
class TestThePeriodicTasks:
    @pytest.fixture(autouse=True)
    def installed(self, capsys):
        call_command("qcluster", "install")

    def test_a_task_that_is_not_installed_or_was_changed_is_a_warning(self):
        PeriodicTask.objects.filter(name="backlog prune").delete()
        PeriodicTask.objects.filter(name="backlog tick").update(minutes=60)
        sweep = PeriodicTask.objects.get(name="backlog sweep: up to 7 days old, hourly")
        PeriodicTask.objects.filter(pk=sweep.pk).update(next_run=sweep.next_run + timedelta(seconds=7))  # off its grid
        found = finding("periodic_tasks")
        assert found.severity is WARNING
        assert "backlog prune is not installed" in found.what
        assert found.do == "`manage.py qcluster install`"
        assert "minutes is 60" in found.what
        assert "hourly was changed (next_run is" in found.what

    @pytest.mark.parametrize(("minutes", "severity"), [(0, OK), (9, OK), (11, WARNING)])
    def test_a_task_that_does_not_run_is_a_warning_that_says_what_waits(self, minutes, severity):
        found = finding("periodic_tasks", now=in_time(minutes=minutes))
        assert found.severity is severity
        if severity is WARNING:
            assert {"late:backlog tick", "late:backlog prune"} <= {each.subject for each in found.found}
            assert "qcluster" in found.do
            assert "only pruning, digests and the list of backups at risk wait" in found.what

    def test_a_sweep_that_does_not_run_is_late_ten_minutes_after_its_time_however_rare_it_is(self):
        name = "backlog sweep: up to 360 days old, every 192 hours"
        at = PeriodicTask.objects.get(name=name).next_run
        PeriodicTask.objects.exclude(name=name).update(next_run=at)
        assert finding("periodic_tasks", now=at + timedelta(minutes=10)).severity is OK
        found = finding("periodic_tasks", now=at + timedelta(minutes=11)).found
        [late] = [each for each in found if name in each.subject]
        assert late.text == f"{name} is overdue by 11 min"

    def test_a_cluster_that_schedules_and_takes_nothing_from_its_queue_is_a_warning(self):
        OrmQ.objects.create(key="backupsched", payload="", lock=in_time(minutes=-11))
        found = finding("periodic_tasks")
        assert found.severity is WARNING
        assert "1 task in the qcluster's queue is not taken" in found.what

    def test_an_installation_without_django_q2_is_ok(self, monkeypatch):
        # not by INSTALLED_APPS: the admin's theme would make a new site, with nothing in it, for the tests that follow
        monkeypatch.setattr(apps, "is_installed", lambda name: name != "django_q")
        found = finding("periodic_tasks", now=in_time(hours=1))
        assert found.severity is OK
        assert "not installed" in found.what


@pytest.mark.django_db
class TestTheSweeps:
    NOW = datetime(2026, 3, 2, 12, 30, tzinfo=UTC)

    def waiting(self, *, days: float, failed: timedelta) -> BacklogRecord:
        """A record of that age that waits for a sweep, and failed so long ago."""
        facts = {"inserted_at": self.NOW - timedelta(days=days), "last_failure_at": self.NOW - failed, "failures": 3}
        until = self.NOW + timedelta(days=360 - days)
        return make_record(Status.WAITING, waiting_for=WaitingFor.SWEEP, run_after=until, **facts)

    def found(self) -> Finding:
        return finding("sweeps", now=self.NOW)

    @pytest.mark.parametrize(
        ("days", "failed", "severity"),
        [
            (0.5, timedelta(minutes=14), OK),
            (0.5, timedelta(minutes=16), PROBLEM),
            (20, timedelta(hours=12, minutes=29), OK),
            (20, timedelta(hours=12, minutes=31), PROBLEM),
            (300, timedelta(days=9), PROBLEM),
        ],
    )
    def test_that_do_not_come_in_their_slot_are_a_problem(self, days, failed, severity):
        assert (self.found().severity, self.found().numbers["waiting"]) == (OK, 0)
        self.waiting(days=days, failed=failed)
        found = self.found()
        assert found.severity is severity
        assert found.numbers["waiting"] == 1
        if severity is PROBLEM:
            assert "start a worker, or `manage.py qcluster`" in found.do
        for tier in (1, 7, 14, 30, 180, 360):  # they came, although the failure is old
            Sweep.objects.create(max_age_days=tier, swept_at=self.NOW - timedelta(seconds=10))
        assert self.found().severity is OK

    def test_that_left_some_are_a_warning_that_says_what_to_do(self):
        self.waiting(days=0.5, failed=timedelta(hours=5))
        Sweep.objects.create(max_age_days=1, swept_at=self.NOW - timedelta(minutes=20), swept=9, left_some=True)
        for days in (7, 14, 30, 180, 360):
            Sweep.objects.create(max_age_days=days, swept_at=self.NOW - timedelta(minutes=20))
        found = self.found()
        assert (found.severity, [each.subject for each in found.found]) == (WARNING, ["sweep:1"])
        assert "up to 1 day old took as many as it may (9)" in found.what
        assert "JOBS['SWEEP_MAX_RECORDS'] (now 10,000)" in found.do
