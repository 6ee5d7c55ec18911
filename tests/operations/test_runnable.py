"""A record is called runnable if, and only if, a claim at that instant takes it: random states, and real claims."""

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.test import override_settings

from jobs import claiming, throttles
from jobs.conf import queue_rules
from jobs.models import BacklogRecord, Breaker, Hold, PausedQueue, Throttle, Worker
from jobs.order import KEYS
from jobs.priorities import FIRST_IN_LINE, WOKEN
from jobs.states import Status, WaitingFor
from operations.backlog import line
from operations.backlog.reason import Code
from operations.backlog.reasons import explain, is_runnable
from operations.backlog.surroundings import Surroundings
from tests.factories import NOON, build_record, make_lane, make_worker
from tests.jobs import claim_plans
from tests.jobs.claim_plans import CACHE_MODES, plans_of_the_prepared

crowded = claim_plans.crowded

pytestmark = pytest.mark.django_db

SECOND = timedelta(seconds=1)
FEEDING = {"QUEUES": {"default": {"concurrency": 4, "feeds": "backups"}, "backups": {"concurrency": 2}}}
MOST = 1000
AT_ONCE = 40
"""States in one transaction: each has throttles and lanes of its own, so none is in the way of another."""


@contextmanager
def rolled_back() -> Iterator[None]:
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


class States:
    """Backlogs as they may be at noon: throttles that lanes share, records in each status, perhaps a pause."""

    def __init__(self, seeds: list[str], worker: Worker) -> None:
        self._worker, rng = worker, random.Random(seeds[0])
        self._rngs = {number: random.Random(seed) for number, seed in enumerate(seeds)}
        self._breaker = Breaker.objects.create(key="host:a", title="a", failures=3, opened_at=NOON, probe_at=NOON)
        caps = {number: self._caps(number, each) for number, each in self._rngs.items()}
        lanes = self._lanes(caps)
        of_each = {number: list(self._records(number, lanes[number])) for number in self._rngs}
        self.records = BacklogRecord.objects.bulk_create([record for found in of_each.values() for record in found])
        ready = {number: [each for each in found if each.status == Status.READY] for number, found in of_each.items()}
        # one of each state: a second one costs as much again, and is seen in another state
        self.asked = [self._rngs[number].choice(found) for number, found in ready.items() if found]
        if rng.random() < 0.05:
            PausedQueue.objects.create(name=rng.choice(["default", "backups", "elsewhere"]))
        if rng.random() < 0.03:
            Hold.objects.create(reason="moving", by="ann")

    def _caps(self, number: int, rng: random.Random) -> list[Throttle]:
        return [
            Throttle(
                name=f"{number}/{each}", max_in_flight=rng.choice([0, 1, 1, 2, 2, 3, 4]),
                rate=rng.choice([None, None, None, 0.02, 1]), burst=rng.choice([None, 1, 3]),
            )
            for each in range(rng.randint(0, 3))
        ]  # fmt: skip

    def _lanes(self, caps: dict[int, list[Throttle]]) -> dict[int, list[int]]:
        """The lanes of each state, 0 among them. One throttle of ten is gone, and its lanes stay."""
        Throttle.objects.bulk_create([cap for found in caps.values() for cap in found])
        for number, found in caps.items():
            rng = self._rngs[number]
            for cap in found:  # by an instant in the future, the clock has been set back
                cap.tokens, cap.tokens_at = rng.choice([0, 0.5, 1, 2]), NOON - rng.choice([-60, 0, 1, 90]) * SECOND
        Throttle.objects.bulk_update([cap for found in caps.values() for cap in found], ["tokens", "tokens_at"])
        keys = {
            number: [
                throttles.key_of(
                    cap.pk for cap in self._rngs[number].sample(found, self._rngs[number].randint(1, len(found)))
                )
                for _ in range(3 if found else 0)
            ]
            for number, found in caps.items()
        }
        made = throttles.lanes_of(key for found in keys.values() for key in found)
        gone = [found[0].pk for number, found in caps.items() if found and self._rngs[number].random() < 0.1]
        Throttle.objects.filter(pk__in=gone).delete()
        return {number: [0, *(made[key] for key in found)] for number, found in keys.items()}

    def _records(self, number: int, lanes: list[int]) -> Iterator[BacklogRecord]:
        rng = self._rngs[number]
        for each in range(rng.randint(2, 10)):
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
            if status == Status.WAITING:  # what time has already ended is ready only after a tick
                fields |= self._wait(rng, number)
            elif status in (Status.READY, Status.RUNNING):
                fields["exclusive_key"] = rng.choice([None, f"{number}/{each}"])
            yield build_record(status, worker=self._worker, **fields)

    def _wait(self, rng: random.Random, number: int) -> dict[str, object]:
        waits = {"waiting_for": rng.choice(list(WaitingFor)), "run_after": NOON + rng.choice([-1, 0, 60]) * SECOND}
        if waits["waiting_for"] == WaitingFor.BREAKER:
            return waits | {"breaker": self._breaker}
        return waits | {"exclusive_key": rng.choice([None, f"{number}/0"])}

    def claimed(self) -> set[int]:
        """The records that claims take at noon, each queue by itself: of one that feeds another also what was woken."""
        claims = [(claiming.claim, "default"), (claiming.claim, "backups")]
        claims += [(claiming.claim_woken, name) for name, rule in queue_rules().items() if rule.feeds]
        found: set[int] = set()
        for claim, queue in claims:
            with rolled_back():
                found |= {record.id for record in claim(queue, worker_id=self._worker.pk, limit=MOST, now=NOON)}
        return found


