"""Cancel: what it does to a record in each state, also while workers are at it."""

from datetime import timedelta

import pytest

from jobs import backlog, claiming, rescuing, settling, tick
from jobs.clock import database_clock
from jobs.models import Attempt, BacklogRecord
from jobs.outcomes import Failed, Handoff, Released, Succeeded
from jobs.states import FINISHED, AttemptOutcome, Status, WaitingFor
from jobs.wakeups import CANCEL_CHANNEL
from tests.factories import NOON, claim_ready, make_record, make_worker
from tests.jobs.backlog.changes import KEY, LATER, changed, fresh, held_up, listening
from tests.threads import another_connection, at_once, impatience
from tests.waiting import PATIENCE

pytestmark = pytest.mark.django_db(transaction=True)


class TestCancel:
    @pytest.mark.parametrize("status", [Status.WAITING, Status.READY])
    def test_what_does_not_run_is_cancelled_at_once_and_nothing_else_of_it_changes(self, status):
        record = make_record(status, failures=2, last_error="refused", closes_at=NOON + timedelta(hours=1))
        result = []
        diff = changed(record, lambda: result.append(backlog.cancel([record.pk], now=LATER)))
        expected = {"status": Status.CANCELLED, "finished_at": LATER}
        assert diff == expected | ({"waiting_for": None} if status == Status.WAITING else {})
        assert result == [backlog.CancelResult([record.pk], [], [], [])]

    def test_what_runs_is_asked_to_stop_once_and_keeps_its_lease(self):
        record = make_record(Status.RUNNING)
        with listening(CANCEL_CHANNEL) as heard:
            diff = changed(record, lambda: backlog.cancel([record.pk], now=LATER))
            assert heard() == [str(record.pk)]
        assert diff == {"cancel_requested_at": LATER}
        assert backlog.cancel([record.pk], now=NOON).stopping == [record.pk]
        assert fresh(record).cancel_requested_at == LATER

    def test_each_record_is_named_in_one_place_in_ascending_order_and_what_has_ended_is_left_alone(self):
        ids = {status: [make_record(status).pk for _ in range(2)] for status in Status}
        missing = [10**12, 10**13]
        every = [pk for pks in ids.values() for pk in pks] + missing
        result = backlog.cancel([*reversed(every), *every])
        assert result.cancelled == sorted(ids[Status.WAITING] + ids[Status.READY])
        assert result.stopping == ids[Status.RUNNING]
        assert result.finished == sorted(pk for status in FINISHED for pk in ids[status])
        assert result.missing == missing
        assert not BacklogRecord.objects.filter(pk__in=result.finished, finished_at__gt=NOON).exists()
        assert backlog.cancel([]) == backlog.CancelResult([], [], [], [])

    def test_what_waits_behind_its_exclusive_key_looks_again(self):
        far = {"waiting_for": WaitingFor.THROTTLE, "run_after": NOON + timedelta(days=1)}
        holder = make_record(queue="backups", exclusive_key=KEY)
        behind, other = (make_record(Status.WAITING, exclusive_key=key, **far) for key in (KEY, "source:2"))
        itself_waits = make_record(Status.WAITING, exclusive_key="source:2", **far)
        backlog.cancel([holder.pk, itself_waits.pk], now=LATER)
        tick.promote(LATER)
        assert fresh(holder).exclusive_key is None
        assert (fresh(behind).status, fresh(other).status) == (Status.READY, Status.WAITING)


