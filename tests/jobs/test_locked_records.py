"""Records that others hold locked are unknown, never lost: they stop no run and hold up no other record."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from jobs import claiming, rescuing, settling
from jobs.clock import database_clock
from jobs.handlers import Kind, Run, one_by_one, registry
from jobs.models import Attempt, BacklogRecord, RetryPolicy
from jobs.outcomes import ClaimedRecord, Released, Succeeded
from jobs.states import Status
from jobs.worker.heartbeat import Heartbeat
from jobs.worker.settler import Settler
from tests.factories import claim_new, claim_ready, make_record, make_retry_policy
from tests.jobs.held import Held
from tests.threads import another_connection, impatience
from tests.waiting import PATIENCE, eventually

HOLDS = {
    "its record": "SELECT FROM jobs_backlogrecord WHERE id = %(id)s FOR UPDATE",
    "its key": "SELECT pg_advisory_xact_lock(hashtextextended(%(key)s, 0))",
    "what its hook writes": "SELECT FROM jobs_retrypolicy WHERE name = %(key)s FOR UPDATE",
}

pytestmark = pytest.mark.django_db(transaction=True)


@contextmanager
def being_edited(record: ClaimedRecord) -> Iterator:
    """Another transaction has updated the record. Yields its connection; it commits when it says so."""
    with another_connection() as other:
        other.execute("UPDATE jobs_backlogrecord SET priority = priority + 1 WHERE id = %s", [record.id])
        yield other


class TestTheSettler:
    @pytest.fixture
    def settler(self, settings, monkeypatch) -> Iterator[Settler]:
        settings.JOBS = {**settings.JOBS, "LEASE_SECONDS": 3}  # a statement waits for a lock for half a second
        monkeypatch.setattr(registry, "kinds", dict(registry.kinds))
        settler = Settler(lambda records: None)
        yield settler
        settler.end(PATIENCE)

    @pytest.mark.parametrize("hold", ["its record", "its key", "what its hook writes"])
    def test_writes_the_others_beside_a_result_that_has_to_wait(self, settler, hold):
        for number in range(4):
            make_record(exclusive_key=f"key {number}")
            make_retry_policy(name=f"key {number}")
        records = claim_ready(4, now=None)

        def write_beside(record, outcome, now):
            RetryPolicy.objects.filter(name=record.exclusive_key).update(max_failures=7)

        registry.add(Kind("test", after_settle=one_by_one(write_beside)))
        with another_connection() as other:
            other.execute(HOLDS[hold], {"id": records[1].id, "key": records[1].exclusive_key})
            for record in records:
                settler.add(record, Succeeded())
            settler.start()
            eventually(lambda: BacklogRecord.objects.filter(status=Status.SUCCEEDED).count() == 3)
            other.commit()
        eventually(lambda: not BacklogRecord.objects.unfinished().exists())
        assert Attempt.objects.count() == 4


def test_a_stray_that_is_locked_is_given_back_later():
    [stray] = claim_new(1, now=None)
    with being_edited(stray) as edit, impatience():
        assert not rescuing.release_strays(worker_id=stray.worker_id, known=[])
        edit.commit()
    assert rescuing.release_strays(worker_id=stray.worker_id, known=[])
    assert BacklogRecord.objects.get().status == Status.READY


def test_a_rescue_leaves_what_waits_for_a_key_and_takes_the_others():
    keyed, other = make_record(exclusive_key="key"), make_record()
    claim_ready(2, now=None)
    tomorrow = database_clock() + timedelta(days=1)
    with another_connection() as holder, impatience():
        holder.execute(HOLDS["its key"], {"key": "key"})
        assert rescuing.rescue(now=tomorrow) == 1
        assert BacklogRecord.objects.running().get() == keyed
    assert rescuing.rescue(now=tomorrow) == 1
    assert Attempt.objects.filter(record=other).count() == 1


class TestTheHeartbeat:
    def test_renews_the_others_and_comes_back_for_a_locked_one_within_a_second(self, settings):
        settings.JOBS = {**settings.JOBS, "LEASE_SECONDS": 3600}  # the next beat of all would come in 15 minutes
        runs = [Run(record) for record in claim_new(4, now=None)]
        heartbeat = Heartbeat(runs[0].record.worker_id, Held(*runs))
        with being_edited(runs[1].record) as edit, impatience():
            heartbeat.beat()
            assert [run.renewed_at > 0 for run in runs] == [True, False, True, True]
            edit.commit()
        try:
            heartbeat.start()
            eventually(lambda: runs[1].renewed_at > 0)
        finally:
            heartbeat.end()
        assert not any(run.is_stopped for run in runs)

    @pytest.mark.parametrize("why", ["cancelled", "another lease"])
    def test_stops_what_is_locked_and_was_cancelled_or_has_another_lease_by_now(self, why):
        [record] = claim_new(1, now=None)
        if why == "cancelled":
            BacklogRecord.objects.filter(pk=record.id).update(cancel_requested_at=record.started_at)
        else:
            settling.settle([(record, Released())])
            claiming.claim("default", worker_id=record.worker_id, limit=1)
        run = Run(record)
        with being_edited(record), impatience():
            Heartbeat(record.worker_id, Held(run)).beat()
        assert run.is_stopped
