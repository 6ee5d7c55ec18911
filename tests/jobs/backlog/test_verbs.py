"""Pause and resume queues, and all verbs in any order."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs import backlog, claiming, settling, tick
from jobs.models import BacklogRecord, PausedQueue
from jobs.outcomes import Failed, Succeeded
from jobs.states import Status
from jobs.wakeups import CHANNEL
from tests.factories import NOON, make_record
from tests.jobs.backlog.changes import LATER, listening
from tests.threads import at_once

pytestmark = pytest.mark.django_db(transaction=True)


class TestPausedQueues:
    def test_pausing_again_keeps_the_first_instant_and_takes_a_new_reason_and_of_two_at_once_one_did_it(self):
        assert sorted(at_once(*[lambda: backlog.pause_queue("default", "one", now=NOON)] * 2)) == [False, True]
        assert backlog.pause_queue("default", now=LATER) is False
        assert backlog.pause_queue("default", "one", now=LATER) is False
        assert backlog.pause_queue("default", " \t", now=LATER) is False
        assert backlog.pause_queue("default", " two ", now=LATER) is True
        paused = PausedQueue.objects.get()
        assert (paused.reason, paused.paused_at) == ("two", NOON)

    def test_resuming_wakes_its_workers_once(self):
        backlog.pause_queue("backups")
        with listening(CHANNEL) as heard:
            assert backlog.resume_queue("backups") is True
            assert heard() == ["backups"]
            assert backlog.resume_queue("backups") is False

    @pytest.mark.parametrize("verb", [backlog.pause_queue, backlog.resume_queue])
    def test_an_unknown_queue_is_refused_with_the_known_ones_and_one_of_records_is_known(self, verb):
        make_record(queue="theirs")
        PausedQueue.objects.create(name="gone")
        with pytest.raises(ValueError, match=r"no queue '\\x00'; there are"):
            verb("\0")
        assert verb("theirs") == (verb is backlog.pause_queue)
        assert backlog.resume_queue("gone")
        make_record(Status.SUCCEEDED, queue="bakcups")
        with pytest.raises(ValueError, match="no queue 'bakcups'; there are arrivals, availability, backups"):
            verb("bakcups")


class TestAnyOrderOfVerbs:
    @given(
        st.lists(st.tuples(st.sampled_from(["cancel", "retry", "claim", "settle", "fail", "tick"]), st.integers(0, 3)))
    )
    def test_keeps_attempts_growing_and_one_unfinished_record_a_subject(self, steps):
        BacklogRecord.objects.all().delete()
        ids = [make_record(Status.FAILED, subject=f"s{n % 2}", attempt=n).pk for n in range(4)]
        running: dict[int, claiming.ClaimedRecord] = {}
        attempts = dict(BacklogRecord.objects.values_list("pk", "attempt"))
        for number, (step, index) in enumerate(steps):
            now = NOON + timedelta(minutes=number)
            if step == "cancel":
                backlog.cancel([ids[index]], now=now)
            elif step == "retry":
                backlog.retry([ids[index]], now=now)
            elif step == "claim":
                running |= {record.id: record for record in claiming.claim("default", worker_id=1, limit=1, now=now)}
            elif step in ("settle", "fail") and (record := running.pop(ids[index], None)):
                settling.settle([(record, Succeeded() if step == "settle" else Failed("x"))], now=now)
            elif step == "tick":
                tick.promote(now)
            current = dict(BacklogRecord.objects.values_list("pk", "attempt"))
            assert all(current[pk] >= attempts[pk] for pk in ids)
            attempts = current
            unfinished = list(BacklogRecord.objects.unfinished().values_list("subject", flat=True))
            assert len(unfinished) == len(set(unfinished))
            held = set(BacklogRecord.objects.running().values_list("pk", flat=True))
            assert held == set(running)


def test_long_lists_are_chopped_in_ascending_order():
    assert list(backlog.in_batches([5, 1, 3, 1, 4], 2)) == [[1, 3], [4, 5]]
    assert [len(batch) for batch in backlog.in_batches(range(2500))] == [1000, 1000, 500]
    assert list(backlog.in_batches([])) == []
