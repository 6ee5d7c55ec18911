"""What waits is made ready: when its time has come (`tick`), by a sweep (`retries/`), by a breaker (`breakers/`)."""

from typing import Any

from jobs.prepared import execute
from jobs.states import Status
from jobs.wakeups import notify


def statement(which: str, order: str, *, key: str = "id", run_after: str = "%(now)s::timestamptz") -> str:
    """For `make_ready`: up to `limit` records of which `which` is true and that wait, the first in `order`.

    What others hold locked is skipped. The exclusive key of a gate that one waited behind is dropped: it asks again.
    `key`: "ctid" is quicker, and drops out what another transaction has just moved; for what is met again at once.
    """
    return f"""
UPDATE jobs_backlogrecord
   SET status = {Status.READY}, waiting_for = NULL, breaker_id = NULL, exclusive_key = NULL, run_after = {run_after}
 WHERE {key} = ANY(ARRAY(
       SELECT {key}
         FROM jobs_backlogrecord
        WHERE status = {Status.WAITING} AND {which}
        ORDER BY {order}
        LIMIT %(limit)s::int
          FOR UPDATE SKIP LOCKED))
RETURNING id, queue
"""


def make_ready(sql: str, values: dict[str, Any]) -> list[int]:
    """Do what `sql`, a `statement`, says, and wake the workers of these queues. Returns the ids of the records."""
    rows = execute(sql, values).fetchall()
    for queue in {queue for _, queue in rows}:
        notify(queue)
    return [record_id for record_id, _ in rows]
