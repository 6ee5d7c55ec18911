"""Makes waiting records ready: when their time has come (`tick`), by a sweep (`sweeps`), by a breaker (`breakers/`)."""

from typing import Any

from jobs.prepared_statements import execute
from jobs.states import Status
from jobs.wakeups import notify


def statement(which: str, order: str, *, key: str = "id", run_after: str = "%(now)s::timestamptz") -> str:
    """The statement of `make_ready`: up to `limit` waiting records of which `which` is true, the first in `order`.

    Records that others hold locked are skipped. A record that waited behind a gate loses its exclusive key: its next
    handoff asks for it again. `key`: "ctid" is faster, and misses rows that another transaction has just moved, so it
    is for rows that the next call finds again.
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
    """Run `sql`, a `statement`, and wake the workers of these queues. Returns the ids of the records."""
    rows = execute(sql, values).fetchall()
    for queue in {queue for _, queue in rows}:
        notify(queue)
    return [record_id for record_id, _ in rows]