def compare(states: int, seed: int) -> tuple[int, int]:
    """Returns the number of ready records that were looked at, and of those that a claim took."""
    worker, looked_at, taken = make_worker(queues={"default": 9}, heartbeat_at=NOON), 0, 0
    for first in range(0, states, AT_ONCE):
        seeds, rng = [f"{seed}-{number}" for number in range(first, min(first + AT_ONCE, states))], random.Random(first)
        with rolled_back(), override_settings(JOBS=FEEDING if rng.random() < 0.4 else {}):
            made = States(seeds, worker)
            around, lines = Surroundings(made.asked, NOON), line.lines_of(made.asked, NOON)
            said = {each.pk for each in made.asked if is_runnable(each, around, lines[each.pk])}
            claimed = made.claimed()
            apart = said ^ claimed & {each.pk for each in made.asked}
            assert not apart, f"{seeds[0]} and on: said {sorted(said)}, claimed {sorted(claimed)}: {sorted(apart)}"
            one = rng.choice(made.records)
            assert explain(one, NOON).runnable == (one.pk in claimed), f"{seeds[0]} and on: {one.pk}"
            looked_at, taken = looked_at + len(made.asked), taken + len(said)
    return looked_at, taken


def test_runnable_is_said_iff_a_claim_takes_it():
    looked_at, taken = compare(500, seed=32)
    assert looked_at > 450
    assert 0.2 < taken / looked_at < 0.8


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_the_same_of_many_states():
    compare(int(os.environ.get("BACKUPSCHED_EXPLAIN_STATES", "20000")), seed=1)


def test_the_line_before_a_record_is_read_from_the_index_of_the_claim_order_alone(crowded):
    last = BacklogRecord.objects.ready().filter(queue="default", lane=0).in_claim_order().last()
    lanes = {"lanes": [0, 1, 2], "most": [3_000] * 3, "shown": [9] * 3, "now": NOON, "queue": "default"}
    values = lanes | {key: getattr(last, key) for key in KEYS}
    # older servers take a bitmap for a range that is shorter than the bound of the count, and read no more than that
    unwanted = ("Seq Scan on jobs_backlogrecord", *(("Bitmap", "Sort") if connection.pg_version >= 180000 else ()))
    for sql in (line.before(last), line.HEADS, line.IN_QUEUE):
        for cache_mode in CACHE_MODES:
            plan = plans_of_the_prepared(sql, values, cache_mode)
            assert "Index Scan using backlog_claim_order" in plan, plan
            assert not any(word in plan for word in unwanted), plan


def test_what_is_woken_is_asked_whatever_its_throttle_says():
    cap = Throttle.objects.create(name="full", max_in_flight=0)
    record = build_record(lane=make_lane(cap), priority=WOKEN)
    record.save()
    with override_settings(JOBS=FEEDING):
        assert explain(record, NOON).runnable
    found = explain(record, NOON)
    assert (found.runnable, Code.THROTTLED in {each.code for each in found.reasons}) == (False, True)
