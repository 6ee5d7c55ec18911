"""The distance by which the queue that asks runs ahead of the queue that copies."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.clock import database_clock
from jobs.conf import QueueRule
from jobs.models import Worker
from jobs.outcomes import ClaimedRecord
from jobs.priorities import FIRST_IN_LINE, MAX_PRIORITY, WOKEN
from jobs.states import Status
from jobs.worker.claimer import ASKED_PER_PLACE, Claimer, Shortage, shortage, to_ask
from jobs.worker.hints import Hints
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


class Kept:
    """Units that keep what they are given."""

    def __init__(self) -> None:
        self.records: list[ClaimedRecord] = []

    def room(self, queue: str) -> int:
        return 50 - len(self.records)

    def start(self, records: list[ClaimedRecord], sent_at: float) -> None:
        self.records += records

    def begun_lately(self, queue: str, seconds: float) -> int:
        return 0


@pytest.mark.django_db
def test_what_was_woken_is_asked_on_time_while_the_units_have_enough_and_nothing_else_is() -> None:
    worker = living(backups=2, availability=50)
    for _ in range(2):
        make_record(Status.RUNNING, queue="backups", worker=worker)
    make_record(queue="backups")
    full = make_lane(make_throttle(1))
    make_record(Status.RUNNING, queue="backups", worker=worker, lane=full)
    make_record(queue="availability", priority=FIRST_IN_LINE + MAX_PRIORITY)
    for number in range(8):
        make_record(queue="availability", lane=full if number % 2 else 0)
    woken = {make_record(queue="availability", priority=WOKEN + own, lane=lane).pk
             for own, lane in ((0, 0), (-MAX_PRIORITY, full), (100, 0))}  # fmt: skip
    units, hints = Kept(), Hints()
    claimer = Claimer([QueueRule("availability", 50, "backups")], units, hints, worker.pk)  # type: ignore[arg-type]
    assert shortage("backups", "availability") == Shortage(missing=-1, feeders=1, woken=3)
    for expected in (3, 0):
        hints.add("availability")
        assert claimer.claim_what_fits() == expected
    assert {record.id for record in units.records} == woken
    assert shortage("backups", "availability").woken == 0


@pytest.mark.django_db
def test_what_was_woken_is_asked_while_the_units_are_short_though_its_throttle_is_full() -> None:
    worker = living(backups=4, availability=50)
    full = make_lane(make_throttle(1))
    make_record(Status.RUNNING, queue="backups", worker=worker, lane=full)
    make_record(queue="backups", lane=full)
    for _ in range(2):
        make_record(queue="availability", lane=full)
    other = make_record(queue="availability").pk
    woken = {make_record(queue="availability", priority=WOKEN, lane=lane).pk for lane in (full, full, 0)}
    units, hints = Kept(), Hints()
    claimer = Claimer([QueueRule("availability", 50, "backups")], units, hints, worker.pk)  # type: ignore[arg-type]
    assert shortage("backups", "availability").missing > 0
    hints.add("availability")
    assert claimer.claim_what_fits() == 4
    assert {record.id for record in units.records} == {*woken, other}


@given(st.integers(1, 500), st.integers(1, 50))
def test_workers_that_share_the_asking_ask_enough_together_and_not_much_more(missing: int, feeders: int) -> None:
    together = feeders * to_ask(Shortage(missing, feeders), 0)
    assert ASKED_PER_PLACE * missing <= together < ASKED_PER_PLACE * missing + feeders
    assert to_ask(Shortage(missing, 1), 10) == max(0, ASKED_PER_PLACE * missing - 10)
