"""The limit of one ready or running record per exclusive key, however many are handed on at once."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import IntegrityError

from jobs import claiming, exclusivity, rescuing, settling, tick, window_ends
from jobs.models import Attempt, BacklogRecord
from jobs.outcomes import Cancelled, ClaimedRecord, Failed, Handoff, Released, Succeeded, Unavailable
from jobs.states import AttemptOutcome, Status, WaitingFor
from tests.factories import NOON, claim_ready, make_record, make_worker
from tests.threads import a_lock_is_waited_for, another_connection, at_once, beside
from tests.waiting import PATIENCE, eventually

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("kind_of_tests")]

KEY = "source:1"
LATER = NOON + timedelta(seconds=1)
TO_BACKUPS = Handoff("backups", KEY)


def claim_new(count: int = 1, queue: str = "availability") -> list[ClaimedRecord]:
    """`count` records of the same source, each of another assignment, claimed by a worker of their own."""
    for _ in range(count):
        make_record(queue=queue)
    return claim_ready(count, queue, LATER)


def running_under_the_key() -> ClaimedRecord:
    [record] = claim_new()
    settling.settle([(record, TO_BACKUPS)], now=NOON)
    [running] = claim_ready(9, "backups", LATER)
    return running


def states() -> list[tuple[str, Status]]:
    return sorted(BacklogRecord.objects.unfinished().values_list("queue", "status"))


class TestGate:
    def test_of_handoffs_at_once_and_in_one_batch_exactly_one_goes_through(self):
        for _ in range(3):
            first, second, *others = [claim_new()[0] for _ in range(5)]
            batches = [[(first, TO_BACKUPS), (second, TO_BACKUPS)], *([(record, TO_BACKUPS)] for record in others)]
            at_once(*[lambda batch=batch: settling.settle(batch, now=NOON) for batch in batches])
            assert states() == [("availability", Status.WAITING)] * 4 + [("backups", Status.READY)]
            assert len(claim_ready(9, "backups", LATER)) == 1
            BacklogRecord.objects.all().delete()

    def test_a_handoff_waits_while_another_record_of_its_key_runs(self):
        running_under_the_key()
        [second] = claim_new()
        settling.settle([(second, TO_BACKUPS)], now=NOON)
        waiting = BacklogRecord.objects.get(pk=second.id)
        assert (waiting.status, waiting.waiting_for) == (Status.WAITING, WaitingFor.THROTTLE)
        assert (waiting.queue, waiting.failures) == ("availability", 0)
        assert Attempt.objects.get(record=second.id).outcome == AttemptOutcome.HANDOFF
        other, without_key = claim_new(2)
        settling.settle([(other, Handoff("backups", "source:2")), (without_key, Handoff("backups"))], now=NOON)
        assert BacklogRecord.objects.ready().count() == 2
        tick.promote(NOON + timedelta(seconds=60))  # a missed opening costs a minute
        assert BacklogRecord.objects.get(pk=second.id).status == Status.READY

    def test_a_handoff_waits_for_one_that_is_under_way_and_then_behind_it(self):
        first, second = claim_new(2)
        with another_connection() as other:
            other.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [KEY])
            other.execute("UPDATE jobs_backlogrecord SET exclusive_key = %s WHERE id = %s", [KEY, first.id])
            under_way = beside(lambda: settling.settle([(second, TO_BACKUPS)], now=NOON))
            eventually(a_lock_is_waited_for)
            other.commit()
        assert under_way.result(PATIENCE).written == {second.id}
        assert BacklogRecord.objects.get(pk=second.id).waiting_for == WaitingFor.THROTTLE

    def test_the_end_of_the_one_and_the_handoff_of_the_other_in_one_batch_leave_no_wait(self):
        running = running_under_the_key()
        [second] = claim_new()
        settling.settle([(running, Succeeded()), (second, TO_BACKUPS)], now=NOON)
        assert states() == [("backups", Status.READY)]

    def test_a_lost_result_in_the_batch_does_not_open_the_gate_while_its_record_runs_elsewhere(self):
        running = running_under_the_key()
        [second] = claim_new()
        stale = running._replace(attempt=running.attempt - 1, lease_token=uuid4())
        settling.settle([(stale, Failed("late")), (second, TO_BACKUPS)], now=NOON)
        assert states() == [("availability", Status.WAITING), ("backups", Status.RUNNING)]


class TestOpening:
    @pytest.mark.parametrize("outcome", [Succeeded(), Failed("no"), Unavailable("away", 9), Released(), Cancelled()])
    def test_the_one_behind_asks_again_at_the_next_tick_once_the_first_is_settled(self, outcome):
        running = running_under_the_key()
        [second] = claim_new()
        settling.settle([(second, TO_BACKUPS)], now=NOON)
        tick.promote(LATER)
        assert BacklogRecord.objects.get(pk=second.id).status == Status.WAITING
        settling.settle([(running, outcome)], now=LATER)
        tick.promote(LATER)
        promoted = BacklogRecord.objects.get(pk=second.id)
        assert (promoted.status, promoted.queue, promoted.exclusive_key) == (Status.READY, "availability", None)

    @pytest.mark.parametrize("end", ["rescued", "its window closes"])
    def test_a_rescue_and_a_window_that_closes_open_the_gate_as_well(self, end):
        [first] = claim_new()
        settling.settle([(first, TO_BACKUPS)], now=NOON)
        [second] = claim_new()
        settling.settle([(second, TO_BACKUPS)], now=NOON)
        now = NOON + timedelta(days=800)
        BacklogRecord.objects.filter(pk=second.id).update(run_after=now + timedelta(days=100))
        if end == "rescued":
            claim_ready(9, "backups", LATER)
            BacklogRecord.objects.filter(pk=first.id).update(lease_expires_at=now)
            assert rescuing.rescue(now=now) == 1
        else:
            BacklogRecord.objects.filter(pk=first.id).update(closes_at=now)
            window_ends.close_windows(now)
        tick.promote(now)
        assert BacklogRecord.objects.get(pk=second.id).status == Status.READY

    def test_the_one_behind_is_not_missed_when_another_changes_its_row_at_that_moment(self, monkeypatch):
        running = running_under_the_key()
        [second] = claim_new()
        settling.settle([(second, TO_BACKUPS)], now=NOON)
        stalled = "AND (SELECT pg_advisory_xact_lock(4711))::text IS NOT NULL ORDER BY id"
        monkeypatch.setattr(exclusivity, "OPEN", exclusivity.OPEN.replace("ORDER BY id", stalled))
        with another_connection() as other:
            other.execute("SELECT pg_advisory_xact_lock(4711)")
            under_way = beside(lambda: settling.settle([(running, Succeeded())], now=LATER))
            eventually(a_lock_is_waited_for)
            BacklogRecord.objects.filter(pk=second.id).update(priority=1)
            other.commit()
            under_way.result(PATIENCE)
        assert BacklogRecord.objects.get(pk=second.id).run_after == LATER


class TestNeverTwoAtOnce:
    def test_six_records_of_one_source_run_one_after_the_other_through_four_concurrent_workers(self):
        for _ in range(6):
            make_record(queue="availability")
        seen: list[int] = []

        def work(worker_id: int) -> None:
            for _ in range(12):
                for record in claiming.claim("availability", worker_id=worker_id, limit=2, now=LATER):
                    settling.settle([(record, TO_BACKUPS)], now=LATER)
                for record in claiming.claim("backups", worker_id=worker_id, limit=2, now=LATER):
                    seen.append(BacklogRecord.objects.running().filter(exclusive_key=KEY).count())
                    settling.settle([(record, Succeeded())], now=LATER)
                tick.promote(LATER)

        workers = [make_worker().pk for _ in range(4)]
        for _ in range(5):
            at_once(*[lambda worker_id=worker_id: work(worker_id) for worker_id in workers])
            if not BacklogRecord.objects.unfinished().exists():
                break
        assert seen == [1] * 6
        assert not Attempt.objects.exclude(outcome__in=[AttemptOutcome.HANDOFF, AttemptOutcome.SUCCEEDED]).exists()

    def test_an_index_stands_behind_the_gate(self):
        make_record(Status.RUNNING, exclusive_key=KEY)
        with pytest.raises(IntegrityError, match="one_running_record_per_exclusive_key"):
            make_record(Status.RUNNING, exclusive_key=KEY)
