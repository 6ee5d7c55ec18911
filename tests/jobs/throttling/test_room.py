"""Workers are woken if their records wait for a throttle that has room again, and no others."""

from collections.abc import Collection, Iterator

import pytest

from jobs import claiming, settling, wakeups
from jobs.clock import boot_seconds
from jobs.outcomes import Failed, Succeeded
from jobs.throttles import named_by_ready
from jobs.worker.hints import LOOK_AGAIN_AFTER_SECONDS, Hints
from tests.factories import NOON, claim_ready, make_lane, make_record, make_throttle
from tests.jobs.hearing import hearing
from tests.jobs.held import Held
from tests.waiting import eventually

pytestmark = pytest.mark.django_db(transaction=True)

LAST_WORD = "that was all"
ANOTHER_PROCESS = {"_last_sent": {}, "heard_here": None, "room_here": None}


class Heard(Hints):
    """Notes all queues, and the throttles that a queue waits for."""

    def __init__(self, heard: list[str | int]) -> None:
        super().__init__()
        self._heard = heard

    def hear(self, queue: str, quiet: float = 0) -> None:
        self._heard.append(queue)

    def hear_of_room(self, throttle_ids: Collection[int], quiet: float = LOOK_AGAIN_AFTER_SECONDS) -> bool:
        if is_waited_for := super().hear_of_room(throttle_ids, quiet):
            self._heard += throttle_ids
        return is_waited_for


class Idle:
    """A worker that serves `default`, as far as wake-ups go: what it hears over the database."""

    def __init__(self) -> None:
        self.heard: list[str | int] = []
        self.hints = Heard(self.heard)

    def claim(self) -> list[claiming.ClaimedRecord]:
        """Claim as its main loop does."""
        sent_at = boot_seconds()
        claimed = claim_ready(9)
        self.hints.blocked("default", named_by_ready("default"), since=sent_at)
        return claimed


@pytest.fixture
def idle(monkeypatch) -> Iterator[Idle]:
    for name, value in ANOTHER_PROCESS.items():
        monkeypatch.setattr(wakeups, name, value)
    worker = Idle()
    with hearing({"default", LAST_WORD}, worker.hints, Held()):
        eventually(lambda: len(worker.heard) == 2)  # after LISTEN: it may have missed some
        worker.heard.clear()
        yield worker


def settle_one_elsewhere(lane: int) -> None:
    """A worker of another queue ends a record of that lane."""
    make_record(lane=lane, queue="elsewhere")
    [record] = claim_ready(queue="elsewhere")
    settling.settle([(record, Succeeded())], now=NOON)


@pytest.mark.parametrize("outcome", [Succeeded(), Failed("no")])
def test_wakes_the_queue_whose_last_claim_met_that_throttle_in_a_lane_of_its_own(idle, outcome):
    shared = make_throttle(1)
    make_record(queue="elsewhere", lane=make_lane(shared))
    [running] = claim_ready(queue="elsewhere")
    make_record(lane=make_lane(shared, make_throttle(9)))
    assert idle.claim() == []
    settling.settle([(running, outcome)], now=NOON)
    eventually(lambda: idle.hints.take("default"))
    assert len(idle.claim()) == 1


def test_wakes_no_queue_that_waits_for_nothing_or_for_another_throttle(idle):
    """Its worker opens no transaction then."""
    lane, other = make_lane(make_throttle(1)), make_lane(make_throttle(0))
    assert idle.claim() == []
    settle_one_elsewhere(lane)
    make_record(lane=other)
    assert idle.claim() == []
    settle_one_elsewhere(lane)
    wakeups.notify_at_once(LAST_WORD)
    eventually(lambda: LAST_WORD in idle.heard)
    assert idle.heard == [LAST_WORD]
