"""Eight claimers on a rate, and two connections that meet at its lock: no token is spent twice."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

import pytest
from django.db import connection

from jobs import claiming, settling
from jobs.clock import boot_seconds, database_clock
from jobs.models import BacklogRecord, Throttle
from jobs.outcomes import Succeeded
from jobs.states import Status
from tests.factories import NOON, make_lane, make_record, make_throttle, make_worker
from tests.jobs.throttling.rated import claim, make_rated, most_above, put, ready, tokens_of
from tests.threads import another_connection, at_once, beside, impatience, somebody_waits_for_a_lock
from tests.waiting import PATIENCE, eventually

pytestmark = pytest.mark.django_db(transaction=True)

CLAIMERS = 8


def claim_all(instants: list[datetime], enough: Callable[[], bool], *more: Callable[[], None]) -> None:
    """Eight claimers until it is `enough`, each settling at once, while `more` is done. Adds when records were claimed
    to `instants`."""
    workers, adding = [make_worker().pk for _ in range(CLAIMERS)], threading.Lock()
    until = boot_seconds() + PATIENCE

    def work(worker_id: int) -> None:
        while not enough() and boot_seconds() < until:
            claimed = claiming.claim("default", worker_id=worker_id, limit=3)
            with adding:
                instants.extend(record.started_at for record in claimed)
            if claimed:
                settling.settle([(record, Succeeded()) for record in claimed])

    at_once(*[lambda worker_id=worker_id: work(worker_id) for worker_id in workers], *more)
    assert enough()


class TestEightClaimers:
    def test_exceed_the_rate_over_no_interval_however_short_and_use_all_of_it(self):
        rate, burst = 40.0, 6
        instants: list[datetime] = []
        throttle = make_rated(rate, burst, tokens=burst, at=database_clock())
        lane = make_lane(throttle)
        other = make_lane(throttle, make_throttle(1000))
        ready(throttle, 300)
        for _ in range(30):
            make_record(lane=other)
        claim_all(instants, lambda: len(instants) >= 80)
        assert most_above(instants, rate, burst) < 1e-6
        assert BacklogRecord.objects.filter(status=Status.SUCCEEDED).count() == len(instants)
        assert BacklogRecord.objects.filter(status=Status.SUCCEEDED, lane=lane).exists()

    def test_go_by_the_new_rate_from_the_edit_on(self):
        throttle = make_rated(20, 2, tokens=2, at=database_clock())
        ready(throttle, 400)
        instants: list[datetime] = []
        edited: list[datetime] = []

        def edit() -> None:
            eventually(lambda: len(instants) >= 15)
            stale = Throttle.objects.get()
            stale.rate, stale.burst = 80, 4
            edited.append(database_clock())
            stale.save()
            edited.append(database_clock())

        def after() -> list[datetime]:
            return [each for each in instants if len(edited) > 1 and each > edited[1]]

        claim_all(instants, lambda: len(after()) > 60, edit)
        before = [each for each in instants if each < edited[0]]
        assert most_above(before, 20, 2) < 1e-6
        assert most_above(after(), 80, 4) < 1e-6
        assert len(before) >= 15


class TestTwoConnections:
    def test_who_comes_second_counts_the_tokens_that_the_first_took(self):
        """Both saw the lane open; the second one waits at the lock."""
        throttle = make_rated(1, burst=9, tokens=3)
        ready(throttle, 9)
        with another_connection() as first, ThreadPoolExecutor(1) as pool:
            first.execute("SELECT FROM jobs_throttle FOR UPDATE")
            second = pool.submit(lambda: at_once(lambda: claim(limit=3))[0])
            eventually(somebody_waits_for_a_lock)
            first.execute("UPDATE jobs_throttle SET tokens = tokens - 2, tokens_at = %s", [NOON])
            first.commit()
            assert len(second.result(PATIENCE)) == 1
        assert tokens_of(throttle) == 0

    def test_a_claim_that_is_rolled_back_has_spent_nothing(self):
        throttle = make_rated(1, burst=9, tokens=3)
        ready(throttle, 9)
        with another_connection() as doomed:
            doomed.execute(CLAIM, {"worker": make_worker().pk, "now": NOON})
        assert tokens_of(throttle) == 3
        assert len(claim()) == 3

    def test_a_lane_without_a_token_is_passed_by_without_a_lock(self):
        ready(make_rated(1, tokens=0.5), 9)
        other = make_record()
        with another_connection() as holder, impatience():
            holder.execute("SELECT FROM jobs_throttle FOR UPDATE")
            assert [record.id for record in claim()] == [other.pk]

    def test_an_edit_of_the_rate_waits_for_the_claim_under_way_and_keeps_what_it_left(self):
        throttle = make_rated(1, burst=100, tokens=50, at=database_clock())
        ready(throttle, 60)
        with another_connection() as claiming_now:
            claiming_now.execute(CLAIM, {"worker": make_worker().pk, "now": None})
            edited = beside(lambda: Throttle.objects.filter(pk=throttle.pk).update(rate=0.001))
            eventually(somebody_waits_for_a_lock)
            claiming_now.commit()
            assert edited.result(PATIENCE) == 1
        assert 0 <= tokens_of(throttle) < PATIENCE


CLAIM = """
SELECT count((record).id)
  FROM jobs_claim_beside_throttles(
       'default', 50, %(worker)s, gen_random_uuid(), 60, ARRAY['availability'], NULL, '{}', %(now)s::timestamptz)
