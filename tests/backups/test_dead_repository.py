"""A repository on a dead share: no file operation there ever returns, and no signal ends the process that made it."""

import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from backups import repository_orders
from backups.copying.handler import copy_source
from external.processes import runner
from external.processes.orders import NoAnswer
from external.processes.runner import Command
from fleet import repository_edits
from jobs.backlog.cancelling import cancel
from jobs.handlers import Run
from jobs.models import Attempt, BacklogRecord
from jobs.outcomes import Failed
from jobs.states import AttemptOutcome, Status
from sources import planning
from sources.availability.repository_breaker import guarded_by
from sources.models import Assignment, Backup, Policy, Repository
from tests.operations.conditions.examining import finding
from tests.sources.dead_mount import dead_mount
from tests.sources.factories import claimed_for, make_assignment, make_policy, make_source, record_of
from tests.sources.worker_process import worker_process
from tests.waiting import PATIENCE, eventually

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.own_process]

UNITS = 2
LEASE_SECONDS = 20
"""The limit in seconds; a stop may take a sixth of it."""
ENDED_WITHIN_SECONDS = 15.0


@pytest.fixture
def dead(tmp_path: Path) -> Iterator[Policy]:
    """A policy whose repository died a while ago. It is backed up first."""
    with dead_mount(tmp_path / "dead"):
        repository = Repository.objects.create(name="attic", location=str(tmp_path / "dead"))
        yield make_policy(repository=repository, priority=5)


@pytest.fixture
def kept(tmp_path: Path) -> Policy:
    (tmp_path / "kept").mkdir()
    return make_policy(repository=Repository.objects.create(name="cellar", location=str(tmp_path / "kept")))


def fill_the_units(dead: Policy, kept: Policy, folder: Path) -> tuple[list[Assignment], Assignment]:
    """Assignments: as many into the dead repository as there are units, and one after them into the other."""
    first = [make_assignment(dead, make_source(path=str(folder))) for _ in range(UNITS)]
    behind = make_assignment(kept, make_source(path=str(folder)))
    planning.emit_due()
    return first, behind


def running() -> list[int]:
    return list(BacklogRecord.objects.filter(status=Status.RUNNING, queue="backups").values_list("pk", flat=True))


@pytest.mark.slow
class TestAWorkerWhoseUnitsAreAllHung:
    def test_is_freed_by_a_cancel_within_seconds_and_other_repositories_go_on(
        self, dead: Policy, kept: Policy, folder: Path, tmp_path: Path
    ) -> None:
        hung, behind = fill_the_units(dead, kept, folder)
        queues = f"{planning.AVAILABILITY}:10,{planning.BACKUPS}:{UNITS}"
        with worker_process(queues, tmp_path, BACKUPSCHED_LEASE=str(LEASE_SECONDS)):
            ids = {record_of(assignment).pk for assignment in hung}
            eventually(lambda: set(running()) == ids)
            cancel(ids)
            ended = BacklogRecord.objects.filter(pk__in=ids, status=Status.CANCELLED)
            eventually(lambda: ended.count() == UNITS, seconds=ENDED_WITHIN_SECONDS)
            eventually(lambda: Backup.objects.filter(assignment=behind).exists())

    def test_is_freed_when_its_policys_longest_time_is_over_and_by_a_shutdown(
        self, dead: Policy, kept: Policy, folder: Path, tmp_path: Path
    ) -> None:
        Policy.objects.filter(pk=dead.pk).update(max_running_for=2)
        hung, behind = fill_the_units(dead, kept, folder)
        queues = f"{planning.AVAILABILITY}:10,{planning.BACKUPS}:{UNITS}"
        with worker_process(queues, tmp_path, BACKUPSCHED_LEASE=str(LEASE_SECONDS)) as worker:
            eventually(lambda: Backup.objects.filter(assignment=behind).exists())
            for assignment in hung:
                errors = Attempt.objects.filter(record_id=record_of(assignment).pk, outcome=AttemptOutcome.FAILED)
                assert "longer than the 2 s" in eventually(errors.first).error
            Policy.objects.filter(pk=dead.pk).update(max_running_for=3600)
            another = make_assignment(dead, make_source(path=str(folder)))
            planning.emit_due()
            eventually(running)
            for _ in range(2):  # the second one skips the grace
                worker.send_signal(signal.SIGTERM)
            assert worker.wait(PATIENCE) == 0
        record = record_of(another)
        assert (record.status, record.failures) == (Status.READY, 0)
        assert Attempt.objects.filter(outcome=AttemptOutcome.RELEASED).get().error.startswith("the worker was stopped")


