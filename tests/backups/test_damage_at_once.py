"""A check, a removal and a copy may end at the same moment: each waits before it adds to what is damaged."""

from datetime import UTC, datetime
from functools import partial

import pytest
from django.db import OperationalError, connection, transaction
from django.test.utils import CaptureQueriesContext

from backups.upkeep import check_runs, retention
from jobs.outcomes import ClaimedRecord, Succeeded
from sources.models import Assignment, CheckRound, Format, Repository
from storage.points.checking import CheckResult
from tests.sources.factories import claimed_for, make_assignment
from tests.threads import another_connection, beside, impatience
from tests.waiting import PATIENCE, eventually

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
            retention.note_manifests(other.pk, repository.pk, {}, [], NOW)
        found = check_runs.Read(repository.pk, CheckResult("", "", 0), [], {}, None, ends=False, failed=[], left=[])
        with (
            CaptureQueriesContext(connection) as asked,
            pytest.raises(OperationalError, match="lock timeout"),
            transaction.atomic(),
        ):
            check_runs.write_down(claimed_for(read, queue="backups"), Succeeded(found), NOW)
        assert [each["sql"].endswith("FOR NO KEY UPDATE") for each in asked if "checkround" in each["sql"]] == [True]


@pytest.mark.django_db(transaction=True)
def test_two_that_read_one_restic_repository_for_all_may_end_at_the_same_moment(both: list[Assignment]) -> None:
    """Both wait for a round that they share: neither holds one by then that the other one wants."""
    first, *others = *both, make_assignment(both[0].policy)
    CheckRound.objects.create(assignment=others[-1], planned_at=NOW)
    repository, nothing = Repository.objects.get().pk, CheckResult("", "", 0)
    read = check_runs.Read(repository, nothing, [], {}, None, ends=False, failed=[], left=[])

    @transaction.atomic
    def end(record: ClaimedRecord) -> None:
        check_runs.write_down(record, Succeeded(read), NOW)

    with another_connection() as other:
        other.execute("SELECT FROM sources_checkround WHERE assignment_id = %s FOR UPDATE", [first.pk])
        ended = [beside(partial(end, claimed_for(each, queue="backups"))) for each in others]
        eventually(lambda: sessions_that_wait() == len(ended))
    for each in ended:
        each.result(PATIENCE)
    assert {each.checked_at for each in CheckRound.objects.all()} == {NOW}


def sessions_that_wait() -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
        return int(cursor.fetchone()[0])
