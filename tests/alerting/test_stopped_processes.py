"""The watch beside real processes that are really stopped: a minute is two seconds here, by the settings."""

import os
import signal
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone
from django_q.models import Task
from django_q.tasks import async_task

from alerting import raising, rounds, watchdog
from alerting.models import Watch
from jobs.clock import database_clock
from jobs.models import Worker
from operations.management.commands.install_schedules import install
from tests.jobs.worker_processes import LEASE_SECONDS, SHORT_LEASE, Programs
from tests.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

PERIOD = timedelta(seconds=LEASE_SECONDS)
NO_WORKER, NO_TICK = "watchdog:no_worker", "watchdog:periodic"


@pytest.fixture(autouse=True)
def _short_periods(monkeypatch: pytest.MonkeyPatch, settings) -> None:
    settings.JOBS = settings.JOBS | {"LEASE_SECONDS": LEASE_SECONDS}
    monkeypatch.setattr(rounds, "EVERY", timedelta(0))
    monkeypatch.setattr(watchdog, "TICK_LATE", PERIOD)
    now = timezone.now()
    Watch.objects.create(pk=1, looked_at=now, resumed_at=now - timedelta(hours=1))


def broken() -> set[str]:
    """What the watch finds in a round, and what it found and still holds."""
    rounds.round_of_the_minute()
    return {alert.subject for alert in raising.open_alerts().filter(calm_since=None)} & {NO_WORKER, NO_TICK}


def ticked() -> None:
    """qcluster has run the tick. It looks at its schedule each half minute only, so it is asked for one."""
    async_task("jobs.periodic.tick")
    eventually(lambda: Task.objects.filter(func="jobs.periodic.tick", success=True).exists())


def beat() -> None:
    """The worker has said once more that it lives."""
    before = database_clock()
    eventually(lambda: Worker.objects.filter(heartbeat_at__gt=before).exists())


def test_a_worker_and_a_qcluster_that_stand_or_die_are_noticed_within_two_periods(tmp_path: Path) -> None:
    install()
    programs = Programs(tmp_path)
    try:
        cluster = programs.run("manage.py", "qcluster", **SHORT_LEASE)
        worker = programs.run("manage.py", "worker", "--queues", "default", **SHORT_LEASE)
        for process, subject, lives, stop in (
            (cluster, NO_TICK, ticked, signal.SIGKILL),
            (worker, NO_WORKER, beat, signal.SIGSTOP),
            (worker, NO_WORKER, beat, signal.SIGKILL),
        ):
            os.killpg(process.pid, signal.SIGCONT)
            lives()
            assert subject not in broken(), list(raising.open_alerts())
            os.killpg(process.pid, stop)
            stopped = database_clock()
            eventually(lambda: subject in broken())  # noqa: B023
            assert database_clock() - stopped < 2 * PERIOD
    finally:
        programs.end()
