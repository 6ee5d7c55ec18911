"""Breakers and two who come at once: ticks, settles, claims, each on a connection of its own."""

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

import jobs.tick
from jobs import breakers, settling
from jobs.breakers import FIRST_UNTRIED, WHATEVER_WAITS, verbs
from jobs.models import BacklogRecord, Breaker
from jobs.outcomes import Failed, Succeeded
from jobs.states import Status, WaitingFor
from tests.factories import NOON, claim_new, claim_ready
from tests.jobs.breaking import (
    FULL,
    MINUTE,
    OFFICE,
    SECOND,
    breaker,
    fail,
    held_ids,
    hold,
    open_it,
    ready_ids,
    tick,
    trial,
)
from tests.jobs.claim_plans import plans_of_the_prepared
from tests.threads import another_connection, at_once, beside, impatience
from tests.waiting import PATIENCE

pytestmark = pytest.mark.django_db(transaction=True)


class TestTicks:
    def test_two_at_once_elect_one_trial(self):
        open_it()
        hold(10)
        for number in range(5):
            moved = at_once(*[lambda: breakers.let_trials_through(breaker().probe_at)] * 4)
            assert sum(moved) == 1
            assert len(ready_ids()) == 1
            BacklogRecord.objects.filter(status=Status.READY).delete()
            Breaker.objects.update(probe_at=NOON + (number + 2) * MINUTE)

    def test_what_another_holds_locked_is_skipped_and_found_later_and_claims_proceed_beside(self):
        open_it()
        first, *rest = hold(3)
        verbs.close([breaker().pk], now=NOON)
        with another_connection() as other, impatience():
            other.execute("SELECT id FROM jobs_breaker FOR NO KEY UPDATE")
            assert breakers.let_trials_through(NOON + SECOND) == 0
            other.rollback()
            other.execute("SELECT id FROM jobs_backlogrecord WHERE id = %s FOR UPDATE", [first])
            with transaction.atomic():
                breakers._let_batches_through(NOON + SECOND)
                claim = beside(lambda: claim_ready())
                assert claim.result(PATIENCE) == []  # nothing is committed yet, and no claim waits
        assert ready_ids() == rest
        assert breakers.let_trials_through(NOON + SECOND + breakers.LOOK_AFTER) == 1
        assert breaker().probe_at is None


class TestSettles:
    def test_units_that_fail_at_once_for_a_repository_that_never_failed_before_are_all_counted(self):
        records = claim_new(16)
        at_once(*[lambda record=record: fail([record]) for record in records])
        assert (Breaker.objects.count(), breaker().failures) == (1, 16)
        assert len(held_ids()) == 14

    def test_a_refusal_that_meets_a_close_is_either_let_through_or_released(self):
        open_it()
        records = claim_new(8)
        refused = [(record, breakers.refusal(OFFICE, record)) for record in records]
        at_once(
            *[lambda result=result: settling.settle([result], now=NOON + SECOND) for result in refused],
            lambda: verbs.close([breaker().pk], now=NOON + SECOND),
            lambda: jobs.tick.tick(NOON + SECOND, rescue=False),
        )
        tick(NOON + 2 * SECOND)
        tick(NOON + SECOND + breakers.LOOK_AFTER)
        assert not held_ids()
        assert len(ready_ids()) == 8

    def test_a_trial_that_fails_beside_a_tick_waits_and_another_is_elected_in_time(self):
        open_it()
        hold(3)
        record = trial(NOON + MINUTE)
        later = NOON + MINUTE + breakers.LOOK_AFTER
        at_once(lambda: fail([record], later), lambda: breakers.let_trials_through(later))
        tick(breaker().probe_at)
        assert len(ready_ids()) == 1
        assert breaker().trials == 1

    def test_settles_of_two_repositories_in_opposite_order_do_not_lock_each_other_out(self):
        open_it()
        open_it(guarded=OTHER)
        ours, theirs = claim_new(2), claim_new(2)

        def settle(records, first, second):
            results = [(records[0], Failed(FULL, fault_of=first)), (records[1], Succeeded(proves=second))]
            return lambda: settling.settle(results, now=NOON + SECOND)

        at_once(settle(ours, OFFICE, OTHER), settle(theirs, OTHER, OFFICE))
        assert not BacklogRecord.objects.filter(status=Status.RUNNING).exists()


OTHER = OFFICE._replace(key="repository:9", title="repository attic")

CROWD = """
INSERT INTO jobs_backlogrecord
       (kind, queue, subject, payload, status, waiting_for, breaker_id, run_after, closes_at, priority, rank_day,
        failures, last_error, attempt, lane)
SELECT 'test', 'default', n::text, '{}', 0, CASE WHEN held THEN %(breaker)s ELSE (%(reasons)s::int[])[n %% 4 + 1] END,
       CASE WHEN held THEN (%(breakers)s::bigint[])[n %% 2 + 1] END, now(), now() + n %% 5 * interval '1 day', n %% 3,
       current_date - n %% 9, 0, '', 0, 0
  FROM generate_series(1, 21000) AS n, LATERAL (SELECT n > 20000 AS held) AS held
"""


@pytest.fixture
def crowd(db):
    """Two open breakers with some hundreds of records each, beside 20,000 that wait for other things."""
    open_it()
    open_it(guarded=OTHER)
    found = list(Breaker.objects.order_by("pk"))
    with connection.cursor() as cursor:
        reasons = [WaitingFor.BACKOFF, WaitingFor.RECHECK, WaitingFor.WINDOW, WaitingFor.SWEEP]
        values = {"reasons": reasons, "breaker": WaitingFor.BREAKER, "breakers": [each.pk for each in found]}
        cursor.execute(CROWD, values)
        cursor.execute("ANALYZE jobs_backlogrecord")
    return found[0]


def test_the_election_reads_the_index_of_the_held_and_sorts_nothing(crowd):
    values = {"breaker": crowd.pk, "opened_at": NOON, "limit": 1, "now": NOON}
    for cache_mode in ("force_custom_plan", "force_generic_plan"):
        for statement in (FIRST_UNTRIED, WHATEVER_WAITS):
            plan = plans_of_the_prepared(statement, values, cache_mode)
            assert "Index Scan using backlog_held" in plan, plan
            assert "Sort" not in plan, plan
            assert "Seq Scan" not in plan, plan
    with CaptureQueriesContext(connection) as queries:
        assert breakers.held_by(crowd) == 500
    with connection.cursor() as cursor:
        cursor.execute("EXPLAIN " + queries[0]["sql"])
        plan = "\n".join(line for (line,) in cursor.fetchall())
    assert "backlog_held" in plan, plan
    assert "Seq Scan" not in plan, plan


def test_what_waits_locked_for_a_deleted_target_is_let_through_by_a_later_tick():
    open_it()
    first, *rest = hold(3)
    with another_connection() as other, impatience():
        other.execute("SELECT FROM jobs_backlogrecord WHERE id = %s FOR UPDATE", [first])
        verbs.forget(OFFICE, now=NOON)
        assert ready_ids() == rest
    tick(NOON + SECOND)
    assert set(ready_ids()) == {first, *rest}
    verbs.forget(OFFICE, now=NOON + MINUTE)
    assert not Breaker.objects.exists()
