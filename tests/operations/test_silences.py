"""Silences of a source that follow each other become one row of the history, and one line of the log."""

from datetime import timedelta

import pytest

from jobs.models import Attempt, BacklogRecord, Decision
from jobs.states import AttemptOutcome, Status
from operations import silences
from operations.backlog.facts import took
from tests.factories import NOON, make_record
from tests.threads import at_once

pytestmark = pytest.mark.django_db
SILENT, HANDOFF = AttemptOutcome.UNAVAILABLE, AttemptOutcome.HANDOFF
HOUR = timedelta(hours=1)
NOW = NOON + 24 * HOUR


def history(record: BacklogRecord) -> list[tuple[int, int, str]]:
    """Number, silences, and what the page of the record says it took."""
    found = Attempt.objects.filter(record_id=record.pk).order_by("number")
    return [(each.number, (each.facts or {}).get(silences.SILENCES, 1), took(each)) for each in found]


class TestSilences:
    """Silences of a source that is asked every quarter of an hour."""

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
        assert silences.compact(NOW) == 3
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
        assert silences.compact(NOON + 2.4 * HOUR) == 4  # up to 13:16
        assert [row[:2] for row in history(record)] == [(5, 5), (6, 1), (7, 1), (8, 1), (9, 1)]
        assert silences.compact(NOW) == 4
        assert [row[:2] for row in history(record)] == [(9, 9)]
        assert self.lines() == ["laptop: silent (silent 9 times since 2026-03-02 12:15 UTC)"]
        assert silences.compact(NOW) == 0

    def test_alone_or_lost_in_mid_backup_stay(self) -> None:
        alone, lost = self.asked(SILENT, HANDOFF, SILENT), self.asked(HANDOFF, SILENT, SILENT)
        Attempt.objects.filter(record=lost, number=2).update(queue="backups")
        assert silences.compact(NOW) == 0
        assert [row[1] for row in history(alone) + history(lost)] == [1] * 6

    def test_of_the_last_hour_stay_so_that_a_settle_that_is_tried_again_finds_its_own(self) -> None:
        record = self.asked(SILENT, SILENT, SILENT)
        assert silences.compact(NOON + 1.4 * HOUR) == 0
        assert len(history(record)) == 3


@pytest.mark.django_db(transaction=True)
def test_two_compactions_at_once_count_each_silence_once() -> None:
    record = TestSilences().asked(*[SILENT] * 60)
    compacted = at_once(*[lambda: silences.compact(NOON + 100 * HOUR)] * 4)
    assert sum(compacted) == 59
    assert [row[:2] for row in history(record)] == [(60, 60)]
