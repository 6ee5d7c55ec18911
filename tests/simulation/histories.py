"""A history as the product would have written it: attempts and backups of some days."""

from datetime import datetime, timedelta

from jobs.models import Attempt
from jobs.states import AttemptOutcome, Status
from sources.models import Assignment, Backup
from sources.planning import subject_of
from tests.factories import make_record
from tests.sources.factories import MONDAY

HOUR = timedelta(hours=1)
DAYS = 10
NOW = MONDAY + timedelta(days=DAYS)


def attempt(assignment: Assignment, queue: str, outcome: AttemptOutcome, began: datetime, ended: datetime) -> None:
    record = make_record(
        Status.SUCCEEDED, kind="backup", subject=subject_of(assignment.pk), inserted_at=began, finished_at=ended
    )
    Attempt.objects.create(record=record, number=1, queue=queue, started_at=began, ended_at=ended, outcome=outcome)


def answered(assignment: Assignment, at: datetime, seconds: float) -> None:
    """It answered at an instant and was backed up."""
    attempt(assignment, "availability", AttemptOutcome.HANDOFF, at - timedelta(seconds=1), at)
    ended = at + timedelta(seconds=seconds)
    attempt(assignment, "backups", AttemptOutcome.SUCCEEDED, at, ended)
    Backup.objects.create(
        assignment=assignment, repository=assignment.policy.repository, started_at=at, ended_at=ended,
        engine="rclone", attempt=1, size=1, files=1,
    )  # fmt: skip


def silent(assignment: Assignment, began: datetime, ended: datetime) -> None:
    attempt(assignment, "availability", AttemptOutcome.UNAVAILABLE, began, ended)
