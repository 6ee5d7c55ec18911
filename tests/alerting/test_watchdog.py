"""Each field by which the scheduler works is corrupted in turn, and each process stopped: the watch notices within two
minutes, and raises nothing while all is well."""

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import pytest
from django.db import connection
from django_q.models import Schedule as PeriodicTask
from django_q.models import Task

from alerting import raising, rounds, watching
from alerting.models import Alert, AlertMessage, Watch
from fleet.conditions import plans
from jobs import conf, tick
from jobs.backlog import hold
from jobs.models import Attempt, BacklogRecord, Breaker, Sweep, Throttle, Worker
from jobs.states import Status, WaitingFor
from operations.conditions import schedules
from operations.task_installation import install
from schedules.models import Schedule, Trigger
from sources.models import Assignment, CheckRound, Copy, Policy, Repository
from sources.planning import catch_up
from tests.alerting.making import MINUTE, make_route
from tests.factories import make_record, make_schedule, make_worker
from tests.sources.factories import backed_up, make_policy

pytestmark = pytest.mark.django_db

NINE = datetime.fromisoformat("2026-03-02T09:00:00+00:00")
TEN = NINE + timedelta(hours=1)
FAR, PAST = NINE + timedelta(days=3650), NINE - timedelta(hours=3)


@pytest.fixture(autouse=True)
def _fresh(monkeypatch) -> None:
    monkeypatch.setattr(watching, "_clock", watching._Clock())
    monkeypatch.setattr(rounds.sending, "in_background", lambda **options: None)


class World:
    """A worker and qcluster that do at each minute what they should, in virtual time. `workers_live` and
    `qcluster_lives`: whether they do. `boot`: how much the boot clock is behind the database's."""

    def __init__(self, now: datetime) -> None:
        self.now, self.boot = now, 0.0
        self.workers_live = self.qcluster_lives = True
        make_route()
        self.worker = make_worker(queues=dict.fromkeys(conf.queue_rules(), 4), started_at=now, heartbeat_at=now)
        install(now=now)
        self.policy = make_policy(cron="0 9 * * *", window=[{"days": "mon-sun", "start": "08:00", "end": "20:00"}])
        self.assignment = backed_up(self.policy, now - timedelta(days=1))
        self.throttle = Throttle.objects.create(name="slow", max_in_flight=3)
        self.events = make_schedule(cron="*/5 * * * *", kind="test", provider="", event_count=1)
        Sweep.objects.create(max_age_days=1, swept_at=now)
        CheckRound.objects.create(assignment=self.assignment, planned_at=now)
        self.breaker = Breaker.objects.create(key="host:a", title="a", probe_at=None)

    def minute(self) -> set[str]:
        """One more minute. Returns what the watch finds broken, by kind and the first part of its subject."""
        self.now += MINUTE
        self.minute_of_work()
        rounds.round_of_the_minute(self.now, self.now.timestamp() - self.boot)
        return {alert.subject.partition(" ")[0] for alert in raising.open_alerts().filter(calm_since=None)}

    def minute_of_work(self) -> None:
        if self.workers_live:
            Worker.objects.filter(pk=self.worker.pk).update(heartbeat_at=self.now)
            self._work()
        if self.qcluster_lives:
            for task in PeriodicTask.objects.filter(next_run__lte=self.now):
                self._run(task)

    def _run(self, task: PeriodicTask) -> None:
        every = {"H": 60, "I": task.minutes}[task.schedule_type]
        PeriodicTask.objects.filter(pk=task.pk).update(next_run=task.next_run + every * MINUTE)
        if task.func == "jobs.periodic.tick":
            tick.tick(self.now, rescue=False)
        Task.objects.create(id=f"{task.pk}-{self.now:%s}", name="t", func=task.func, success=True, started=self.now,
                            stopped=self.now)  # fmt: skip

    def _work(self) -> None:
        catch_up(self.now)
        tick.tick(self.now, rescue=False)
        done = BacklogRecord.objects.filter(status=Status.READY, lane=0)
        for subject in done.filter(kind="backup").values_list("subject", flat=True):
            pk = int(subject.partition(":")[2])
            after = self.policy.schedule.period.next_after(self.now)
            Assignment.objects.filter(pk=pk).update(last_backup_at=self.now, next_backup_at=after, overdue_since=None)
        done.update(status=Status.SUCCEEDED, finished_at=self.now)


@pytest.fixture
def world() -> World:
    found = World(TEN)
    for _ in range(2):
        assert found.minute() == set(), list(raising.open_alerts())
    return found


class Corruption(NamedTuple):
    """Faults, and the subject by which each is noticed."""

    name: str
    do: Callable[[World], Any]
    noticed: str


def waiting(world: World, **fields: Any) -> BacklogRecord:
    facts = {"waiting_for": WaitingFor.WINDOW, "run_after": world.now + timedelta(hours=1), "inserted_at": world.now}
    return make_record(Status.WAITING, **(facts | fields))


def stop(world: World, **flags: bool) -> None:
    vars(world).update(flags)


def update(model: Any, **values: Any) -> Callable[[World], Any]:
    return lambda world: model.objects.update(**values)