"""


class TestEdit:
    def test_counts_what_flowed_in_by_the_old_rate_and_not_by_the_new_one(self):
        throttle = make_rated(1, burst=100_000, at=database_clock() - timedelta(seconds=1000))
        Throttle.objects.filter(pk=throttle.pk).update(rate=1000)
        with connection.cursor() as cursor:
            cursor.execute("SELECT tokens, clock_timestamp() - tokens_at < interval '60 s' FROM jobs_throttle")
            tokens, just_now = cursor.fetchone()
        assert 1000 <= tokens < 1000 + PATIENCE
        assert just_now

    def test_writes_no_tokens_that_its_program_has_read_long_ago(self):
        throttle = make_rated(0.001, burst=50, tokens=40, at=database_clock())
        stale = Throttle.objects.get(pk=throttle.pk)
        put(throttle, 3, database_clock())
        stale.name = "another"
        stale.save()
        assert 3 <= tokens_of(throttle) < 4

    def test_to_a_smaller_burst_spills_what_is_above(self):
        throttle = make_rated(1, burst=50, tokens=40, at=database_clock())
        Throttle.objects.filter(pk=throttle.pk).update(burst=4)
        assert tokens_of(throttle) == 4

    def test_that_gives_the_first_rate_begins_with_an_empty_bucket(self):
        throttle = make_throttle(9)
        Throttle.objects.filter(pk=throttle.pk).update(rate=5, burst=100)
        assert tokens_of(throttle) == 0

    def test_that_takes_the_rate_away_lets_the_cap_alone_hold(self):
        throttle = make_rated(0.001, at=database_clock(), most=3)
        ready(throttle, 9)
        assert claim(database_clock()) == []
        Throttle.objects.filter(pk=throttle.pk).update(rate=None)
        assert len(claim(database_clock())) == 3

    @pytest.mark.parametrize(
        ("edit", "told"), [({"max_in_flight": 5}, True), ({"rate": 9}, True), ({"name": "x"}, False)]
    )
    def test_that_lets_more_through_wakes_the_workers(self, edit, told):
        throttle = make_rated(1, most=0)
        with another_connection() as listener:
            listener.execute("LISTEN jobs_ready")
            listener.commit()
            Throttle.objects.filter(pk=throttle.pk).update(**edit)
            heard = [notice.payload for notice in listener.notifies(timeout=PATIENCE if told else 0.2, stop_after=1)]
        assert heard == (["*"] if told else [])