def die_in_the_middle(location: Path, over: Event) -> None:
    """Once the film arrives."""
    eventually(lambda: over.is_set() or list(location.rglob("film*")))
    with dead_mount(location):
        assert over.wait(PATIENCE)


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    """A repository is dead after a second of silence, and what is stopped may take a second."""
    monkeypatch.setattr(repository_orders, "SILENT_SECONDS", 2.0)
    monkeypatch.setattr(repository_orders, "ANSWER_SECONDS", 1.0)
    settings.JOBS = {**settings.JOBS, "LEASE_SECONDS": 6}


@pytest.mark.slow
@pytest.mark.usefixtures("_impatient")
class TestASilence:
    def test_from_the_beginning_is_the_repositorys_and_named_when_it_is_entered(
        self, dead: Policy, folder: Path
    ) -> None:
        assignment = make_assignment(dead, make_source(path=str(folder)))
        outcome = copy_source(Run(claimed_for(assignment, queue=planning.BACKUPS)))
        assert isinstance(outcome, Failed)
        assert outcome.fault_of == guarded_by(dead.repository)
        assert outcome.error == (
            f"repository attic: {dead.repository.location} has not answered for 2 s; is its share dead?"
        )
        repository = dead.repository
        silent = f"{repository.location} has not answered for 1 s; is its share dead?"
        assert repository_edits.Repositories().problems(repository, None) == {"location": silent}
        assert repository_edits.Repositories().save(repository, {"name"}) == [
            f"{repository.location} cannot be made: {repository.location} has not answered for 1 s; is its share dead?"
        ]

    def test_holds_up_no_answer_of_another_one_when_the_doctor_asks_all(
        self, dead: Policy, kept: Policy, tmp_path: Path
    ) -> None:
        (tmp_path / "file").touch()
        copies = Path(kept.repository.location) / "laptop-1"
        for each in (copies.parent, copies):
            each.mkdir(exist_ok=True)
            each.chmod(0o755)
        Repository.objects.create(name="broken", location=str(tmp_path / "file"))
        silent = f"{dead.repository.location} has not answered for 1 s; is its share dead?"
        assert len(finding("repository_modes").found) == 2
        found = finding("repositories_usable")
        assert len(found.found) == 2
        assert found.what.startswith(f"cannot be written: attic: {silent}; broken: {tmp_path}/file is not a directory")

    def test_in_the_middle_is_too(self, kept: Policy, folder: Path) -> None:
        location = Path(kept.repository.location)
        (folder / "film").write_bytes(bytes(5_000_000))
        Policy.objects.filter(pk=kept.pk).update(engine_options={"bwlimit": "100K"})
        assignment = make_assignment(kept, make_source(path=str(folder)))
        run = Run(claimed_for(assignment, queue=planning.BACKUPS))
        with ThreadPoolExecutor() as pool:
            dying = pool.submit(die_in_the_middle, location, over := Event())
            outcome = copy_source(run)
            over.set()
            dying.result(timeout=PATIENCE)
        assert isinstance(outcome, Failed)
        assert outcome.fault_of == guarded_by(kept.repository)


def test_a_repository_that_lists_more_than_fits_in_the_memory_is_named() -> None:
    ended = runner.run(Command((sys.executable, "-c", "bytes(2**62)")), stop=Event())
    text = repository_orders.why_unanswered(NoAnswer(ended, ended.last_lines[-1]), "/srv/attic", 60)
    assert text == "/srv/attic lists more than fits in BACKUPSCHED_ENGINE_MEMORY"
