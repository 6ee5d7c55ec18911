"""Breakers: when they open, whom they hold and what closes them. All instants are injected."""

from datetime import timedelta
from uuid import uuid4

import pytest

from jobs import breakers, periodic, settling
from jobs.backlog import cancel, retry
from jobs.breakers import verbs
from jobs.models import Attempt, BacklogRecord, Breaker, Decision
from jobs.outcomes import BreakerTarget, Failed, Held, Succeeded, Unavailable
from jobs.states import AttemptOutcome, Status, WaitingFor
from tests.factories import NOON, claim_new, claim_ready, make_record, make_retry_policy
from tests.jobs.breaking import (
    CELLAR,
    FULL,
    HOUR,
    MINUTE,
    OFFICE,
    SECOND,
    breaker,
    fail,
    held_ids,
    hold,
    open_it,
    ready_ids,
    succeed,
    tick,
)

pytestmark = pytest.mark.django_db


class TestOpening:
    def test_three_failures_in_a_row_open_it_and_the_third_waits_for_it_uncharged(self):
        records = claim_new(3)
        for record in records[:2]:
            fail([record])
            assert not breaker().is_open
        fail(records[2:])
        found = breaker()
        assert (found.opened_at, found.failures, found.trials, found.trial_id) == (NOON, 3, 0, None)
        assert found.probe_at == NOON + MINUTE
        rows = BacklogRecord.objects.in_bulk([record.id for record in records])
        assert [rows[record.id].failures for record in records] == [1, 1, 0]
        assert held_ids() == {records[2].id}
        assert rows[records[2].id].last_error == FULL
        assert Attempt.objects.get(record_id=records[2].id).outcome == AttemptOutcome.FAILED

    def test_many_that_fail_at_once_and_just_after_open_it_once_and_do_not_put_the_first_trial_off(self):
        late = claim_new(2)
        fail(claim_new(16))
        fail(late, NOON + SECOND)
        assert (breaker().failures, breaker().trials, breaker().probe_at) == (18, 0, NOON + MINUTE)
        assert len(held_ids()) == 16
        assert {record.id for record in late} <= held_ids()
        assert Decision.objects.filter(what="breaker opened").count() == 1

    def test_only_failures_in_a_row_of_the_repository_count(self):
        alone, proof, first, second, good, third, fourth, *own = claim_new(12)
        settling.settle([(record, Failed("permission denied")) for record in own], now=NOON)
        assert not Breaker.objects.exists()
        fail([alone])
        succeed([proof])
        assert breaker().failures == 0
        fail([first, second])
        succeed([good])
        fail([third, fourth])
        assert (breaker().failures, breaker().is_open) == (2, False)
        open_it()
        [elsewhere] = claim_new()
        assert breakers.refusal(CELLAR, elsewhere) is None
        fail([elsewhere], guarded=CELLAR)
        assert not breaker(CELLAR).is_open
        renamed = BreakerTarget(OFFICE.key, "repository headquarters")
        settling.settle([(claim_new()[0], Failed("x" * 10_000, fault_of=renamed))], now=NOON)
        assert (str(breaker()), len(breaker().last_error)) == ("repository headquarters", 4000)

    def test_results_that_are_stale_repeated_or_cancelled_count_nothing(self):
        stale, good, *cancelled_runs = claim_new(5)
        stale = stale._replace(lease_token=uuid4())
        cancel([record.id for record in cancelled_runs], now=NOON)
        fail(cancelled_runs)
        fail([stale])
        assert not Breaker.objects.exists()
        for _ in range(2):
            fail([stale, good])
        assert (breaker().failures, breaker().is_open) == (1, False)
        assert BacklogRecord.objects.get(pk=stale.id).status == Status.RUNNING
        open_it()
        succeed([stale], NOON + MINUTE)
        assert breaker().is_open

    def test_a_key_longer_than_its_column_is_cut_and_found_again(self):
        host = BreakerTarget(f"host:{'a' * 250}\0", f"host {'a' * 250}\0")
        fail(claim_new(3), guarded=host)
        [record] = claim_new()
        assert isinstance(breakers.refusal(host, record), Held)


