"""A source checks in while the questions to others hang: a real worker begins its backup at once."""

from pathlib import Path

import pytest

from jobs.clock import database_clock
from jobs.models import Attempt, BacklogRecord
from jobs.states import Status
from sources.agents.checkins import Facts, check_in
from sources.models import Assignment, Repository, Source
from sources.planning import AVAILABILITY, BACKUPS, emit_due
from tests.sources.factories import make_assignment, make_policy, make_source, record_of
from tests.sources.hosts import another_address
from tests.sources.strangers import black_hole
from tests.sources.worker_process import worker_process
from tests.waiting import eventually

PLACES, HANGING = 10, 60
CONNECT_TIMEOUT = 60.0
AT_ONCE = 30.0
"""Half of what a place that hangs is taken for. The bench has the milliseconds."""


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_it_waits_behind_no_question(tmp_path: Path) -> None:
    for name in ("repository", "files"):
        (tmp_path / name).mkdir()
    repository = Repository.objects.create(name="vault", location=str(tmp_path / "repository"))
    policy = make_policy(repository=repository, connect_timeout=CONNECT_TIMEOUT)
    with black_hole() as port:
        frozen = Source.objects.bulk_create(
            Source(name=f"frozen {number}", kind="sftp", address=another_address(), port=port, path="/")
            for number in range(HANGING)
        )
        Assignment.objects.bulk_create(Assignment(source=source, policy=policy) for source in frozen)
        emit_due()
        with worker_process(f"{AVAILABILITY}:{PLACES},{BACKUPS}:1", tmp_path) as worker:
            eventually(lambda: BacklogRecord.objects.filter(status=Status.RUNNING).count() >= PLACES)
            back = make_assignment(policy, make_source(path=str(tmp_path / "files")))
            emit_due()
            record = record_of(back)
            check_in(back.source, Facts(), "192.0.2.7", database_clock())

            def has_begun() -> bool:
                assert worker.poll() is None, (tmp_path / "worker.log").read_text()
                running = BacklogRecord.objects.filter(pk=record.pk, status=Status.RUNNING, queue=BACKUPS)
                return running.exists() or Attempt.objects.filter(record=record, queue=BACKUPS).exists()

            eventually(has_begun, seconds=AT_ONCE)
