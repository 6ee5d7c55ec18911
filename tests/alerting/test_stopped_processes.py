"""The watch beside real processes that are really stopped: a minute is eight seconds here, by the settings."""

import os
import signal
from datetime import datetime, timedelta

import pytest
from django_q.models import Task
from django_q.tasks import async_task

from alerting import watching
from alerting.models import Watch
from jobs.clock import database_clock
from jobs.models import Worker
from operations.conditions import work
from operations.task_installation import install
from tests.jobs.worker_processes import Programs
from tests.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

LEASE = {"BACKUPSCHED_LEASE": "8"}
"""It outlasts a machine that stands still for a moment; its heartbeat comes every two seconds."""
PERIOD = timedelta(seconds=8)
NO_WORKER, NO_TICK = "workers:workers", "ticks:qcluster"


@pytest.fixture(autouse=True)
def _short_periods(monkeypatch: pytest.MonkeyPatch, settings) -> None:
    settings.JOBS = settings.JOBS | {"LEASE_SECONDS": PERIOD.total_seconds()}
    monkeypatch.setattr(work, "TICK_LATE", PERIOD)


def broken(at: datetime) -> set[str]:
    """The findings of the watch in a round at that instant."""
    watch = Watch(looked_at=at, resumed_at=at - timedelta(hours=1))
    return {found.subject for found in watching.look(watch, at).alerts}


def ticked() -> datetime:
    """Wait until qcluster has run the tick. It looks at its schedule only each half minute, so it is asked for one."""
    async_task("jobs.periodic.tick")
    return eventually(lambda: Task.objects.filter(func="jobs.periodic.tick", success=True).first()).stopped


def beat() -> datetime:
    """Wait until the worker has reported once more that it is alive."""
    before = database_clock()
    return eventually(lambda: Worker.objects.filter(heartbeat_at__gt=before).first()).heartbeat_at


def test_a_worker_and_a_qcluster_that_stand_or_die_are_noticed_within_two_periods(programs: Programs) -> None:
    """Noticed by what they have written: the watch is asked about instants, so the test may be slow."""
    install()
    cluster = programs.run("manage.py", "qcluster", **LEASE)
    worker = programs.run("manage.py", "worker", "--queues", "default", **LEASE)
    for process, subject, lives, stop in (
        (cluster, NO_TICK, ticked, signal.SIGKILL),
        (worker, NO_WORKER, beat, signal.SIGSTOP),
        (worker, NO_WORKER, beat, signal.SIGKILL),
    ):
        os.killpg(process.pid, signal.SIGCONT)
        assert subject not in broken(lives() + PERIOD * 0.9)
        os.killpg(process.pid, stop)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        assert subject in broken(database_clock() + 2 * PERIOD)
