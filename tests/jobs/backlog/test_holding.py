"""One hold stops all queues at once, and leaves paused ones paused when it ends."""

import pytest
from django.db import transaction

from jobs import backlog, claiming
from jobs.models import Decision, PausedQueue, Throttle
from jobs.states import Status
from jobs.throttles import lane_of
from jobs.wakeups import CANCEL_CHANNEL, CHANNEL, EVERY_QUEUE
from tests.factories import NOON, make_record
from tests.jobs.backlog.changes import LATER, listening
from tests.threads import a_lock_is_waited_for, at_once, beside
from tests.waiting import eventually

pytestmark = pytest.mark.django_db(transaction=True)
BY = "kim"


def take(queue: str) -> int:
    return len(claiming.claim(queue, worker_id=1, limit=5))


def test_from_its_commit_on_nothing_is_claimed_from_any_queue_and_a_release_leaves_paused_ones_paused():
    backlog.pause_queue("callbacks")
    for queue in ("backups", "callbacks", "default"):
        make_record(Status.READY, queue=queue, run_after=NOON)
    with listening(CANCEL_CHANNEL) as heard:
        assert backlog.hold("ransomware?", by=BY, now=NOON)
        assert heard() == [EVERY_QUEUE]
    make_record(Status.READY, queue="one that came later", run_after=NOON)
    queues = ["backups", "callbacks", "default", "one that came later"]
    assert at_once(*[lambda queue=queue: take(queue) for queue in queues]) == [0] * 4
    held = backlog.held()
    assert (held.reason, held.since, held.by) == ("ransomware?", NOON, BY)
    with listening(CHANNEL) as heard:
        assert backlog.release(by=BY)
        assert heard() == [EVERY_QUEUE]
    assert backlog.held() is None
    assert [take(queue) for queue in queues] == [1, 0, 1, 1]
    assert PausedQueue.objects.get().name == "callbacks"
    assert backlog.release(by=BY) is False
    assert list(Decision.objects.order_by("pk").values_list("what", flat=True)) == ["held", "released"]


def hold(reason: str) -> bool:
    return backlog.hold(reason, by=BY)


def pause(reason: str) -> bool:
    return backlog.pause_queue("backups", reason)


@pytest.mark.parametrize("stop", [hold, pause])
def test_a_claim_that_waits_for_a_throttle_meanwhile_takes_nothing(stop):
    throttle = Throttle.objects.create(name="t", max_in_flight=5)
    record = make_record(Status.READY, queue="backups", run_after=NOON, lane=lane_of([throttle.pk]))
    with transaction.atomic():
        Throttle.objects.select_for_update().get()
        claimed = beside(lambda: take("backups"))
        eventually(a_lock_is_waited_for)
        beside(lambda: stop("stop")).result(10)
    assert claimed.result(10) == 0
    record.refresh_from_db()
    assert record.status == Status.READY


def test_holding_again_keeps_who_and_when_and_takes_a_new_reason_and_of_two_at_once_one_did_it():
    assert sorted(at_once(*[lambda: backlog.hold("one", by=BY, now=NOON)] * 2)) == [False, True]
    assert backlog.hold("two", by="another", now=LATER)
    held = backlog.held()
    assert (held.reason, held.since, held.by) == ("two", NOON, BY)


@pytest.mark.parametrize(("stop", "reason"), [(hold, ""), (hold, "  "), *((pause, "x" * 201), (pause, "\0"))])
def test_a_reason_that_cannot_be_kept_is_refused_and_a_hold_without_one(stop, reason):
    with pytest.raises(ValueError, match="reason"):
        stop(reason)
    assert backlog.held() is None
    assert not PausedQueue.objects.exists()