class TestHolding:
    def test_a_refused_record_waits_with_its_place_its_failures_and_the_reason_and_is_not_given_up(self):
        open_it()
        [held] = hold(priority=7, rank_day=NOON.date(), failures=2, retry_policy=make_retry_policy(max_failures=1))
        record = BacklogRecord.objects.get(pk=held)
        assert (record.priority, record.rank_day, record.tried_at, record.failures) == (7, NOON.date(), None, 2)
        assert (record.breaker_id, record.waiting_for) == (breaker().pk, WaitingFor.BREAKER)
        assert "3 failures in a row, the last one: no space left" in record.last_error
        assert Attempt.objects.get(record_id=held).outcome == AttemptOutcome.RELEASED
        fail(claim_new(retry_policy=record.retry_policy))
        assert not BacklogRecord.objects.filter(status=Status.FAILED).exists()

    def test_a_refusal_that_is_settled_after_the_breaker_closed_does_not_wait(self):
        open_it()
        [record] = claim_new()
        refused = breakers.refusal(OFFICE, record)
        assert refused is not None
        verbs.close([breaker().pk], now=NOON + SECOND)
        tick(NOON + SECOND)
        settling.settle([(record, refused)], now=NOON + 2 * SECOND)
        assert BacklogRecord.objects.get(pk=record.id).status == Status.READY

    def test_what_waits_is_looked_at_after_a_day_should_nothing_let_it_through(self):
        open_it()
        [held] = hold()
        Breaker.objects.update(probe_at=NOON + timedelta(days=9))
        tick(NOON + timedelta(days=1))
        assert held in ready_ids()


class TestClosing:
    def test_a_success_that_began_before_the_opening_brings_the_next_trial_and_does_not_close_it(self):
        long_one = claim_new(now=NOON - HOUR)
        open_it()
        hold(3)
        succeed(long_one, NOON + SECOND)
        assert breaker().is_open
        tick(NOON + 2 * SECOND)
        assert breaker().trial_id is not None
        assert len(ready_ids()) == 1

    def test_a_success_in_the_batch_of_the_last_failure_leaves_it_open(self):
        *failing, good = claim_new(4)
        settling.settle(
            [(record, Failed(FULL, fault_of=OFFICE)) for record in failing] + [(good, Succeeded(proves=OFFICE))],
            now=NOON + SECOND,
        )
        assert breaker().is_open

    def test_a_person_has_it_probed_now_or_closes_it_and_all_go(self):
        open_it()
        held = hold(3)
        assert verbs.probe_now([10**9], now=NOON) == 0
        assert verbs.probe_now([breaker().pk], now=NOON + SECOND) == 1
        tick(NOON + SECOND)
        assert len(ready_ids()) == 1
        assert verbs.close([breaker().pk], now=NOON + SECOND, by="ann") == 1
        assert verbs.close([breaker().pk], now=NOON + SECOND) == 0
        tick(NOON + SECOND)
        assert set(ready_ids()) >= set(held)
        assert "ann closed it" in Decision.objects.get(what="breaker closed").text
        open_it(NOON + HOUR)
        assert (breaker().trials, breaker().probe_at) == (0, NOON + HOUR + MINUTE)

    def test_a_success_costs_no_write_while_nothing_is_wrong(self, django_assert_num_queries):
        fail(claim_new())
        succeed(claim_new())
        [record] = claim_new()
        with django_assert_num_queries(1):
            assert not breakers.lock([(record, Succeeded(proves=OFFICE))], {(record.id, record.lease_token)})


def test_a_cancelled_one_is_not_let_through_and_bears_no_trace_of_the_breaker_once_it_is_retried_and_settled():
    open_it()
    [held] = hold()
    cancel([held], now=NOON)
    verbs.close([breaker().pk], now=NOON)
    tick(NOON + SECOND)
    assert BacklogRecord.objects.get().status == Status.CANCELLED
    retry([held], now=NOON + SECOND)
    [record] = claim_ready(now=NOON + SECOND)
    settling.settle([(record, Unavailable("silent", 60))], now=NOON + 2 * SECOND)
    assert BacklogRecord.objects.get().breaker_id is None
    tick(NOON + 3 * SECOND)
    assert BacklogRecord.objects.get().waiting_for == WaitingFor.RECHECK


def test_one_that_nothing_needs_any_more_is_deleted_with_the_records_of_its_time():
    """Whatever it guarded: the host of an event that named a URL is never deleted by hand."""
    long_ago = NOON - timedelta(days=91)
    waited_for, _ = [
        Breaker.objects.create(key=key, failures=9, opened_at=long_ago, probe_at=NOON, last_failure_at=long_ago)
        for key in ("host:waited-for", "host:open")
    ]
    Breaker.objects.create(key="host:closed", failures=1, last_failure_at=long_ago)
    Breaker.objects.create(key="host:lately", failures=1, last_failure_at=NOON - timedelta(days=89))
    make_record(Status.WAITING, waiting_for=WaitingFor.BREAKER, breaker=waited_for)
    periodic.prune(NOON)
    assert set(Breaker.objects.values_list("key", flat=True)) == {"host:waited-for", "host:lately"}
