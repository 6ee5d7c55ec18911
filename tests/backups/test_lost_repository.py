"""A real worker that meets a repository which fails for every source."""

import logging
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.models import Attempt, BacklogRecord, Breaker
from jobs.states import AttemptOutcome, Status, WaitingFor
from sources import planning
from sources.models import Assignment, Backup, Policy, Repository
from tests.factories import make_retry_policy
from tests.sources.factories import make_assignment, make_policy, make_source
from tests.sources.worker_process import worker_process
from tests.waiting import eventually

log = logging.getLogger(__name__)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

SOURCES, UNITS = 5, 4


@pytest.fixture
def repositories(tmp_path: Path) -> tuple[Policy, Policy]:
    """Two policies of many folders each; the directory of the first one's repository is not there."""
    at_once = make_retry_policy(parameters={"base": 1})
    lost, kept = (Repository.objects.create(name=name, location=str(tmp_path / name)) for name in ("lost", "kept"))
    policies = make_policy(repository=lost, retry_policy=at_once), make_policy(repository=kept)
    (tmp_path / "kept").mkdir()
    for policy in policies:
        for number in range(SOURCES):
            folder = tmp_path / f"share-{policy.pk}-{number}"
            folder.mkdir()
            (folder / "file").write_bytes(os.urandom(1000))
            make_assignment(policy, make_source(path=str(folder)))
    return policies


@pytest.fixture
def worker(repositories: tuple[Policy, Policy], tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    planning.emit_due()
    queues = f"{planning.AVAILABILITY}:50,{planning.BACKUPS}:{UNITS}"
    quick = {"BACKUPSCHED_BREAKER_PROBE": "1", "BACKUPSCHED_BREAKER_LONGEST": "2"}
    with worker_process(queues, tmp_path, **quick) as process:
        yield process


def test_a_real_worker_stops_trying_a_lost_repository_and_goes_on_when_it_is_back(
    repositories: tuple[Policy, Policy], worker: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    lost, kept = repositories

    def backed_up(policy: Policy) -> int:
        assert worker.poll() is None, (tmp_path / "worker.log").read_text()
        return Backup.objects.filter(assignment__policy=policy).values("assignment").distinct().count()

    def held() -> int:
        return BacklogRecord.objects.filter(status=Status.WAITING, waiting_for=WaitingFor.BREAKER).count()

    eventually(lambda: backed_up(kept) == SOURCES and held() >= SOURCES - 1, seconds=90)
    breaker = Breaker.objects.get()
    failed = Attempt.objects.filter(outcome=AttemptOutcome.FAILED).count()
    charged = BacklogRecord.objects.filter(failures__gt=0).count()
    assert breaker.is_open
    assert charged <= 2
    assert backed_up(lost) == 0
    # no directory is found out in no time, so some more fail until the opening is committed: what was asked ahead
    assert failed - breaker.trials <= SOURCES
    log.info("%s attempts failed for %s sources, %s of them trials", failed, SOURCES, breaker.trials)

    eventually(lambda: Breaker.objects.get().trials >= breaker.trials + 3)
    trials = Breaker.objects.get().trials
    again = Attempt.objects.filter(outcome=AttemptOutcome.FAILED).count()
    assert again - failed <= trials - breaker.trials + 2 + 1  # those charged, when they come back, and a late trial

    (tmp_path / "lost").mkdir()
    eventually(lambda: backed_up(lost) == SOURCES, seconds=90)
    breaker.refresh_from_db()
    assert not breaker.is_open
    assert Assignment.objects.filter(failures__gt=0).count() == 0
    assert held() == 0
