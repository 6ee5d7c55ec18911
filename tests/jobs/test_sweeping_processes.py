"""Real processes that sweep: a qcluster by its schedule, and a worker when there is no qcluster."""

import sys
from datetime import timedelta

import psutil
import pytest
from django.core.management import call_command
from django_q.models import Schedule as PeriodicTask
from django_q.models import Success

from jobs.clock import database_clock
from jobs.models import BacklogRecord, Sweep
from jobs.retries.tiers import TIERS
from jobs.states import Status, WaitingFor
from jobs.sweeps import slot
from tests.factories import make_record
from tests.waiting import PATIENCE, eventually

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

IMPATIENT = """
import django
django.setup()
from django.core.management import call_command
from jobs.worker import process
process.MINUTELY_SECONDS = 0.5  # instead of a minute
call_command("worker", "--queues", "callbacks")
"""


CLUSTER = """
import django
django.setup()
from django.core.management import call_command
from django_q.conf import Conf
Conf.GUARD_CYCLE = 30  # its scheduler, which looks when 30 s of them have passed, looks at once
call_command("qcluster")
"""


def make_waiting(age: timedelta) -> BacklogRecord:
    now = database_clock()
    values = {"inserted_at": now - age, "run_after": now + timedelta(days=360) - age, "failures": 5}
    return make_record(
        Status.WAITING,
        waiting_for=WaitingFor.SWEEP,
        first_failure_at=now - age,
        last_failure_at=now - min(age, timedelta(days=9)),
        **values,
    )


def is_ready(record: BacklogRecord) -> bool:
    record.refresh_from_db()
    return record.status == Status.READY


def test_a_qcluster_runs_the_sweep_of_a_tier_when_its_time_has_come(programs, capsys):
    old, older = make_waiting(timedelta(days=100)), make_waiting(timedelta(days=300))
    call_command("qcluster", "install")
    # only this one is due, and the tick, which would sweep what is overdue, is not there
    name = "backlog sweep: up to 180 days old, every 96 hours"
    PeriodicTask.objects.exclude(name=name).delete()
    began = slot(TIERS[4], database_clock())
    PeriodicTask.objects.update(next_run=began)

    programs.run("-c", CLUSTER)
    try:
        eventually(lambda: is_ready(old))
        # django-q2 writes its own row after the task has ended
        eventually(lambda: Success.objects.filter(func="jobs.periodic.process_backlog"))
    except AssertionError:
        raise AssertionError(programs.log()) from None
    assert not is_ready(older)
    assert Success.objects.get().result == "1 ready"
    assert Sweep.objects.get().max_age_days == 180
    assert PeriodicTask.objects.get().next_run == began + timedelta(hours=96)


def test_a_worker_runs_the_sweeps_that_are_overdue_when_there_is_no_qcluster(programs):
    records = [make_waiting(timedelta(days=days)) for days in (5, 179, 359)]
    programs.run("-c", IMPATIENT)
    try:
        eventually(lambda: all(is_ready(record) for record in records), 3 * PATIENCE)
    except AssertionError:
        raise AssertionError(programs.log()) from None
    assert Sweep.objects.filter(swept__gt=0).exists()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
@pytest.mark.parametrize("whose", ["the cluster", "its guard"])
def test_all_processes_of_a_qcluster_end_when_one_that_started_them_is_killed(programs, whose):
    """They would run the periodic tasks beside those of the qcluster that is started next."""
    process = programs.run("manage.py", "qcluster")
    eventually(lambda: " running." in programs.log())
    cluster = psutil.Process(process.pid)
    [guard] = cluster.children()
    others = guard.children(recursive=True)
    assert len(others) >= 3, "a worker, a monitor and a pusher"
    (cluster if whose == "the cluster" else guard).kill()
    eventually(lambda: not any(lives(each) for each in (guard, *others)))
    process.wait(PATIENCE)


def lives(process: psutil.Process) -> bool:
    """False also while the first process of a container, which may never do it, has not collected its exit code."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
