"""A retry policy is edited while workers promote, claim and settle what waits by it."""

import pytest
from django.db import connection, transaction

from jobs import rescheduling, rollouts
from jobs.claiming import claim
from jobs.clock import database_clock
from jobs.handlers import Run
from jobs.models import BacklogRecord, RetryPolicy
from jobs.outcomes import Failed, Succeeded
from jobs.settling import settle
from jobs.states import Status, WaitingFor
from jobs.tick import promote
from tests.factories import NOON, build_record, make_record, make_retry_policy, make_worker
from tests.jobs.backoffs import HOUR, LATER, MINUTE, failing, wait
from tests.threads import a_lock_is_waited_for, another_connection, at_once, beside, impatience
from tests.waiting import PATIENCE, eventually


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollouts, "LOCK_SECONDS", PATIENCE)


@pytest.mark.django_db(transaction=True)
class TestAnEditBesideWorkers:
    def test_waits_for_what_is_being_moved_and_then_passes_it_by(self):
        """A person makes it ready and a worker claims it, both after the edit has listed it."""
        policy, worker = make_retry_policy(parameters={"base": 60}), make_worker()
        moved, other = failing(policy, queue="one"), failing(policy)
        with transaction.atomic():
            BacklogRecord.objects.filter(pk=moved.pk).update(status=Status.READY, waiting_for=None, run_after=NOON)
            applying = beside(lambda: rescheduling.apply(policy, now=LATER))
            eventually(a_lock_is_waited_for)
            assert len(claim("one", worker_id=worker.pk, limit=1, now=NOON)) == 1
        assert applying.result(PATIENCE) == 1
        moved.refresh_from_db()
        assert (moved.status, moved.run_after) == (Status.RUNNING, NOON)
        assert wait(other) == (WaitingFor.BACKOFF, LATER)

    def test_leaves_to_a_worker_what_others_hold_for_long(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(rollouts, "LOCK_SECONDS", 0.1)
        policy = make_retry_policy(parameters={"base": 60})
        record = failing(policy, run_after=database_clock() + HOUR)
        with another_connection() as other:
            other.execute("SELECT FROM jobs_backlogrecord FOR UPDATE")
            assert rescheduling.apply(policy) == 0
        assert rollouts.progress("retry policy", [policy.pk]) == {policy.pk: rollouts.RolloutProgress(0, 1)}
        [edit] = claim("default", worker_id=make_worker().pk, limit=1)
        assert rollouts.run_rollout(Run(edit)) == Succeeded()
        record.refresh_from_db()
        assert record.run_after <= database_clock()

    def test_counts_a_failure_that_was_settled_while_it_waited_from_when_that_was(self):
        """It was promoted, claimed and has failed again between the listing and the lock."""
        policy = make_retry_policy(parameters={"base": 7200})
        record = failing(policy)
        with transaction.atomic():
            BacklogRecord.objects.filter(pk=record.pk).update(failures=4, last_failure_at=NOON + 30 * MINUTE)
            applying = beside(lambda: rescheduling.apply(policy, now=LATER))
            eventually(a_lock_is_waited_for)
        assert applying.result(PATIENCE) == 1
        assert wait(record) == (WaitingFor.BACKOFF, NOON + 30 * MINUTE + 2 * HOUR)
        assert record.failures == 4

    def test_reads_the_clock_behind_the_lock_so_that_no_failure_is_in_its_future(self):
        policy = make_retry_policy(parameters={"base": 7200})
        record = failing(policy)
        with transaction.atomic():
            BacklogRecord.objects.filter(pk=record.pk).update(run_after=NOON)
            applying = beside(lambda: rescheduling.apply(policy))
            eventually(a_lock_is_waited_for)
            with connection.cursor() as cursor:
                cursor.execute(
                    "UPDATE jobs_backlogrecord SET last_failure_at = clock_timestamp() WHERE id = %s"
                    " RETURNING last_failure_at",
                    [record.pk],
                )
                failed_at = cursor.fetchone()[0]
        applying.result(PATIENCE)
        assert wait(record) == (WaitingFor.BACKOFF, failed_at + 2 * HOUR)

    def test_claims_pass_by_what_it_holds_and_take_the_rest(self):
        policy, worker = make_retry_policy(parameters={"base": 60}), make_worker()
        failing(policy, run_after=NOON)
        make_record(queue="one")
        with another_connection() as other:
            other.execute("SELECT FROM jobs_backlogrecord WHERE waiting_for IS NOT NULL FOR UPDATE")
            with impatience():
                assert promote(LATER) == 0
                assert len(claim("one", worker_id=worker.pk, limit=5, now=LATER)) == 1

    def test_two_edits_at_once_lock_in_one_order_and_leave_one_truth(self):
        policy = make_retry_policy(parameters={"base": 7200})
        records = BacklogRecord.objects.bulk_create(
            build_record(
                Status.WAITING, waiting_for=WaitingFor.BACKOFF, run_after=NOON, failures=1, retry_policy=policy
            )
            for _ in range(300)
        )
        counts = at_once(*[lambda: rescheduling.apply(policy, now=LATER)] * 4)
        assert sum(counts) == len(records)
        assert set(BacklogRecord.objects.values_list("run_after", flat=True)) == {NOON + 2 * HOUR}

    def test_what_runs_meanwhile_waits_by_the_edited_policy_when_it_fails(self):
        policy, worker = make_retry_policy(parameters={"base": 36_000}), make_worker()
        make_record(retry_policy=policy, queue="one")
        claimed = claim("one", worker_id=worker.pk, limit=1, now=NOON)
        RetryPolicy.objects.filter(pk=policy.pk).update(parameters={"base": 60})
        assert rescheduling.apply(policy, now=NOON) == 0
        settle([(claimed[0], Failed("no"))], now=LATER)
        assert wait(BacklogRecord.objects.get()) == (WaitingFor.BACKOFF, LATER + MINUTE)
