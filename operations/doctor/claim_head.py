"""What a claim really reads: the head of `backlog_claim_order`, measured.

`n_dead_tup` of the statistics says how many row versions are dead, but not where. What matters is how many of them lie
before the first ready record, since every claim passes over those. So the claim's own inner SELECT is run for each
queue and lane, without FOR UPDATE, and the buffers that it touched are set against what as many live rows need.

A scan marks what is dead to everybody, so it is passed over but once. Finding the queues does that; what the
measurement then still meets, every claim meets.
"""

import json
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.backends.utils import CursorWrapper
from django.db.utils import OperationalError
from psycopg.errors import QueryCanceled

from jobs.models import BacklogRecord
from jobs.states import Status
from operations.doctor.asking import STATEMENT_SECONDS, row, rows
from operations.doctor.finding import Finding, listed, ok, problem, warning

BATCH = 100
"""Of the order of what a busy worker claims at once."""
BUFFERS_PER_ROW = 2
"""One for the row and, with room to spare, its part of the index page."""
BUFFERS_OF_A_DESCENT = 20
"""From the root of the index to its leaf: three or four pages; the rest is what the planner looks up."""
WARN_BUFFERS = 1_000
"""In vain, for one claim: 8 MB of memory, a millisecond or so, as much as the claim itself takes."""
PROBLEM_BUFFERS = 10_000
"""In vain: tens of milliseconds a claim, so a handful of workers keep a processor busy with nothing."""
MOST_LANES = 50

# One descent of `backlog_claim_order` for each queue and lane, however many records they hold.
READY_LANES = f"""
WITH RECURSIVE place AS (
    (SELECT queue, lane
       FROM jobs_backlogrecord
      WHERE status = {Status.READY}
      ORDER BY queue, lane
      LIMIT 1)
 UNION ALL
    SELECT next.queue, next.lane
      FROM place
     CROSS JOIN LATERAL (
           SELECT queue, lane
             FROM jobs_backlogrecord
            WHERE status = {Status.READY} AND (queue, lane) > (place.queue, place.lane)
            ORDER BY queue, lane
            LIMIT 1) AS next
)
SELECT queue, lane FROM place LIMIT {MOST_LANES}
"""

# A planner that finds a small table not worth an index must not count: the claim is measured as its index serves it.
BY_INDEX = "SET LOCAL enable_sort = off"

STATISTICS = """
SELECT n_live_tup, n_dead_tup, GREATEST(last_vacuum, last_autovacuum)
  FROM pg_stat_user_tables
 WHERE relid = 'jobs_backlogrecord'::regclass
"""

DO = (
    "see the finding horizon: what it names keeps them; then VACUUM (VERBOSE) jobs_backlogrecord; if it comes back, "
    "see table_settings, and let autovacuum look more often (autovacuum_naptime = 10s)"
)


def claim_head(cursor: CursorWrapper, now: datetime) -> Finding:
    """How many buffers a claim reads in vain, in the worst queue and lane."""
    cursor.execute(BY_INDEX)
    live, dead, vacuumed_at = row(cursor, STATISTICS)
    about = {"n_live_tup": live, "n_dead_tup": dead, "last_vacuum": vacuumed_at and vacuumed_at.isoformat()}
    when = f"last vacuum {vacuumed_at:%Y-%m-%d %H:%M} UTC" if vacuumed_at else "never vacuumed"
    last = f"{dead:,} dead rows in all, {when}"
    try:
        with transaction.atomic():
            heads = [_measured(queue, lane, now) for queue, lane in rows(cursor, READY_LANES)]
    except OperationalError as error:
        if not isinstance(error.__cause__, QueryCanceled):
            raise
        what = f"the head of the claim index could not be read within {STATEMENT_SECONDS} s; {last}"
        return problem("claim_head", what, DO, **about)
    return _judged(heads, last, about)


def _measured(queue: str, lane: int, now: datetime) -> dict[str, Any]:
    head = BacklogRecord.objects.ready().filter(queue=queue, lane=lane).open_at(now).in_claim_order()
    explained = head.values("pk")[:BATCH].explain(format="json", analyze=True, buffers=True, timing=False)
    plan = json.loads(explained)[0]
    top = plan["Plan"]
    nodes = list(_nodes(top))
    found = int(top["Actual Rows"])
    skipped = sum(int(node.get("Rows Removed by Filter", 0)) for node in nodes)
    buffers = int(top["Shared Hit Blocks"]) + int(top["Shared Read Blocks"])
    expected = BUFFERS_OF_A_DESCENT + BUFFERS_PER_ROW * (found + skipped)
    return {
        "queue": queue,
        "lane": lane,
        "rows": found,
        "buffers": buffers,
        "in_vain": max(0, buffers - expected),
        "milliseconds": round(float(plan["Execution Time"]), 3),
        "sorts": any("Sort" in node["Node Type"] for node in nodes),
    }


def _nodes(node: dict[str, Any]) -> list[dict[str, Any]]:
    return [node, *(deeper for child in node.get("Plans", []) for deeper in _nodes(child))]


def _judged(heads: list[dict[str, Any]], last: str, about: dict[str, Any]) -> Finding:
    about = {**about, "heads": heads}
    if any(head["sorts"] for head in heads):
        what = "a claim cannot read backlog_claim_order in order: it reads and sorts a whole queue"
        return problem("claim_head", what, "see the finding schema, which says how to make that index again", **about)
    worst = sorted(heads, key=lambda head: -int(head["in_vain"]))
    over = [head for head in worst if head["in_vain"] >= WARN_BUFFERS]
    if not over:
        most = worst[0]["in_vain"] if worst else 0
        return ok("claim_head", f"a claim reads at most {most:,} buffers in vain; {last}", **about)
    make = problem if over[0]["in_vain"] >= PROBLEM_BUFFERS else warning
    return make("claim_head", f"{listed([_described(head) for head in over])}; {last}", DO, **about)


def _described(head: dict[str, Any]) -> str:
    where = f"queue {head['queue']}" + (f" lane {head['lane']}" if head["lane"] else "")
    return (
        f"a claim from {where} reads {head['buffers']:,} buffers for {head['rows']} records "
        f"({head['milliseconds']:.0f} ms), {head['in_vain']:,} of them for dead rows"
    )
