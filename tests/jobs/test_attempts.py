"""The history of a record that is tried for ever is bounded, and its latest attempts are the ones that stay."""

from datetime import timedelta

import pytest
from django.db import connection

from jobs import attempts, claiming
from jobs.handlers import Kind, registry
from jobs.models import Attempt, BacklogRecord
from jobs.outcomes import Failed
from jobs.states import AttemptOutcome, Status
from tests.factories import NOON, build_record, make_record, make_worker

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


def test_the_latest_are_kept_and_the_others_deleted() -> None:
    record, other = tried(12), tried(5)
    assert attempts.prune(kept=5) == 7
    assert numbers_of(record) == [8, 9, 10, 11, 12]
    assert numbers_of(other) == [1, 2, 3, 4, 5]
    assert attempts.prune(kept=5) == 0


def test_gaps_in_the_numbers_are_no_attempts() -> None:
    record = tried(0, numbers=[1, 2, 50, 51, 90])
    assert attempts.prune(kept=3) == 2
    assert numbers_of(record) == [50, 51, 90]


def test_in_batches_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "BATCH", 3)
    record = tried(20)
    assert attempts.prune(kept=2) == 18
    assert numbers_of(record) == [19, 20]


@pytest.mark.parametrize("status", [Status.READY, Status.RUNNING, Status.WAITING])
def test_of_whatever_has_not_ended(status: Status) -> None:
    tried(9, status)
    assert attempts.prune(kept=4) == 5


@pytest.mark.parametrize("status", [Status.SUCCEEDED, Status.FAILED, Status.CANCELLED])
def test_what_has_ended_keeps_its_history_until_its_retention_is_over(status: Status) -> None:
    tried(9, status)
    assert attempts.prune(kept=4) == 0


def test_a_settle_that_is_tried_again_still_finds_its_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.kinds, "test", Kind("test"))
    worker, record = make_worker(), tried(30, Status.READY)
    [claimed] = claiming.claim("default", worker_id=worker.pk, limit=1, now=NOON + timedelta(hours=1))
    result = [(claimed, Failed("boom"))]
    assert claiming.settle(result, now=NOON + timedelta(hours=2)).written == {record.pk}
    attempts.prune(kept=1)
    assert claiming.settle(result, now=NOON + timedelta(hours=2)).lost == frozenset()


def test_the_search_for_candidates_reads_no_finished_record() -> None:
    BacklogRecord.objects.bulk_create([build_record(Status.SUCCEEDED) for _ in range(3000)])
    BacklogRecord.objects.bulk_create([build_record(Status.WAITING) for _ in range(20)])
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE jobs_backlogrecord")
        cursor.execute(f"EXPLAIN {attempts.CANDIDATES}", {"kept": 1000})
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert "one_unfinished_record_per_subject" in plan, plan
    assert "Seq Scan" not in plan, plan
