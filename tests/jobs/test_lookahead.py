"""How far the queue that asks runs ahead of the queue that copies."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.clock import database_clock
from jobs.models import Worker
from jobs.states import Status
from jobs.worker.claimer import ASKED_PER_PLACE, Shortage, shortage, to_ask
from tests.factories import make_lane, make_record, make_throttle, make_worker
from tests.jobs.throttling.rated import make_rated, ready


def living(**queues: int) -> Worker:
    return make_worker(queues=queues, heartbeat_at=database_clock())


@pytest.mark.django_db
class TestShortage:
    def test_is_the_free_units_of_the_living_and_half_of_all_less_what_is_ready(self) -> None:
        assert shortage("backups").missing == 0
        worker = living(backups=4)
        living(backups=2)
        make_worker(queues={"backups": 8}, heartbeat_at=database_clock(), stopped_at=database_clock())
        make_worker(queues={"backups": 8}, heartbeat_at=database_clock() - timedelta(hours=1))
        make_record(Status.RUNNING, queue="backups", worker=worker)
        make_record(queue="backups")
        make_record(queue="availability")
        assert shortage("backups").missing == 6 - 1 + 3 - 1

    def test_what_waits_behind_a_throttle_that_is_full_or_lacks_tokens_keeps_no_unit_busy(self) -> None:
        worker = living(backups=16)
        full, roomy = make_lane(make_throttle(1)), make_lane(make_throttle(9), make_throttle(2))  # the narrowest counts
        make_record(Status.RUNNING, queue="backups", lane=full, worker=worker)
        for lane, count in ((full, 30), (roomy, 5), (0, 1)):
            for _ in range(count):
                make_record(queue="backups", lane=lane)
        assert shortage("backups").missing == 16 - 1 + 8 - (0 + 2 + 1)
        ready(make_rated(0.01, burst=9, tokens=2.5, at=database_clock()), 30, queue="backups")
        ready(make_rated(0.001, at=database_clock()), 30, queue="backups")
        assert shortage("backups").missing == 16 - 1 + 8 - (0 + 2 + 1) - 2

    def test_the_workers_that_share_the_asking_are_counted(self) -> None:
        living(backups=4, availability=200)
        living(availability=10)
        living(backups=4)
        assert shortage("backups", "availability") == Shortage(missing=8 + 4, feeders=2)


@given(st.integers(1, 500), st.integers(1, 50))
def test_workers_that_share_the_asking_ask_enough_together_and_not_much_more(missing: int, feeders: int) -> None:
    together = feeders * to_ask(Shortage(missing, feeders), 0)
    assert ASKED_PER_PLACE * missing <= together < ASKED_PER_PLACE * missing + feeders
    assert to_ask(Shortage(missing, 1), 10) == max(0, ASKED_PER_PLACE * missing - 10)
