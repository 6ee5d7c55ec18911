"""Real processes that sweep: a qcluster by its schedule, and a worker when there is no qcluster."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
from django.conf import settings as project
from django.core.management import call_command
from django_q.models import Schedule as PeriodicTask
from django_q.models import Success

from jobs.clock import database_clock
from jobs.models import BacklogRecord, Sweep
from jobs.retries.sweeps import slot
from jobs.retries.tiers import TIERS
from jobs.states import Status, WaitingFor
from tests.factories import make_record
from tests.jobs.worker_processes import database_url
from tests.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

IMPATIENT = """
import django
django.setup()
from django.core.management import call_command
from jobs.worker import process
process.BESIDES_SECONDS = 0.5  # instead of a minute
call_command("worker", "--queues", "callbacks")
"""


class Programs:
    """Processes with their children, each in a group of its own, on the test's database."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.started: list[subprocess.Popen[bytes]] = []

    def __call__(self, *arguments: str) -> Path:
        """Start Python with these. Returns where its log is."""
        log = self.directory / f"log-{len(self.started)}"
        environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "backupsched.settings",
            "DATABASE_URL": database_url(),
            "PYTHONPATH": str(project.BASE_DIR),
        }
        with log.open("wb") as stderr:
            self.started.append(
                subprocess.Popen(
                    [sys.executable, *arguments],
                    cwd=project.BASE_DIR,
                    env=environment,
                    stdout=stderr,
                    stderr=stderr,
                    start_new_session=True,
                )
            )
        return log

    def end(self) -> None:
        """By the ids of the groups that were started here: a qcluster is several processes."""
        for process in self.started:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture
def start(tmp_path) -> Iterator[Programs]:
    programs = Programs(tmp_path)
    yield programs
    programs.end()


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


def test_a_qcluster_runs_the_sweep_of_a_tier_when_its_time_has_come(start, capsys):
    old, older = make_waiting(timedelta(days=100)), make_waiting(timedelta(days=300))
    call_command("install_schedules")
    # only this one is due, and the tick, which would sweep what is overdue, is not there
    name = "backlog sweep: up to 180 days old, every 96 hours"
    PeriodicTask.objects.exclude(name=name).delete()
    began = slot(TIERS[4], database_clock())
    PeriodicTask.objects.update(next_run=began)

    log = start("manage.py", "qcluster")
    try:
        eventually(lambda: is_ready(old), 90)
        # django-q2 writes its own row after the task has ended
        eventually(lambda: Success.objects.filter(func="jobs.periodic.process_backlog"))
    except AssertionError:
        raise AssertionError(log.read_text()) from None
    assert not is_ready(older)
    assert Success.objects.get().result == "1 ready"
    assert Sweep.objects.get().max_age_days == 180
    assert PeriodicTask.objects.get().next_run == began + timedelta(hours=96)


def test_a_worker_runs_the_sweeps_that_are_overdue_when_there_is_no_qcluster(start):
    records = [make_waiting(timedelta(days=days)) for days in (5, 12, 29, 179, 359)]
    log = start("-c", IMPATIENT)
    try:
        eventually(lambda: all(is_ready(record) for record in records), 90)
    except AssertionError:
        raise AssertionError(log.read_text()) from None
    assert Sweep.objects.filter(swept__gt=0).exists()
