"""Claims: who gets which record, when two want it at once."""

from datetime import timedelta

import pytest

from jobs import claiming
from jobs.models import BacklogRecord
from jobs.priorities import WOKEN
from jobs.states import Status
from tests.factories import NOON, make_lane, make_record, make_throttle, make_worker
from tests.threads import another_connection, impatience

pytestmark = pytest.mark.django_db(transaction=True)


def claimed_ids(queue: str = "default", limit: int = 10) -> list[int]:
    return [record.id for record in claiming.claim(queue, worker_id=make_worker().pk, limit=limit, now=NOON)]


class TestTwoConnections:
    @pytest.mark.parametrize("claim", ["plain", "throttled", "beside a full throttle"])
    def test_a_claim_skips_what_another_connection_holds_locked(self, claim):
        lane = 0 if claim == "plain" else make_lane(make_throttle(1 if claim == "beside a full throttle" else 5))
        if claim == "beside a full throttle":
            make_record(Status.RUNNING, lane=lane)
            make_record(lane=lane)
            lane = 0
        head, following = make_record(lane=lane), make_record(lane=lane)
        with another_connection() as other, impatience():
            other.execute("SELECT FROM jobs_backlogrecord WHERE id = %s FOR UPDATE", [head.pk])
            assert claimed_ids() == [following.pk]
        assert claimed_ids() == [head.pk]


class TestWhatIsClaimed:
    def test_a_claim_gives_a_lease_for_the_time_of_the_settings(self, settings):
        settings.JOBS = {"LEASE_SECONDS": 90}
        made, worker = make_record(attempt=4, payload={"title": "Büro"}), make_worker()
        assert claimed_ids(limit=0) == claimed_ids(limit=-1) == []
        [claimed] = claiming.claim("default", worker_id=worker.pk, limit=1, now=NOON)
        stored = BacklogRecord.objects.get(pk=made.pk)
        assert (stored.status, claimed.payload) == (Status.RUNNING, {"title": "Büro"})
        assert stored.attempt == claimed.attempt == 5
        assert stored.leased_by_id == claimed.worker_id == worker.pk
        assert stored.lease_token == claimed.lease_token
        assert stored.started_at == claimed.started_at == NOON
        assert stored.lease_expires_at == NOON + timedelta(seconds=90)

    def test_only_ready_records_of_the_queue_are_claimed(self):
        for status in set(Status) - {Status.READY}:
            make_record(status)
        make_record(queue="backups")
        mine = make_record()
        assert claimed_ids() == [mine.pk]

    @pytest.mark.parametrize("lanes", [False, True], ids=["unthrottled", "throttled"])
    def test_a_window_is_half_open_so_nothing_is_claimed_at_the_instant_it_closes(self, lanes):
        lane = make_lane(make_throttle(9)) if lanes else 0
        make_record(closes_at=NOON, lane=lane)
        open_yet = make_record(closes_at=NOON + timedelta(microseconds=1), lane=lane)
        assert claimed_ids() == [open_yet.pk]

    def test_woken_records_of_all_lanes_are_claimed_up_to_a_limit_and_none_whose_window_has_closed(self):
        full = make_throttle(1)
        make_record(Status.RUNNING, lane=make_lane(full))
        make_record()
        make_record(priority=WOKEN, closes_at=NOON)
        woken = {
            make_record(priority=WOKEN, lane=lane).pk for lane in (0, make_lane(full), make_lane(make_throttle(9)))
        }
        worker = make_worker().pk
        taken = [claiming.claim_woken("default", worker_id=worker, limit=2, now=NOON) for _ in range(3)]
        assert list(map(len, taken)) == [2, 1, 0]
        assert {(each.id, each.worker_id) for claimed in taken for each in claimed} == {(pk, worker) for pk in woken}
