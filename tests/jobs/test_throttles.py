"""Caps on records in flight, which hold exactly."""

import threading
from collections import Counter
from datetime import date, timedelta

import pytest
from django.db import IntegrityError

from jobs import claiming, rescuing, settling, throttles, wakeups
from jobs.models import BacklogRecord, Lane, PausedQueue, Throttle
from jobs.outcomes import Failed, Released, Succeeded
from tests.factories import NOON, claim_ready, make_lane, make_record, make_throttle, make_worker
from tests.threads import another_connection, at_once

pytestmark = pytest.mark.django_db(transaction=True)

LATER = NOON + timedelta(minutes=1)


class TestCap:
    def test_holds_exactly_for_eight_claimers_over_two_lanes_until_all_have_run(self):
        shared, own = make_throttle(5), make_throttle(3)
        lanes = [make_lane(shared), make_lane(shared, own)]
        for number in range(60):
            make_record(lane=lanes[number % 2])
        workers = [make_worker().pk for _ in range(8)]
        peaks, finished = Counter(), []
        counting = threading.Lock()

        def in_flight() -> Counter[str]:
            running = list(BacklogRecord.objects.running().values_list("lane", flat=True))
            return Counter(shared=len(running), own=running.count(lanes[1]))

        def work(worker_id: int) -> None:
            held: list[claiming.ClaimedRecord] = []
            while BacklogRecord.objects.unfinished().exists():
                held += claiming.claim("default", worker_id=worker_id, limit=3, now=NOON)
                now_running = in_flight()
                with counting:
                    peaks.update({name: max(0, count - peaks[name]) for name, count in now_running.items()})
                if held:
                    ended = held.pop(0)
                    settling.settle([(ended, Succeeded())], now=LATER)
                    finished.append(ended.id)

        at_once(*[lambda worker_id=worker_id: work(worker_id) for worker_id in workers])
        assert peaks == {"shared": 5, "own": 3}
        assert len(finished) == len(set(finished)) == 60

    def test_counts_what_runs_already_in_any_queue_for_any_worker(self):
        lane = make_lane(make_throttle(3))
        for queue in ("backups", "default", "default", "default"):
            make_record(lane=lane, queue=queue)
        assert len(claim_ready(queue="backups")) == 1
        assert len(claim_ready()) == 2
        assert claim_ready() == []

    def test_a_source_that_is_only_asked_whether_it_is_there_takes_no_place(self):
        lane = make_lane(make_throttle(2))
        for _ in range(3):
            make_record(lane=lane, queue="availability")
        assert len(claim_ready(queue="availability")) == 3
        for _ in range(3):
            make_record(lane=lane, queue="backups")
        assert len(claim_ready(queue="backups")) == 2
        assert claim_ready(queue="backups") == []

    def test_no_more_than_half_as_many_again_as_a_throttle_lets_through_are_asked(self):
        full, roomy = make_lane(make_throttle(2)), make_lane(make_throttle(9))
        for queue in ("backups", "backups", "availability", "availability"):
            make_record(lane=full, queue=queue)
        for lane in (roomy, 0):
            make_record(lane=lane, queue="availability")
        assert sorted(record.lane for record in claim_ready(queue="availability")) == sorted([full, roomy, 0])

    @pytest.mark.parametrize("outcome", [Succeeded(), Failed("no"), Released()])
    def test_a_place_is_free_again_once_its_record_is_settled(self, outcome):
        lane = make_lane(make_throttle(1))
        first, second = make_record(lane=lane), make_record(lane=lane)
        [running] = claim_ready()
        assert claim_ready() == []
        settling.settle([(running, outcome)], now=NOON)
        assert [record.id for record in claim_ready()] == [first.pk if isinstance(outcome, Released) else second.pk]

    def test_a_dead_workers_place_stays_taken_until_its_lease_is_rescued(self):
        lane = make_lane(make_throttle(1))
        [first, _] = make_record(lane=lane), make_record(lane=lane)
        claim_ready()
        long_after = NOON + timedelta(days=900)
        assert claim_ready(now=long_after) == []
        assert rescuing.rescue(now=long_after) == 1
        assert claim_ready()[0].id != first.pk

    def test_may_be_lowered_below_what_runs(self):
        cap = make_throttle(3)
        lane = make_lane(cap)
        for _ in range(6):
            make_record(lane=lane)
        running = claim_ready()
        Throttle.objects.filter(pk=cap.pk).update(max_in_flight=1)
        settling.settle([(running[0], Succeeded())], now=NOON)
        assert claim_ready() == []
        settling.settle([(record, Succeeded()) for record in running[1:]], now=NOON)
        assert len(claim_ready()) == 1


