"""Eight claimers on a rate, and two connections that meet at its lock: no token is spent twice."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

import pytest
from django.db import connection

from jobs import claiming, settling
from jobs.clock import boot_seconds, database_clock
from jobs.models import Throttle
from jobs.outcomes import Succeeded
from tests.factories import NOON, claim_ready, make_lane, make_record, make_throttle, make_worker
from tests.jobs.throttling.rated import make_rated, most_above, put, ready, tokens_of
from tests.threads import a_lock_is_waited_for, another_connection, at_once, beside, impatience
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
    def test_exceed_the_rate_over_no_interval_and_go_by_the_new_one_from_the_edit_on(self):
        throttle, other = make_rated(20, 2, tokens=2, at=database_clock()), make_throttle(1000)
        ready(throttle, 400)
        for _ in range(30):
            make_record(lane=make_lane(throttle, other))
        instants: list[datetime] = []
        edited: list[datetime] = []

        def edit() -> None:
            eventually(lambda: len(instants) >= 15)
            stale = Throttle.objects.get(pk=throttle.pk)
            stale.rate, stale.burst = 80, 4
            edited.append(database_clock())
            stale.save()
            edited.append(database_clock())

        def after() -> list[datetime]:
            return [each for each in instants if len(edited) > 1 and each > edited[1]]

        claim_all(instants, lambda: len(after()) > 40, edit)
        before = [each for each in instants if each < edited[0]]
        assert most_above(before, 20, 2) < 1e-6
        assert most_above(after(), 80, 4) < 1e-6
        assert len(before) >= 15


class TestTwoConnections:
    def test_the_second_claim_counts_the_tokens_that_the_first_took(self):
        """Both saw the lane open; the second one waits at the lock."""
        throttle = make_rated(1, burst=9, tokens=3)
        ready(throttle, 9)
        with another_connection() as first, ThreadPoolExecutor(1) as pool:
            first.execute("SELECT FROM jobs_throttle FOR UPDATE")
            second = pool.submit(lambda: at_once(lambda: claim_ready(limit=3))[0])
            eventually(a_lock_is_waited_for)
            first.execute("UPDATE jobs_throttle SET tokens = tokens - 2, tokens_at = %s", [NOON])
            first.commit()
            assert len(second.result(PATIENCE)) == 1
        assert tokens_of(throttle) == 0

    def test_a_lane_without_a_token_is_skipped_without_a_lock(self):
        ready(make_rated(1, tokens=0.5), 9, priority=100)
        other = make_record()
        with another_connection() as holder, impatience():
            holder.execute("SELECT FROM jobs_throttle FOR UPDATE")
            assert [record.id for record in claim_ready()] == [other.pk]

    def test_an_edit_of_the_rate_waits_for_the_claim_under_way_and_keeps_what_it_left(self):
        throttle = make_rated(1, burst=100, tokens=50, at=database_clock())
        ready(throttle, 60)
        with another_connection() as claiming_now:
            claiming_now.execute(CLAIM, {"worker": make_worker().pk, "now": None})
            edited = beside(lambda: Throttle.objects.filter(pk=throttle.pk).update(rate=0.001))
            eventually(a_lock_is_waited_for)
            claiming_now.commit()
            assert edited.result(PATIENCE) == 1
        assert 0 <= tokens_of(throttle) < PATIENCE


CLAIM = """
SELECT count((record).id)
  FROM jobs_claim_beside_throttles(
       'default', 50, %(worker)s, gen_random_uuid(), 60, ARRAY['availability'], NULL, '{}', %(now)s::timestamptz)
"""


class TestEdit:
    @pytest.mark.parametrize(
        ("rate", "tokens", "edit", "least", "below"),
        [
            (1, 1000, {"rate": 1000}, 1000, 1000 + PATIENCE),
            (1, 40, {"burst": 4}, 4, 4.001),
            (None, 0, {"rate": 5, "burst": 100}, 0, 0.001),
        ],
        ids=["by the old rate", "to a smaller burst", "to the first rate"],
    )
    def test_keeps_what_flowed_in_so_far_and_spills_what_is_above_the_burst(self, rate, tokens, edit, least, below):
        throttle = make_throttle(9)
        if rate:
            throttle = make_rated(rate, burst=100_000, at=database_clock() - timedelta(seconds=tokens))
        Throttle.objects.filter(pk=throttle.pk).update(**edit)
        with connection.cursor() as cursor:
            cursor.execute("SELECT clock_timestamp() - tokens_at < interval '60 s' FROM jobs_throttle")
            assert cursor.fetchone() == (True,)
        assert least <= tokens_of(throttle) < below

    def test_writes_no_tokens_that_its_program_has_read_long_ago(self):
        throttle = make_rated(0.001, burst=50, tokens=40, at=database_clock())
        stale = Throttle.objects.get(pk=throttle.pk)
        put(throttle, 3, database_clock())
        stale.name = "another"
        stale.save()
        assert 3 <= tokens_of(throttle) < 4

    @pytest.mark.parametrize(
        ("edit", "wakes"), [({"max_in_flight": 5}, True), ({"rate": 9}, True), ({"name": "x"}, False)]
    )
    def test_that_lets_more_through_wakes_the_workers(self, edit, wakes):
        throttle = make_rated(1, most=0)
        with another_connection() as listener:
            listener.execute("LISTEN jobs_ready")
            listener.commit()
            Throttle.objects.filter(pk=throttle.pk).update(**edit)
            heard = [notice.payload for notice in listener.notifies(timeout=PATIENCE if wakes else 0.2, stop_after=1)]
        assert heard == (["*"] if wakes else [])
