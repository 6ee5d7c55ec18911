"""The history of a record that is tried for ever is bounded, and its latest attempts are the ones that stay."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs import claiming, periodic, settling
from jobs.models import Attempt, BacklogRecord
from jobs.outcomes import Failed
from jobs.states import UNFINISHED, AttemptOutcome, Status
from tests.factories import NOON, build_record, make_record, make_worker
from tests.jobs.claim_plans import plans_of_the_prepared

pytestmark = pytest.mark.django_db


def tried(count: int, status: Status = Status.WAITING, *, numbers: list[int] | None = None) -> BacklogRecord:
    """A record with so many attempts, or with those of these numbers."""
    numbers = numbers or list(range(1, count + 1))
    record = make_record(status, attempt=max(numbers))
    Attempt.objects.bulk_create(
        Attempt(
            record=record, number=number, queue="default", started_at=NOON, ended_at=NOON, outcome=AttemptOutcome.FAILED
        )
        for number in numbers
    )
    return record


def numbers_of(record: BacklogRecord) -> list[int]:
    return list(Attempt.objects.filter(record_id=record.pk).order_by("number").values_list("number", flat=True))


def test_the_latest_of_what_has_not_ended_are_kept_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(periodic, "PRUNE_BATCH", 3)
    records = {status: tried(12, status) for status in Status}
    few, gaps = tried(5), tried(0, numbers=[1, 2, 50, 51, 52, 53, 90])
    assert {records[status].pk for status in UNFINISHED} <= set(periodic.claimed_more_often_than(11))
    assert periodic.prune_attempts(kept=5) == 3 * 7 + 2
    for status, record in records.items():
        assert numbers_of(record) == list(range(8 if status in UNFINISHED else 1, 13))
    assert (numbers_of(few), numbers_of(gaps)) == ([1, 2, 3, 4, 5], [50, 51, 52, 53, 90])
    assert periodic.prune_attempts(kept=5) == 0


def test_a_settle_that_is_tried_again_still_finds_its_attempt(kind_of_tests: None) -> None:
    worker, record = make_worker(), tried(30, Status.READY)
    [claimed] = claiming.claim("default", worker_id=worker.pk, limit=1, now=NOON + timedelta(hours=1))
    result = [(claimed, Failed("boom"))]
    assert settling.settle(result, now=NOON + timedelta(hours=2)).written == {record.pk}
    periodic.prune_attempts(kept=1)
    assert settling.settle(result, now=NOON + timedelta(hours=2)).lost == frozenset()


def test_the_search_for_candidates_reads_no_finished_record() -> None:
    BacklogRecord.objects.bulk_create([build_record(Status.SUCCEEDED) for _ in range(1000)])
    BacklogRecord.objects.bulk_create([build_record(Status.WAITING) for _ in range(20)])
    with connection.cursor() as cursor:
        cursor.execute("REINDEX TABLE jobs_backlogrecord")  # without what rolled back tests have left in it
        cursor.execute("ANALYZE jobs_backlogrecord")
        with CaptureQueriesContext(connection) as queries:
            assert periodic.claimed_more_often_than(1000) == []
        cursor.execute("EXPLAIN " + queries[0]["sql"])
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert "one_unfinished_record_per_subject" in plan, plan
    assert "Seq Scan" not in plan, plan


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
def test_what_is_pruned_takes_its_attempts_with_it_by_their_key(mode: str) -> None:
    """Beside 10,000 records that ended later."""
    with connection.cursor() as cursor:
        cursor.execute(
            "WITH ended AS (INSERT INTO jobs_backlogrecord (kind, queue, subject, status, finished_at) "
            "SELECT 'test', 'default', 'other ' || n, 3, %(at)s::timestamptz FROM generate_series(1, 10000) AS n "
            "RETURNING id) INSERT INTO jobs_attempt (record_id, number, queue, started_at, ended_at, outcome, error) "
            "SELECT id, number, 'default', %(at)s, %(at)s, 1, '' FROM ended, generate_series(1, 2) AS number",
            {"at": NOON},
        )
        cursor.execute("ANALYZE jobs_backlogrecord, jobs_attempt")
    plan = plans_of_the_prepared(periodic.PRUNE, {"before": NOON, "limit": periodic.PRUNE_BATCH}, mode)
    assert "jobs_attempt_pkey" in plan, plan
    assert "Seq Scan" not in plan, plan