class TestOrder:
    def test_gives_the_places_of_a_shared_throttle_to_the_first_in_order(self):
        shared = make_throttle(2)
        one, two = make_lane(shared), make_lane(shared, make_throttle(9))
        days = [(one, 3), (two, 1), (one, 2), (two, 4)]
        records = {day: make_record(lane=lane, rank_day=date(2026, 3, day)).pk for lane, day in days}
        assert [record.id for record in claim_ready()] == [records[1], records[2]]

    def test_a_full_lane_holds_up_no_other(self):
        full = make_lane(make_throttle(1))
        for _ in range(20):
            make_record(lane=full, priority=100)
        others = [make_record().pk for _ in range(3)]
        assert [record.id for record in claim_ready(limit=4)][1:] == others
        make_record()
        assert len(claim_ready(limit=4)) == 1

    def test_what_is_locked_in_one_lane_gives_its_place_to_another_and_no_more_than_were_asked_for_are_claimed(self):
        lanes = [make_lane(make_throttle(9)) for _ in range(3)]
        locked, second, third, *_ = (make_record(lane=lanes[min(at, 2)], priority=9 - at) for at in range(5))
        with another_connection() as other:
            other.execute("SELECT FROM jobs_backlogrecord WHERE id = %s FOR UPDATE", [locked.pk])
            assert [record.id for record in claim_ready(limit=2)] == [second.pk, third.pk]


class TestPausedQueue:
    @pytest.mark.parametrize("throttled", [False, True])
    def test_gives_nothing_until_it_is_resumed(self, throttled):
        record = make_record(lane=make_lane(make_throttle(3)) if throttled else 0)
        other = make_record(queue="backups")
        PausedQueue.objects.create(name="default")
        assert claim_ready() == []
        assert claim_ready() == []  # the second one remembers what kind of queue it is
        assert [record.id for record in claim_ready(queue="backups")] == [other.pk]
        PausedQueue.objects.all().delete()
        assert [record.id for record in claim_ready()] == [record.pk]


class TestRoom:
    @pytest.fixture
    def heard(self, monkeypatch):
        """The notifications for the worker of this process and for others."""
        here, elsewhere = [], []
        monkeypatch.setattr(wakeups, "room_here", here.append)
        monkeypatch.setattr(wakeups, "_send", lambda *message: elsewhere.append(message))
        return here, elsewhere

    @pytest.mark.parametrize("outcome", [Succeeded(), Failed("no")])
    def test_that_a_settle_makes_is_announced_for_each_throttle_of_its_lane(self, heard, outcome):
        caps = [make_throttle(1), make_throttle(1)]
        make_record(lane=make_lane(*caps))
        [record] = claim_ready()
        settling.settle([(record, outcome)], now=LATER)
        make_record()
        settling.settle([(claim_ready()[0], Succeeded())], now=LATER)  # no throttle: nothing is announced
        here, elsewhere = heard
        ids = {cap.pk for cap in caps}
        assert here == [ids]
        assert [(channel, set(map(int, payload.split(",")))) for channel, payload in elsewhere] == [
            (wakeups.ROOM_CHANNEL, ids)
        ]


class TestLane:
    def test_is_the_same_for_the_same_throttles_in_any_order_and_made_at_once(self):
        first, second = make_throttle(1), make_throttle(1)
        assert make_lane(first, second) == make_lane(second, first) == make_lane(first, second, first)
        assert len({make_lane(first), *at_once(*[lambda: make_lane(second)] * 4)}) == 2
        assert throttles.lane_of([]) == 0
        with pytest.raises(IntegrityError, match="lane_zero_has_no_row"):
            Lane.objects.create(throttle_ids=[])
