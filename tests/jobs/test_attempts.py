"""The history of a record that is tried for ever is bounded, and its latest attempts are the ones that stay."""

from datetime import timedelta

import pytest
from django.db import connection

from jobs import attempts, claiming, settling
from jobs.models import Attempt, BacklogRecord, Decision
from jobs.outcomes import Failed
from jobs.states import UNFINISHED, AttemptOutcome, Status
from operations.backlog.facts import took
from tests.factories import NOON, build_record, make_record, make_worker
from tests.threads import at_once

pytestmark = pytest.mark.django_db
SILENT, HANDOFF = AttemptOutcome.UNAVAILABLE, AttemptOutcome.HANDOFF


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
    monkeypatch.setattr(attempts, "BATCH", 3)
    records = {status: tried(12, status) for status in Status}
    few, gaps = tried(5), tried(0, numbers=[1, 2, 50, 51, 52, 53, 90])
    assert attempts.prune(kept=5) == 3 * 7 + 2
    for status, record in records.items():
        assert numbers_of(record) == list(range(8 if status in UNFINISHED else 1, 13))
    assert (numbers_of(few), numbers_of(gaps)) == ([1, 2, 3, 4, 5], [50, 51, 52, 53, 90])
    assert attempts.prune(kept=5) == 0


def test_a_settle_that_is_tried_again_still_finds_its_attempt(kind_of_tests: None) -> None:
    worker, record = make_worker(), tried(30, Status.READY)
    [claimed] = claiming.claim("default", worker_id=worker.pk, limit=1, now=NOON + timedelta(hours=1))
    result = [(claimed, Failed("boom"))]
    assert settling.settle(result, now=NOON + timedelta(hours=2)).written == {record.pk}
    attempts.prune(kept=1)
    assert settling.settle(result, now=NOON + timedelta(hours=2)).lost == frozenset()


def test_the_search_for_candidates_reads_no_finished_record() -> None:
    BacklogRecord.objects.bulk_create([build_record(Status.SUCCEEDED) for _ in range(1000)])
    BacklogRecord.objects.bulk_create([build_record(Status.WAITING) for _ in range(20)])
    with connection.cursor() as cursor:
        cursor.execute("REINDEX TABLE jobs_backlogrecord")  # without what rolled back tests have left in it
        cursor.execute("ANALYZE jobs_backlogrecord")
        cursor.execute(f"EXPLAIN {attempts.CANDIDATES}", {"kept": 1000})
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert "one_unfinished_record_per_subject" in plan, plan
    assert "Seq Scan" not in plan, plan


HOUR = timedelta(hours=1)
NOW = NOON + 24 * HOUR


def history(record: BacklogRecord) -> list[tuple[int, int, str]]:
    """Number, silences, and what the page of the record says it took."""
    found = Attempt.objects.filter(record_id=record.pk).order_by("number")
    return [(each.number, (each.facts or {}).get(attempts.SILENCES, 1), took(each)) for each in found]


class TestSilences:
    """Of a source that is asked every quarter of an hour."""

    def asked(self, *outcomes: AttemptOutcome, queue: str = "availability") -> BacklogRecord:
        """A record, with a line of the log a silence."""
        record = make_record(Status.WAITING, attempt=len(outcomes))
        for number, outcome in enumerate(outcomes, 1):
            began_at = NOON + number * HOUR / 4
            ended_at = began_at + timedelta(seconds=60)
            Attempt.objects.create(
                record=record, number=number, queue=queue, started_at=began_at, ended_at=ended_at, outcome=outcome
            )
            what = "silent" if outcome == SILENT else "answered"
            about = {"kind": record.kind, "subject": record.subject, "record_id": record.pk}
            facts = {"attempt": number}
            Decision.objects.create(at=ended_at, what=what, text=f"laptop: {what}", facts=facts, **about)
        return record

    def lines(self) -> list[str]:
        return list(Decision.objects.order_by("at").values_list("text", flat=True))

    def test_that_follow_each_other_become_one_row_with_their_number_and_instants(self) -> None:
        record = self.asked(SILENT, SILENT, SILENT, HANDOFF, SILENT, SILENT)
        assert attempts.prune(now=NOW) == 3
        assert history(record) == [
            (3, 3, "3 times until 2026-03-02 12:46:00"),
            (4, 1, "1 min"),
            (6, 2, "2 times until 2026-03-02 13:31:00"),
        ]
        assert Attempt.objects.get(number=3).started_at == NOON + HOUR / 4
        assert self.lines() == [
            "laptop: silent (silent 3 times since 2026-03-02 12:15 UTC)",
            "laptop: answered",
            "laptop: silent (silent 2 times since 2026-03-02 13:15 UTC)",
        ]

    def test_that_come_later_are_added(self) -> None:
        record = self.asked(*[SILENT] * 9)
        assert attempts.prune(now=NOON + 2.4 * HOUR) == 4  # up to 13:16
        assert [row[:2] for row in history(record)] == [(5, 5), (6, 1), (7, 1), (8, 1), (9, 1)]
        assert attempts.prune(now=NOW) == 4
        assert [row[:2] for row in history(record)] == [(9, 9)]
        assert self.lines() == ["laptop: silent (silent 9 times since 2026-03-02 12:15 UTC)"]
        assert attempts.prune(now=NOW) == 0

    def test_alone_or_lost_in_mid_backup_stay(self) -> None:
        alone, lost = self.asked(SILENT, HANDOFF, SILENT), self.asked(HANDOFF, SILENT, SILENT)
        Attempt.objects.filter(record=lost, number=2).update(queue="backups")
        assert attempts.prune(now=NOW) == 0
        assert [row[1] for row in history(alone) + history(lost)] == [1] * 6

    def test_of_the_last_hour_stay_so_that_a_settle_that_is_tried_again_finds_its_own(self) -> None:
        record = self.asked(SILENT, SILENT, SILENT)
        assert attempts.prune(now=NOON + 1.4 * HOUR) == 0
        assert len(history(record)) == 3


@pytest.mark.django_db(transaction=True)
def test_two_compactions_at_once_count_each_silence_once() -> None:
    record = TestSilences().asked(*[SILENT] * 60)
    compacted = at_once(*[lambda: attempts.compact(NOON + 100 * HOUR)] * 4)
    assert sum(compacted) == 59
    assert [row[:2] for row in history(record)] == [(60, 60)]
