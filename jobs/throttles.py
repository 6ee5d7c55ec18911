"""Caps on records in flight, shared by any number of schedules: exact across processes and hosts.

Counting and claiming in one statement overshoots, since a statement sees one snapshot. So, in one transaction but in
separate statements: lock the throttles in id order, then count what runs and take at most the remainder. Whoever comes
second waits at the lock and counts what the first one took. The three parts of the transaction go to the server in one
trip, so a lock is held for no longer than the server takes.

Only records that name a throttle pay for this, and a full throttle costs a claim one look at its lanes.
"""

from collections.abc import Sequence
from typing import Any

from django.db import connection, transaction

from jobs import conf
from jobs.lease_statements import CLAIM_CAPPED, LOCK_THROTTLES, READY_LANES
from jobs.models import Lane
from jobs.prepared import execute

Rows = list[tuple[Any, ...]]


def lane_of(throttle_ids: list[int]) -> int:
    """The lane of the records that name these throttles, made at its first use. 0: none."""
    wanted = sorted(set(throttle_ids))
    if not wanted:
        return 0
    lane, _ = Lane.objects.get_or_create(throttle_ids=wanted)
    return int(lane.pk)


def ready_lanes(queue: str) -> list[tuple[int, list[int], bool]]:
    """The lanes of `queue` that hold ready records: (id, ids of their throttles, whether all of those have room).

    A queue that feeds another is not throttled, the queue that it feeds is: a source that is only asked whether it is
    there is not in flight.
    """
    feeding = conf.feeding_queues()
    return execute(READY_LANES, {"queue": queue, "feeding": feeding, "feeds": queue in feeding}).fetchall()


def claim_capped(values: dict[str, Any], lanes: Sequence[tuple[int, list[int]]]) -> Rows:
    """Claim from lane 0 and `lanes` (id, ids of their throttles) what every throttle lets through.

    Between throttles that a lane shares with others a place may stay free until the next claim; none is ever taken
    twice.
    """
    feeding = conf.feeding_queues()
    feeds = values["queue"] in feeding
    named = sorted({throttle for _, throttles in lanes for throttle in throttles})
    values = {**values, "lanes": [lane for lane, _ in lanes], "throttles": named, "feeding": feeding, "feeds": feeds}
    locks = {"throttles": named}
    if connection.in_atomic_block or not conf.listens():
        with transaction.atomic():
            execute(LOCK_THROTTLES, locks)
            return execute(CLAIM_CAPPED, values).fetchall()
    connection.ensure_connection()
    with connection.wrap_database_errors, connection.connection.pipeline(), connection.connection.transaction():
        execute(LOCK_THROTTLES, locks)
        claimed = execute(CLAIM_CAPPED, values)
    return claimed.fetchall()