def running(world: World, expires_at: datetime) -> None:
    make_record(Status.RUNNING, worker=world.worker, started_at=world.now, lease_expires_at=expires_at)


def lose_a_due_record(world: World) -> None:
    """Due, and tried neither now nor in this period: as when a record was deleted."""
    stop(world, workers_live=False)
    Worker.objects.update(heartbeat_at=FAR - timedelta(days=3600))
    Assignment.objects.update(next_backup_at=PAST, inserted_at=PAST)
    BacklogRecord.objects.all().delete()


def nothing_runs(world: World) -> None:
    vars(world).update(workers_live=False, qcluster_lives=False)


BROKEN_TOGETHER = {
    "while nothing runs, 1": [
        Corruption("Schedule.next_trigger_at empty", update(Schedule, next_trigger_at=None), "schedule:"),
        Corruption("Trigger.emitted_at empty", lambda w: Trigger.objects.create(
                   schedule=w.events, trigger_at=w.now - MINUTE, seen_at=w.now), "trigger:"),
        Corruption("BacklogRecord.run_after passed", lambda w: waiting(w, run_after=w.now), "unpromoted:"),
        Corruption("BacklogRecord.closes_at passed", lambda w: make_record(run_after=w.now, closes_at=w.now),
                   "unclosed:"),
        Corruption("the workers and qcluster are killed", nothing_runs, "workers:"),
    ],
    "while nothing runs, 2": [
        Corruption("Schedule.next_trigger_at past", update(Schedule, next_trigger_at=PAST), "schedule:"),
        Corruption("BacklogRecord.queue unknown", lambda w: make_record(queue="nowhere", run_after=w.now),
                   "unserved_queues:"),
        Corruption("the workers and qcluster are killed", nothing_runs, "ticks:"),
    ],
    "while all runs, 1": [
        Corruption("Schedule.next_trigger_at future", update(Schedule, next_trigger_at=FAR), "schedule:"),
        Corruption("Policy.window", update(Policy, window=[{"days": "never"}]), "window:"),
        Corruption("Assignment.next_backup_at future", update(Assignment, next_backup_at=FAR), "dates:"),
        Corruption("BacklogRecord.run_after endless", lambda w: waiting(w, run_after=FAR), "endless:"),
        Corruption("BacklogRecord.lease_expires_at future", lambda w: running(w, FAR), "endless_leases:"),
        Corruption("BacklogRecord.breaker closed", lambda w: waiting(
                   w, waiting_for=WaitingFor.BREAKER, breaker=w.breaker), "stuck_at_breakers:"),
        Corruption("Task row gone", lambda w: PeriodicTask.objects.filter(name="backlog prune").delete(),
                   "periodic_tasks:"),
        Corruption("the clock of the database stands", lambda w: vars(w).update(boot=w.boot - 60), "clock"),
        Corruption("one worker of two is killed", lambda w: Worker.objects.create(
                   name="b:1", hostname="b", pid=1, queues={}, heartbeat_at=w.now), "worker:"),
    ],
    "while all runs, 2": [
        Corruption("Policy.excluded_dates", update(Policy, excluded_dates=["nonsense"]), "window:"),
        Corruption("Assignment.last_backup_at future", update(Assignment, last_backup_at=FAR), "dates:"),
        Corruption("BacklogRecord.lease_expires_at past", lambda w: running(w, w.now - 3 * MINUTE), "expired_leases:"),
        Corruption("BacklogRecord.breaker missing", lambda w: waiting(
                   w, waiting_for=WaitingFor.BREAKER, breaker_id=999), "stuck_at_breakers:"),
        Corruption("Task.next_run future", update(PeriodicTask, next_run=FAR), "periodic_tasks:"),
        Corruption("the clock of the database is set", lambda w: vars(w).update(boot=w.boot + 3600), "clock"),
    ],
    "while all runs, 3": [
        Corruption("Policy.copy_window", update(Policy, copy_window=[{"days": "never"}]), "copy_window:"),
        Corruption("Assignment.overdue_since future", update(Assignment, overdue_since=FAR), "dates:"),
        Corruption("Breaker.probe_at future", lambda w: (
                   waiting(w, waiting_for=WaitingFor.BREAKER, breaker=w.breaker),
                   Breaker.objects.update(opened_at=w.now, probe_at=FAR)), "stuck_at_breakers:"),
    ],
    "a drill": [Corruption("Assignment.drill_planned_at", update(Assignment, drill_planned_at=FAR), "dates:")],
    "a copy": [Corruption("Assignment.to_copy_since future", update(Assignment, to_copy_since=FAR), "dates:")],
    "a cron": [Corruption("Schedule.cron", update(Schedule, cron="99 * * * *"), "unreadable:")],
    "a zone": [Corruption("Schedule.zone", update(Schedule, zone="Mars/Olympus"), "unreadable:")],
    "what is due": [Corruption("a due assignment without a record", lose_a_due_record, "due:")],
    "claims": [Corruption("no worker claims", lambda w: (
               vars(w).update(_work=lambda: tick.tick(w.now, rescue=False)),
               make_record(lane=0, queue="callbacks", run_after=w.now, kind="stuck")), "unclaimed:")],
}  # fmt: skip
"""None hides another that is broken with it."""


