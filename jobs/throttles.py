"""Caps on records in flight, shared by any number of schedules: exact across processes and hosts.

Counting and claiming in one statement overshoots, since a statement sees one snapshot. So, in one transaction but in
separate statements: lock the throttles in id order, count what runs, take at most the remainder. Whoever comes second
waits at the lock and counts what the first one took. Only an installation that has throttled lanes pays for this.
"""

from collections import Counter
from datetime import datetime
from typing import Any

from django.db import connection

from jobs import conf
from jobs.models import Lane, Throttle
from jobs.states import Status

# A source that is only asked whether it is there is not in flight: absent laptops must not fill a cap.
IN_FLIGHT = f"""
SELECT lane, count(*)
  FROM jobs_backlogrecord
 WHERE status = {Status.RUNNING} AND lane <> 0 AND queue <> ALL(%(feeding)s)
 GROUP BY lane
"""

# Per lane the first rows of `backlog_claim_order`; the few keys that come back are ranked across the lanes in Python.
HEADS = f"""
SELECT head.*
  FROM unnest(%(lanes)s::int[]) AS lanes(lane)
 CROSS JOIN LATERAL (
       SELECT id, lane,
              priority, rank_day, tried_at, expected_seconds
         FROM jobs_backlogrecord
        WHERE status = {Status.READY} AND queue = %(queue)s AND lane = lanes.lane
          AND (closes_at IS NULL OR closes_at > COALESCE(%(now)s::timestamptz, clock_timestamp()))
        ORDER BY priority DESC, rank_day ASC NULLS FIRST, tried_at ASC NULLS FIRST,
                 expected_seconds ASC NULLS FIRST, id
        LIMIT %(limit)s
          FOR UPDATE SKIP LOCKED) AS head
"""


def any_lanes() -> bool:
    """Whether any record can be throttled at all."""
    return Lane.objects.exists()


def lane_of(throttle_ids: list[int]) -> int:
    """The lane of the records that name these throttles, made at its first use. 0: none."""
    wanted = sorted(set(throttle_ids))
    if not wanted:
        return 0
    lane, _ = Lane.objects.get_or_create(throttle_ids=wanted)
    return int(lane.pk)


def lock_what_fits(queue: str, limit: int, now: datetime | None) -> list[int]:
    """Lock up to `limit` ready records of `queue` that every throttle lets through. Returns their ids.

    A queue that feeds another is not throttled; the queue that it feeds is.

    To be called in a transaction; the caller claims the ids before it ends.
    """
    throttles_of = {lane.pk: set(lane.throttle_ids) for lane in Lane.objects.all()}
    if queue in conf.feeding_queues():
        return [record_id for _, record_id in _heads(queue, [0, *throttles_of], limit, now)][:limit]
    named = set().union(*throttles_of.values())
    locked = Throttle.objects.filter(pk__in=named).order_by("pk").select_for_update()
    room = {throttle.pk: throttle.max_in_flight for throttle in locked}
    for lane, count in _in_flight().items():
        for throttle_id in throttles_of.get(lane, set()) & set(room):
            room[throttle_id] -= count
    lanes = [0, *(lane for lane, ids in throttles_of.items() if all(room.get(i, 1) > 0 for i in ids))]
    chosen: list[int] = []
    for lane, record_id in _heads(queue, lanes, limit, now):
        named_here = throttles_of.get(lane, set()) & set(room)
        if len(chosen) < limit and all(room[i] > 0 for i in named_here):
            chosen.append(record_id)
            for throttle_id in named_here:
                room[throttle_id] -= 1
    return chosen


def _in_flight() -> Counter[int]:
    with connection.cursor() as cursor:
        cursor.execute(IN_FLIGHT, {"feeding": conf.feeding_queues()})
        return Counter(dict(cursor.fetchall()))


def _heads(queue: str, lanes: list[int], limit: int, now: datetime | None) -> list[tuple[int, int]]:
    """(lane, record id) of the first records of each lane, in claim order across the lanes."""
    with connection.cursor() as cursor:
        cursor.execute(HEADS, {"queue": queue, "lanes": lanes, "limit": limit, "now": now})
        rows = sorted(cursor.fetchall(), key=_claim_key)
    return [(row[1], row[0]) for row in rows]


def _claim_key(row: tuple[Any, ...]) -> tuple[Any, ...]:
    record_id, _, priority, *ranks = row
    return (-priority, *((rank is not None, rank) for rank in ranks), record_id)