class TestCancelBesideWorkers:
    @pytest.mark.parametrize(
        ("before", "write", "found"),
        [
            (
                Status.READY,
                "status = 2, attempt = 1, started_at = now(), leased_by_id = 1, lease_token = gen_random_uuid(),"
                " lease_expires_at = now()",
                "stopping",
            ),
            (
                Status.RUNNING,
                "status = 0, waiting_for = 3, leased_by_id = NULL, lease_token = NULL, lease_expires_at = NULL",
                "cancelled",
            ),
        ],
        ids=["claim", "settle"],
    )
    def test_a_claim_or_settle_under_way_comes_first_and_what_it_left_is_cancelled(self, before, write, found):
        record = make_record(before)
        with another_connection() as worker:
            worker.execute(f"UPDATE jobs_backlogrecord SET {write} WHERE id = %s", [record.pk])
            with held_up(lambda: backlog.cancel([record.pk]), worker) as cancelling:
                worker.commit()
                assert getattr(cancelling.result(PATIENCE), found) == [record.pk]
        after = fresh(record)
        assert (after.status == Status.CANCELLED) == (after.cancel_requested_at is None) == (found == "cancelled")

    @pytest.mark.parametrize("outcome", [Released(), Failed("x"), Handoff("backups"), Succeeded(), None])
    def test_what_was_cancelled_while_it_ran_ends_as_cancelled_unless_it_succeeded(self, outcome):
        """None: its worker died. A neighbour in the batch is tried again."""
        make_record()
        [claimed] = claim_ready(1)
        make_record(subject="neighbour")
        [neighbour] = claim_ready(1)
        backlog.cancel([claimed.id], now=NOON)
        if outcome:
            settling.settle([(claimed, outcome), (neighbour, Failed("x"))], now=LATER)
        else:
            rescuing.rescue(now=database_clock() + timedelta(days=1))
        expected = Status.SUCCEEDED if isinstance(outcome, Succeeded) else Status.CANCELLED
        ended = BacklogRecord.objects.get(pk=claimed.id)
        assert (ended.status, ended.failures) == (expected, 0)
        assert Attempt.objects.get(record_id=claimed.id).outcome == AttemptOutcome[expected.name]
        assert BacklogRecord.objects.get(pk=neighbour.id).waiting_for == WaitingFor.BACKOFF

    def test_it_locks_in_id_order_whatever_order_it_is_given(self):
        first, second = make_record(), make_record()
        with another_connection() as other:
            other.execute("SELECT FROM jobs_backlogrecord WHERE id = %s FOR UPDATE", [first.pk])
            with held_up(lambda: backlog.cancel([second.pk, first.pk]), other) as cancelling, impatience():
                assert BacklogRecord.objects.select_for_update(nowait=True).filter(pk=second.pk).update(lane=0) == 1
                other.commit()
                assert cancelling.result(PATIENCE).cancelled == [first.pk, second.pk]

    def test_the_gate_is_opened_under_the_lock_of_its_key(self):
        holder = make_record(exclusive_key=KEY)
        with another_connection() as settler:
            settler.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [KEY])
            with held_up(lambda: backlog.cancel([holder.pk], now=LATER), settler) as cancelling:
                behind = make_record(Status.WAITING, waiting_for=WaitingFor.THROTTLE, exclusive_key=KEY)
                settler.commit()
                cancelling.result(PATIENCE)
        assert fresh(behind).run_after == LATER

    def test_cancels_claims_and_settles_at_once_leave_nothing_between_two_states(self):
        ids = [make_record().pk for _ in range(30)]
        workers = [make_worker().pk for _ in range(2)]
        results: list[backlog.CancelResult] = []

        def work(worker_id: int) -> None:
            for _ in range(10):
                claimed = claiming.claim("default", worker_id=worker_id, limit=5)
                settling.settle([(record, Failed("x")) for record in claimed])

        def cancel_all() -> None:
            results.extend(backlog.cancel(batch) for batch in backlog.in_batches(ids, 4))

        at_once(cancel_all, *[lambda pk=pk: work(pk) for pk in workers])
        for pk in workers:
            work(pk)
        stopping = {pk for result in results for pk in result.stopping}
        assert sum(len(result.cancelled) for result in results) + len(stopping) == 30
        assert set(BacklogRecord.objects.values_list("status", flat=True)) == {Status.CANCELLED}
