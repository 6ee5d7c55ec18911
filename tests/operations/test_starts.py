"""The starts of records: those at which real claims and settles of as many units would begin them."""

import random
from datetime import datetime, timedelta
from heapq import heappop, heappush

import pytest

from jobs import claiming, settling
from jobs.models import BacklogRecord, Lane
from jobs.outcomes import Succeeded
from jobs.states import Status
from operations.backlog.starts import QueueState, Runner, Waiter, starts
from operations.backlog.throttling import Head
from tests.factories import NOON, make_lane, make_record, make_throttle, make_worker

pytestmark = pytest.mark.django_db
SECOND = timedelta(seconds=1)


def really(units: int, durations: dict[int, float], running: list[Runner]) -> dict[int, datetime]:
    """The instants at which real claims begin ready records of these durations."""
    worker, found, now = make_worker(), dict[int, datetime](), NOON
    busy = sorted(((each.began_at - NOON).total_seconds() + durations[each.id], each.id) for each in running)
    claims = {}
    while True:
        free = units - len(busy)
        for claimed in claiming.claim("default", worker_id=worker.pk, limit=free, now=now) if free else ():
            found[claimed.id], claims[claimed.id] = now, claimed
            heappush(busy, ((now - NOON).total_seconds() + durations[claimed.id], claimed.id))
        if not busy:
            return found
        now = NOON + timedelta(seconds=busy[0][0])
        while busy and NOON + timedelta(seconds=busy[0][0]) <= now:
            _, ended = heappop(busy)
            if ended in claims:
                settling.settle([(claims[ended], Succeeded())], now=now)
            else:
                BacklogRecord.objects.filter(pk=ended).delete()


@pytest.mark.parametrize("seed", range(12))
def test_are_those_of_real_claims_and_settles(seed: int) -> None:
    rng = random.Random(seed)
    caps = [make_throttle(rng.randint(1, 3)) for _ in range(2)]
    lanes = [0, make_lane(caps[0]), make_lane(caps[1])]
    units = rng.randint(1, 4)
    rows = [
        make_record(
            Status.RUNNING if number < min(2, units) else Status.READY, lane=rng.choice(lanes),
            priority=rng.choice([0, 0, 1]), expected_seconds=rng.choice([None, 1.0, 2.0]),
        )
        for number in range(14)
    ]  # fmt: skip
    durations = {each.pk: float(rng.randint(2, 60)) + each.pk / 1e6 for each in rows}
    ready = [each for each in rows if each.status == Status.READY]
    running = [Runner(each.pk, each.lane, NOON, None) for each in rows if each.status == Status.RUNNING]
    heads = [Head(*(getattr(each, name) for name in Head._fields[:-1]), title="") for each in ready]
    state = QueueState(
        NOON, units, running, [Waiter(head, NOON) for head in heads],
        dict(Lane.objects.values_list("pk", "throttle_ids")), {cap.pk: cap.max_in_flight for cap in caps},
    )  # fmt: skip
    found = starts(state, lambda each: durations[each.head.id if isinstance(each, Waiter) else each.id])
    expected = really(units, durations, running)
    assert found.keys() == expected.keys()
    apart = {pk: (found[pk] - expected[pk]) / SECOND for pk in found}
    assert {pk: seconds for pk, seconds in apart.items() if abs(seconds) > 0.001} == {}


def test_what_comes_later_or_whose_window_closes_before_a_unit_is_free() -> None:
    def waiter(number: int, ready_after: int, closes_after: int | None = None) -> Waiter:
        head = Head(0, number, 0, None, None, None, "")
        closes_at = None if closes_after is None else NOON + closes_after * SECOND
        return Waiter(head, NOON + ready_after * SECOND, closes_at)

    running = [Runner(1, 0, NOON - 5 * SECOND, 10.0)]
    waiting = [waiter(2, 0), waiter(3, 0, closes_after=4), waiter(4, 100), waiter(5, 0)]
    state = QueueState(NOON, 1, running, waiting, {}, {})
    assert starts(state, lambda each: 10.0) == {
        2: NOON + 5 * SECOND, 5: NOON + 15 * SECOND, 4: NOON + 100 * SECOND
    }  # fmt: skip
    assert starts(state, lambda each: 10.0 if isinstance(each, Runner) else float("inf")) == {2: NOON + 5 * SECOND}
