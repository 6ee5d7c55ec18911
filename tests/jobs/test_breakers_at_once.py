"""Breakers and two who come at once: ticks, settles, claims, each on a connection of its own."""

from datetime import timedelta

import pytest
from django.db import connection, transaction

import jobs.tick
from jobs import breakers, claiming, settling
from jobs.breakers import verbs
from jobs.breakers.statements import FIRST_UNTRIED, HELD_BY_IT, WHATEVER_WAITS
from jobs.models import BacklogRecord, Breaker
from jobs.outcomes import Failed, Succeeded
from jobs.states import Status, WaitingFor
from tests.factories import NOON, build_record, make_worker
from tests.jobs.breaking import (
    FULL,
    MINUTE,
    OFFICE,
    SECOND,
    breaker,
    claimed,
    fail,
    held_ids,
    hold,
    open_it,
    ready_ids,
    tick,
    trial,
)
from tests.jobs.test_claim_order import plans_of_the_prepared
from tests.threads import another_connection, at_once, beside, impatience, somebody_waits_for_a_lock
from tests.waiting import PATIENCE, eventually

pytestmark = pytest.mark.django_db(transaction=True)


class TestTicks:
    def test_two_at_once_elect_one_trial(self):
        open_it()
        hold(10)
        for number in range(5):
            moved = at_once(*[lambda: breakers.look(breaker().probe_at)] * 4)
            assert sum(moved) == 1
            assert len(ready_ids()) == 1
            BacklogRecord.objects.filter(status=Status.READY).delete()
            Breaker.objects.update(probe_at=NOON + (number + 2) * MINUTE)

    def test_one_that_meets_another_in_the_middle_of_its_election_does_not_wait_for_it(self):
        open_it()
        hold(2)
        with another_connection() as other, impatience():
            other.execute("SELECT id FROM jobs_breaker FOR NO KEY UPDATE")
            assert breakers.look(NOON + MINUTE) == 0
        assert breakers.look(NOON + MINUTE) == 1

    def test_a_record_that_somebody_holds_locked_is_passed_over_and_found_later(self):
        open_it()
        first, *rest = hold(3)
        verbs.close([breaker().pk], now=NOON)
        with another_connection() as other, impatience():
            other.execute("SELECT id FROM jobs_backlogrecord WHERE id = %s FOR UPDATE", [first])
            assert breakers.look(NOON + SECOND) == 2
        assert ready_ids() == rest
        assert breakers.look(NOON + SECOND + breakers.LOOK_AFTER) == 1
        assert breaker().probe_at is None

    def test_claims_proceed_while_all_that_waited_is_let_through(self):
        open_it()
        hold(3)
        verbs.close([breaker().pk], now=NOON)
        with transaction.atomic():
            breakers._look_once(NOON + SECOND)
            claim = beside(lambda: claiming.claim("default", worker_id=make_worker().pk, limit=5, now=NOON))
            assert claim.result(PATIENCE) == []  # nothing is committed yet, and nobody waits
        assert len(claiming.claim("default", worker_id=make_worker().pk, limit=5, now=NOON)) == 3


class TestSettles:
    def test_units_that_fail_at_once_for_a_repository_that_never_failed_before_are_all_counted(self):
        records = claimed(16)
        at_once(*[lambda record=record: fail([record]) for record in records])
        assert (Breaker.objects.count(), breaker().failures) == (1, 16)
        assert len(held_ids()) == 14

    def test_a_refusal_that_meets_a_close_is_either_let_through_or_released(self):
        open_it()
        records = claimed(8)
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

    def test_a_refusal_behind_a_tick_that_lets_all_through_is_released(self):
        open_it()
        hold(1)
        [late] = claimed()
        refused = breakers.refusal(OFFICE, late)
        verbs.close([breaker().pk], now=NOON)
        with transaction.atomic():
            breakers._look_once(NOON)
            settle = beside(lambda: settling.settle([(late, refused)], now=NOON + SECOND))
            eventually(lambda: somebody_waits_for_a_lock() or settle.done())
        settle.result(PATIENCE)
        assert BacklogRecord.objects.get(pk=late.id).status == Status.READY

    def test_a_trial_that_fails_beside_a_tick_waits_and_another_is_elected_in_time(self):
        open_it()
        hold(3)
        record = trial(NOON + MINUTE)
        later = NOON + MINUTE + breakers.LOOK_AFTER
        at_once(lambda: fail([record], later), lambda: breakers.look(later))
        tick(breaker().probe_at)
        assert len(ready_ids()) == 1
        assert breaker().trials == 1

    def test_settles_of_two_repositories_in_opposite_order_do_not_lock_each_other_out(self):
        open_it()
        open_it(guarded=OTHER)
        ours, theirs = claimed(2), claimed(2)

        def settle(records, first, second):
            results = [(records[0], Failed(FULL, fault_of=first)), (records[1], Succeeded(proves=second))]
            return lambda: settling.settle(results, now=NOON + SECOND)

        at_once(settle(ours, OFFICE, OTHER), settle(theirs, OTHER, OFFICE))
        assert not BacklogRecord.objects.filter(status=Status.RUNNING).exists()


OTHER = OFFICE._replace(key="repository:9", title="repository attic")

CROWD = 50_000


@pytest.fixture
def crowd(db):
    """Two open breakers with some hundreds of records each, beside 50,000 that wait for other things."""
    open_it()
    open_it(guarded=OTHER)
    found = list(Breaker.objects.order_by("pk"))
    reasons = [WaitingFor.BACKOFF, WaitingFor.RECHECK, WaitingFor.WINDOW, WaitingFor.SWEEP]
    rows = [build_record(Status.WAITING, waiting_for=reasons[n % 4], priority=n % 3) for n in range(CROWD)]
    rows += [
        build_record(
            Status.WAITING, waiting_for=WaitingFor.BREAKER, breaker=found[n % 2], priority=n % 3,
            rank_day=NOON.date() - timedelta(days=n % 9), closes_at=NOON + timedelta(days=n % 5),
        )
        for n in range(1000)
    ]  # fmt: skip
    BacklogRecord.objects.bulk_create(rows, batch_size=5000)
    with connection.cursor() as cursor:
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
        plan = plans_of_the_prepared(HELD_BY_IT, values, cache_mode)
        assert "backlog_held" in plan, plan
        assert "Seq Scan" not in plan, plan
    assert breakers.held_by(crowd) == 500
