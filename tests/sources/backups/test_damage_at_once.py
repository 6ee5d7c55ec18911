"""A check, a removal and a copy may end at the same moment: each waits before it adds to what is damaged."""

from datetime import UTC, datetime

import pytest
from django.db import OperationalError, connection, transaction
from django.test.utils import CaptureQueriesContext

from sources.backups import retention, snapshots
from sources.models import Assignment, CheckRound, Format, Repository
from tests.sources.factories import make_assignment
from tests.threads import another_connection, impatience

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)


@pytest.fixture
def both() -> list[Assignment]:
    first = make_assignment()
    Repository.objects.update(format=Format.RESTIC, encrypted=True, key="env:BACKUP_SECRET_KEY")
    found = [first, make_assignment(Assignment.objects.get(pk=first.pk).policy)]
    for each in found:
        CheckRound.objects.create(assignment=each, planned_at=NOW)
    return found


@pytest.mark.django_db(transaction=True)
def test_what_is_noted_waits_for_what_another_one_notes_at_that_moment(both: list[Assignment]) -> None:
    read, other = both
    repository = Repository.objects.get()
    with another_connection() as beside, impatience(0.2):
        beside.execute("SELECT FROM sources_checkround WHERE assignment_id = %s FOR UPDATE", [other.pk])
        with pytest.raises(OperationalError, match="lock timeout"), transaction.atomic():
            retention.note_manifests(other.pk, repository.pk, {}, NOW)
        row = CheckRound.objects.select_related("assignment__policy__repository").get(pk=read.pk)
        with (
            CaptureQueriesContext(connection) as asked,
            pytest.raises(OperationalError, match="lock timeout"),
            transaction.atomic(),
        ):
            snapshots.share_check(row, repository, {})
        assert [each["sql"].endswith("FOR NO KEY UPDATE") for each in asked if "checkround" in each["sql"]] == [True]