@pytest.mark.parametrize("together", BROKEN_TOGETHER.values(), ids=BROKEN_TOGETHER)
def test_what_is_broken_is_noticed_within_two_minutes(world: World, together: list[Corruption]):
    for corruption in together:
        corruption.do(world)
    found = world.minute() | world.minute()
    unnoticed = [each.name for each in together if not any(subject.startswith(each.noticed) for subject in found)]
    assert unnoticed == [], list(raising.open_alerts())


def test_what_is_dated_in_the_future_is_named_by_the_next_round(world: World):
    CheckRound.objects.update(planned_at=FAR)
    Copy.objects.create(assignment=world.assignment, repository=world.policy.repository, planned_at=FAR)
    Repository.objects.update(pruned_at=FAR)
    Sweep.objects.update(swept_at=FAR)
    Throttle.objects.update(rate=1)
    Throttle.objects.update(tokens_at=FAR)
    make_worker(heartbeat_at=FAR)
    put_off = waiting(world, waiting_for=WaitingFor.RECHECK, attempt=1)
    Attempt.objects.create(record=put_off, number=1, queue="default", outcome=1, started_at=NINE, ended_at=FAR)
    future = {subject for subject in world.minute() if subject.startswith(("future:", "dates:"))}
    assert {re.sub(r":\d+", "", each.partition(":")[2]) for each in future} == {
        "worker", "throttle", "sweep", "records", "check", "copy", "prune",
    }  # fmt: skip


def test_a_prune_that_is_dated_in_the_future_is_named_when_no_assignment_is_left(world: World):
    BacklogRecord.objects.all().delete()
    Assignment.objects.all().delete()
    Repository.objects.update(pruned_at=FAR)
    assert "dates:prune" in world.minute()


def test_a_database_that_is_slow_to_answer_leaves_a_round_its_time(world: World, slow_database):
    for module in (plans, schedules):
        slow_database(module)
    Policy.objects.update(window=[{"days": "never"}])
    Schedule.objects.filter(policy=None).update(cron="99 * * * *")
    assert {found.partition(":")[0] for found in world.minute()} == {"unreadable", "window"}
    assert Alert.objects.count() == 2


def test_a_date_that_cannot_be_read_is_an_alert_and_holds_up_no_other(world: World):
    record = waiting(world)
    with connection.cursor() as cursor:  # of a database that has lost its check
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("ALTER TABLE jobs_backlogrecord DROP CONSTRAINT every_instant_of_a_record_is_readable")
        cursor.execute("UPDATE jobs_backlogrecord SET run_after = '-infinity' WHERE id = %s", [record.pk])
    Assignment.objects.update(failures=2, first_failure_at=world.now)
    rounds.round_of_the_minute(world.now + MINUTE)
    alerts = dict(Alert.objects.values_list("kind", "text"))
    assert "failing" in alerts
    assert "'-infinity'" in Alert.objects.get(subject="watch").text


def test_people_hear_of_it_by_the_next_round(world: World):
    stop(world, workers_live=False)
    for _ in range(3):
        world.minute()
    assert "No worker is alive" in AlertMessage.objects.get().body
    stop(world, workers_live=True)
    for _ in range(8):
        world.minute()
    assert AlertMessage.objects.first().title.startswith("OK again")


def test_a_hold_raises_itself_and_nothing_else(world: World):
    hold("the disk is replaced", by="anna", now=world.now)
    stop(world, workers_live=True)
    world._work = lambda: tick.tick(world.now, rescue=False)
    make_record(queue="backups", run_after=world.now, closes_at=world.now + 2 * MINUTE)  # neither claimed nor closed
    assert {found for _ in range(6) for found in world.minute()} == {"hold"}


def test_after_a_night_in_which_no_process_looked_nothing_is_late(world: World):
    world.boot += 8 * 3600  # the boot clock of a virtual machine stood still as well
    watching._clock._last = None
    world.now += timedelta(hours=8)
    assert [world.minute() for _ in range(5)] == [set()] * 5


@pytest.mark.slow
def test_no_false_alarm_in_thirty_days_about_a_change_of_clocks():
    """The minutes about each trigger, and, about the change to summer time, of each end of a window and midnight. In
    between, the work is done, and the rounds are taken as done."""
    first = NINE + timedelta(days=20)
    world = World(first - timedelta(hours=3))
    Schedule.objects.update(zone="Europe/Berlin")
    world.policy.schedule.refresh_from_db()
    Assignment.objects.update(next_backup_at=world.policy.schedule.period.next_after(world.now - timedelta(days=1)))
    for day in range(30):
        for hour in (6, 7, 18, 22) if 6 <= day < 9 else (7 if day < 6 else 6,):  # UTC
            world.now = (first + timedelta(days=day)).replace(hour=hour, minute=57)
            world.minute_of_work()
            Watch.objects.filter(resumed_at__lt=world.now).update(looked_at=world.now)
            watching._clock._last = None
            for _ in range(3):
                world.minute()
    assert list(Alert.objects.values_list("kind", "subject", "text")) == []
