"""How far a queue that feeds another may run ahead of it."""

from datetime import datetime

from django.db import connection

from jobs import conf
from jobs.states import Status

# Both counts are served by partial indexes and bounded by the number of units.
SHORTAGE = f"""
WITH units AS (
    SELECT COALESCE(sum((queues ->> %(queue)s)::int), 0) AS all_units
      FROM jobs_worker
     WHERE stopped_at IS NULL
       AND heartbeat_at > COALESCE(%(now)s::timestamptz, clock_timestamp()) - %(lease)s * interval '1 second'
), running AS (
    SELECT count(*) AS busy FROM jobs_backlogrecord WHERE status = {Status.RUNNING} AND queue = %(queue)s
), ready AS (
    SELECT count(*) AS waiting
      FROM (SELECT FROM jobs_backlogrecord WHERE status = {Status.READY} AND queue = %(queue)s LIMIT 10000) AS head
)
SELECT all_units - busy + (all_units + 1) / 2 - waiting FROM units, running, ready
"""


def shortage(queue: str, now: datetime | None = None) -> int:
    """How many ready records `queue` is short of: its free units plus half of all, less what is ready.

    The units are those of all workers alive: with a heartbeat within the last lease. Zero or less: it has enough, so
    what feeds it need not be claimed.
    """
    with connection.cursor() as cursor:
        cursor.execute(SHORTAGE, {"queue": queue, "now": now, "lease": conf.lease_seconds()})
        return int(cursor.fetchone()[0])
