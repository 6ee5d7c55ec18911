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


def lane_of(throttle_ids: list[int]) -> int:
    """The lane of the records that name these throttles, made at its first use. 0: none."""
    wanted = sorted(set(throttle_ids))
    if not wanted:
        return 0
    lane, _ = Lane.objects.get_or_create(throttle_ids=wanted)
    return int(lane.pk)


def claim_beside_throttles(values: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Claim up to `limit` records of `queue` that every throttle lets through. `values`: those of `CLAIM`."""
    rule = conf.queue_rules().get(values["queue"])
    feeds = {"feeding": conf.feeding_queues(), "feeds": rule.feeds if rule else None}
    return execute(CLAIM_BESIDE_THROTTLES, {**values, **feeds}).fetchall()
