"""A record is called runnable if, and only if, a claim at that instant takes it: random states, and real claims."""

import os
import random
from datetime import timedelta

import pytest
from django.db import transaction
from django.test import override_settings

from jobs import claiming
from jobs.conf import queue_rules
from jobs.models import BacklogRecord, Hold, PausedQueue, Throttle, Worker
from jobs.order import KEYS
from jobs.priorities import FIRST_IN_LINE, WOKEN
from jobs.states import Status
from operations.backlog import line
from operations.backlog.reason import Code
from operations.backlog.reasons import explain, is_runnable
from operations.backlog.surroundings import Surroundings
from tests.factories import NOON, build_record, make_lane, make_worker
from tests.jobs.test_claim_order import CACHE_MODES, crowded, plans_of_the_prepared  # noqa: F401 - a fixture
from tests.jobs.throttling.rated import put

pytestmark = pytest.mark.django_db

SECOND = timedelta(seconds=1)
FEEDING = {"QUEUES": {"default": {"concurrency": 4, "feeds": "backups"}, "backups": {"concurrency": 2}}}
MOST = 1000


class _RolledBack(Exception):
    """Ends a savepoint."""


def make_state(rng: random.Random, worker: Worker) -> None:
    """A queue as it may be at noon: throttles that lanes share, records in each status, perhaps a pause."""
    caps = [
        Throttle(
            name=f"{number}", max_in_flight=rng.choice([0, 1, 1, 2, 2, 3, 4]),
            rate=rng.choice([None, None, None, 0.02, 1]),
            burst=rng.choice([None, 1, 3]),
        )
        for number in range(rng.randint(0, 3))
    ]  # fmt: skip
    Throttle.objects.bulk_create(caps)
    for cap in caps:
        put(cap, rng.choice([0, 0.5, 1, 2]), NOON - rng.choice([0, 1, 90]) * SECOND)
    lanes = [0, *(make_lane(*rng.sample(caps, rng.randint(1, len(caps)))) for _ in range(3 if caps else 0))]
    if lanes[1:] and rng.random() < 0.1:
        caps[0].delete()  # its lanes stay
    rows = []
    for _ in range(rng.randint(2, 12)):
        status = rng.choice([Status.READY] * 7 + [Status.RUNNING, Status.WAITING, Status.SUCCEEDED])
        fields = {
            "lane": rng.choice([*lanes, *lanes[1:]]),
            "queue": rng.choice(["default"] * 5 + ["backups"]),
            "priority": rng.choice([0, 0, 1, FIRST_IN_LINE, WOKEN]),
            "rank_day": rng.choice([None, NOON.date(), NOON.date() - timedelta(days=1)]),
            "tried_at": rng.choice([None, NOON, NOON - SECOND]),
            "expected_seconds": rng.choice([None, 0.0, 0.5, 60.0]),
            "closes_at": rng.choice([None, None, NOON, NOON + SECOND]),
        }
        rows.append(build_record(status, worker=worker, **fields))
    BacklogRecord.objects.bulk_create(rows)
    if rng.random() < 0.05:
        PausedQueue.objects.create(name=rng.choice(["default", "elsewhere"]))
    if rng.random() < 0.03:
        Hold.objects.create(reason="moving", by="ann")


def claimed(queue: str, worker: Worker) -> set[int]:
    """What claims take of a queue at noon: of one that feeds another also what was woken."""
    feeds = queue in queue_rules() and queue_rules()[queue].feeds
    found: set[int] = set()
    for claim in (claiming.claim, claiming.claim_woken)[: 2 if feeds else 1]:
        try:
            with transaction.atomic():
                found |= {record.id for record in claim(queue, worker_id=worker.pk, limit=MOST, now=NOON)}
                raise _RolledBack
        except _RolledBack:
            pass
    return found


def compare(states: int, seed: int) -> tuple[int, int]:
    """Returns how many ready records were looked at, and how many of them a claim took."""
    worker, looked_at, taken = make_worker(queues={"default": 9}, heartbeat_at=NOON), 0, 0
    for number in range(states):
        rng = random.Random(f"{seed}-{number}")
        try:
            with transaction.atomic(), override_settings(JOBS=FEEDING if rng.random() < 0.4 else {}):
                make_state(rng, worker)
                ready = list(BacklogRecord.objects.ready().order_by("pk"))
                around = Surroundings(ready, NOON)
                said = {each.pk for each in ready if is_runnable(each, around, line.line_of(each, NOON))}
                found = {pk for queue in {each.queue for each in ready} for pk in claimed(queue, worker)}
                assert said == found, f"{seed}-{number}: said {sorted(said)}, claimed {sorted(found)}"
                looked_at, taken = looked_at + len(ready), taken + len(found)
                raise _RolledBack
        except _RolledBack:
            pass
    return looked_at, taken


def test_runnable_is_said_iff_a_claim_takes_it():
    looked_at, taken = compare(60, seed=32)
    assert looked_at > 150
    assert 0.2 < taken / looked_at < 0.8


@pytest.mark.slow
def test_the_same_of_many_states():
    compare(int(os.environ.get("BACKUPSCHED_EXPLAIN_STATES", "1500")), seed=1)


def test_the_line_before_a_record_is_read_from_the_index_of_the_claim_order_alone(crowded):  # noqa: F811
    last = BacklogRecord.objects.ready().filter(queue="default", lane=0).in_claim_order().last()
    lanes = {"lanes": [0, 1, 2], "most": [3_000] * 3, "shown": [9] * 3, "now": NOON, "queue": "default"}
    values = lanes | {key: getattr(last, key) for key in KEYS}
    for sql in (line.before(last), line.HEADS, line.IN_QUEUE):
        for cache_mode in CACHE_MODES:
            plan = plans_of_the_prepared(sql, values, cache_mode)
            assert "Index Scan using backlog_claim_order" in plan, plan
            assert not any(word in plan for word in ("Seq Scan on jobs_backlogrecord", "Bitmap", "Sort")), plan


def test_what_is_woken_is_asked_whatever_its_throttle_says():
    cap = Throttle.objects.create(name="full", max_in_flight=0)
    record = build_record(lane=make_lane(cap), priority=WOKEN)
    record.save()
    with override_settings(JOBS=FEEDING):
        assert explain(record, NOON).runnable
    found = explain(record, NOON)
    assert (found.runnable, Code.THROTTLED in {each.code for each in found.reasons}) == (False, True)
