"""How far a queue that feeds another may run ahead of it.

Where `availability` feeds `backups`, a source is asked while the units are short of sources that have answered. Of
those that are asked some are silent, and most that answer do so at once; so as many again are asked every moment, until
enough have answered. Silent ones hold nobody up, and no more sources are asked ahead than units can use soon.
"""

from datetime import datetime
from typing import NamedTuple

from django.db import connection

from jobs import conf
from jobs.states import Status

PATIENCE_SECONDS = 0.1
"""What has not answered by then is taken for silent, and the next one is asked beside it."""

ASKED_PER_PLACE = 2
"""Records asked about at once for each that the units are short of."""

# Each count is served by a partial index and bounded by the number of units, or by the limit. Ready records count as
# far as their throttles have room and tokens: what waits behind a full throttle keeps no unit busy.
SHORTAGE = f"""
WITH alive AS (
    SELECT queues
      FROM jobs_worker
     WHERE stopped_at IS NULL
       AND heartbeat_at > COALESCE(%(now)s::timestamptz, clock_timestamp()) - %(lease)s * interval '1 second'
), units AS (
    SELECT COALESCE(sum((queues ->> %(queue)s)::int), 0) AS all_units,
           count(*) FILTER (WHERE queues ? %(feeder)s) AS feeders
      FROM alive
), running AS (
    SELECT count(*) AS busy FROM jobs_backlogrecord WHERE status = {Status.RUNNING} AND queue = %(queue)s
), waiting AS (
    SELECT lane, count(*) AS count
      FROM (SELECT lane FROM jobs_backlogrecord WHERE status = {Status.READY} AND queue = %(queue)s LIMIT 10000) AS head
     GROUP BY lane
), lane_room AS (
    SELECT l.id AS lane, min(GREATEST(0, throttle.room)) AS room
      FROM waiting
      JOIN jobs_lane l ON l.id = waiting.lane
     CROSS JOIN LATERAL unnest(l.throttle_ids) AS named(id)
      JOIN jobs_room(%(feeding)s, NULL, COALESCE(%(now)s::timestamptz, clock_timestamp()), TRUE) AS throttle
        ON throttle.throttle_id = named.id
     GROUP BY l.id
), ready AS (
    SELECT COALESCE(sum(LEAST(waiting.count, lane_room.room)), 0) AS ready
      FROM waiting
      LEFT JOIN lane_room USING (lane)
)
SELECT (all_units - busy + (all_units + 1) / 2 - ready)::int, feeders FROM units, running, ready
"""


class Shortage(NamedTuple):
    """`missing`: ready records that a queue is short of; `feeders`: workers alive that serve the queue feeding it."""

    missing: int
    feeders: int


def shortage(queue: str, feeder: str = "", now: datetime | None = None) -> Shortage:
    """How many ready records `queue` is short of: its free units plus half of all, less what is ready.

    The units are those of all workers alive: with a heartbeat within the last lease. Zero or less: it has enough, so
    what feeds it need not be claimed.
    """
    values = {"queue": queue, "feeder": feeder, "feeding": conf.feeding_queues(), "now": now}
    with connection.cursor() as cursor:
        cursor.execute(SHORTAGE, {**values, "lease": conf.lease_seconds()})
        return Shortage(*cursor.fetchone())


def to_ask(short: Shortage, asked_lately: int) -> int:
    """How many more records of the feeding queue this worker claims now, `asked_lately` of its own being under way.

    Several workers that serve it share the work.
    """
    share = -(-ASKED_PER_PLACE * short.missing // max(1, short.feeders))
    return max(0, share - asked_lately)
