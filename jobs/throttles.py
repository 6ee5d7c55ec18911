"""Caps on records in flight, shared by any number of schedules: exact across processes and hosts.

Counting and claiming in one statement overshoots, since a statement sees one snapshot. So, in one transaction but in
separate statements: lock the throttles in id order, then count what runs and take at most the remainder. Whoever comes
second waits at the lock and counts what the first one took. This needs READ COMMITTED, PostgreSQL's default.

The statements are those of the function `jobs_claim_beside_throttles` (migrations 0005 and 0008), so the locks are held
for as long as the server takes. It

1. looks, without locks, which throttled lanes of the queue hold ready records and have room; with none that has, lane 0
   is claimed from as in a queue without throttles: a full throttle costs one probe a lane, however much waits for it;
2. locks the throttles of those lanes;
3. counts again, and claims across lane 0 and those lanes in claim order, ranked in each throttle that a record names.
   Between throttles that a lane shares with others a place may stay free until the next claim; none is taken twice.

A queue that feeds another is not throttled, the queue that it feeds is: a source that is only asked whether it is there
is not in flight. But once a throttle's records that run or are ready in the fed queue are half as many again as it lets
through, no more of them are claimed from the feeding queue: who waits behind a full throttle is not asked yet.
"""

from collections.abc import Iterable
from typing import Any

from jobs import conf
from jobs.lease_statements import RECORD_COLUMNS
from jobs.models import Lane
from jobs.prepared import execute

CLAIM_BESIDE_THROTTLES = f"""
SELECT {RECORD_COLUMNS}
  FROM jobs_claim_beside_throttles(
       %(queue)s::text, %(limit)s::int, %(worker)s::bigint, %(token)s::uuid, %(lease)s::float8, %(feeding)s::text[],
       %(feeds)s::text, %(now)s::timestamptz)
"""


def lane_of(throttle_ids: Iterable[int]) -> int:
    """The lane of the records that name these throttles, made at its first use. 0: none."""
    named = key_of(throttle_ids)
    return lanes_of([named])[named]


def key_of(throttle_ids: Iterable[int]) -> tuple[int, ...]:
    """A set of throttles as `lanes_of` names it: ascending, each once."""
    return tuple(sorted(set(throttle_ids)))


def lanes_of(keys: Iterable[tuple[int, ...]]) -> dict[tuple[int, ...], int]:
    """The lanes of any number of sets of throttles (`key_of`), in one question, two more if some are new."""
    wanted = set(keys) - {()}
    lanes = {(): 0, **_found(wanted)}
    if missing := wanted - set(lanes):
        Lane.objects.bulk_create([Lane(throttle_ids=list(key)) for key in sorted(missing)], ignore_conflicts=True)
        lanes |= _found(missing)
    return lanes


def _found(keys: set[tuple[int, ...]]) -> dict[tuple[int, ...], int]:
    if not keys:
        return {}
    found = Lane.objects.filter(throttle_ids__in=[list(key) for key in keys]).values_list("throttle_ids", "pk")
    return {tuple(throttle_ids): lane for throttle_ids, lane in found}


def claim_beside_throttles(values: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Claim up to `limit` records of `queue` that every throttle lets through. `values`: those of `CLAIM`."""
    rule = conf.queue_rules().get(values["queue"])
    feeds = {"feeding": conf.feeding_queues(), "feeds": rule.feeds if rule else None}
    return execute(CLAIM_BESIDE_THROTTLES, {**values, **feeds}).fetchall()
