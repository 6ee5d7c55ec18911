"""What makes claims slow: lost table settings, what keeps dead rows, and how many of them a claim really reads."""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.backends.utils import CursorWrapper
from django.db.utils import OperationalError
from psycopg.errors import QueryCanceled

from declarations.surfaces.finding import (  # fmt: skip
    STATEMENT_SECONDS,
    Answer,
    Finding,
    condition,
    listed,
    ok,
    problem,
    rows,
    settings_of_server,
    warning,
)
from external.durations import span
from jobs.models import BacklogRecord
from jobs.states import Status
from operations.doctor.installation import switch_on

TABLE = "jobs_backlogrecord"
WANTED = {"fillfactor": 80.0, "autovacuum_vacuum_scale_factor": 0.02, "autovacuum_vacuum_cost_delay": 0.0}
"""Upper bounds: less room for updates, or a vacuum that comes later or slower, is what was measured to hurt."""

OPTIONS = """
SELECT split_part(option, '=', 1), split_part(option, '=', 2)
  FROM unnest((SELECT reloptions FROM pg_class WHERE oid = %(table)s::regclass)) AS option
"""

# A table that was never migrated is the finding of others.
SWITCHED_OFF = """
SELECT relname
  FROM pg_class
 WHERE relkind = 'r' AND relname LIKE 'jobs\\_%' AND pg_table_is_visible(oid)
   AND reloptions && ARRAY['autovacuum_enabled=false', 'autovacuum_enabled=off', 'autovacuum_enabled=0']
 ORDER BY relname
"""


@condition("")
def table_settings(cursor: CursorWrapper, now: datetime) -> Answer:
    """Whether autovacuum runs at all, on these tables, and as soon as the backlog needs it."""
    server = settings_of_server(cursor, "autovacuum", "track_counts")
    if off := [name for name, setting in server.items() if setting == "off"]:
        what = f"{' and '.join(off)} off: dead rows pile up, and claims get slower without end"
        return problem(what, switch_on(off), **server)
    if tables := [str(name) for (name,) in rows(cursor, SWITCHED_OFF)]:
        do = " ".join(f"ALTER TABLE {name} RESET (autovacuum_enabled);" for name in tables)
        return problem(f"autovacuum is switched off for {', '.join(tables)}: dead rows pile up", do, tables=tables)
    options = dict(rows(cursor, OPTIONS, table=TABLE))
    lost = {name: most for name, most in WANTED.items() if float(options.get(name, "inf")) > most}
    if not lost:
        return ok(f"{TABLE} has its settings, and autovacuum runs", **options)
    wrong = [f"{name} is {options.get(name, 'not set')} instead of {most:g}" for name, most in lost.items()]
    do = f"ALTER TABLE {TABLE} SET ({', '.join(f'{name} = {most:g}' for name, most in lost.items())});"
    return warning(f"{TABLE}: {listed(wrong)}: dead rows stay for longer than they should", do, **options)


WARN_SECONDS, PROBLEM_SECONDS = 300, 3600
"""A page or a report is done by the first; at thousands of claims a second each then passes over a million dead rows.
A dump of a large database may take as long as the second; what takes longer was forgotten."""
WARN_TRANSACTIONS, PROBLEM_TRANSACTIONS = 100_000, 1_000_000
"""Each batch that a busy worker claims or settles is one transaction of up to hundreds of rows."""

# Sessions of this database, and of none: a standby with hot_standby_feedback. What VACUUM itself sees pins nothing.
HOLDERS = """
SELECT 'session', 'pid ' || pid, usename::text, application_name, state,
       EXTRACT(EPOCH FROM %(now)s - xact_start)::float8 AS seconds,
       GREATEST(age(backend_xmin), age(backend_xid)) AS transactions,
       left(regexp_replace(query, '\\s+', ' ', 'g'), 80)
  FROM pg_stat_activity
 WHERE (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)
   AND pid <> pg_backend_pid()
   AND (datname = current_database() OR datname IS NULL)
   AND pid NOT IN (SELECT pid FROM pg_stat_progress_vacuum)
UNION ALL
SELECT 'prepared transaction', gid, owner::text, '', 'prepared', EXTRACT(EPOCH FROM %(now)s - prepared)::float8,
       age(transaction), ''
  FROM pg_prepared_xacts
 WHERE database = current_database()
UNION ALL
SELECT 'replication slot', slot_name::text, '', COALESCE(plugin, slot_type)::text,
       CASE WHEN active THEN 'active' ELSE 'inactive' END, NULL, age(xmin), ''
  FROM pg_replication_slots
 WHERE xmin IS NOT NULL
 ORDER BY transactions DESC, seconds DESC NULLS LAST
 LIMIT 20
"""
HOLDER = ("kind", "holder", "user", "application", "state", "seconds", "transactions", "query")

DO_ABOUT = {
    "session": "end it if it is not needed: SELECT pg_terminate_backend({pid}); and give its role an "
    "idle_in_transaction_session_timeout",
    "prepared transaction": "COMMIT PREPARED or ROLLBACK PREPARED '{holder}', as its owner decides",
    "replication slot": "bring its standby back, or SELECT pg_drop_replication_slot('{holder}')",
}


@condition("")
def horizon(cursor: CursorWrapper, now: datetime) -> Answer:
    """Whether an old snapshot, a prepared transaction or a replication slot pins the xmin horizon.

    A claimed record leaves a dead row version at the head of the claim index. As long as a snapshot may still see it,
    neither vacuum nor the scans themselves can take it away, and every claim passes over all of them.
    """
    return judge_holders([dict(zip(HOLDER, found, strict=True)) for found in rows(cursor, HOLDERS, now=now)])


def judge_holders(holders: list[dict[str, Any]]) -> Finding:
    old = [holder for holder in holders if _is_over(holder, WARN_SECONDS, WARN_TRANSACTIONS)]
    if not old:
        oldest = max((holder["seconds"] or 0.0 for holder in holders), default=0.0)
        return ok(f"no snapshot is old (the oldest: {span(max(oldest, 0))})", oldest_seconds=oldest)
    bad = [holder for holder in old if _is_over(holder, PROBLEM_SECONDS, PROBLEM_TRANSACTIONS)]
    worst = (bad or old)[0]
    name = worst["holder"].replace("'", "''")
    what = f"dead rows cannot be removed, so claims get slower: {listed([_describe(holder) for holder in old], 3)}"
    do = DO_ABOUT[worst["kind"]].format(holder=name, pid=name.removeprefix("pid "))
    return (problem if bad else warning)(what, do, holders=old)


def _is_over(holder: dict[str, Any], seconds: float, transactions: int) -> bool:
    age, behind = holder["seconds"], holder["transactions"]
    return (isinstance(age, float) and age >= seconds) or (isinstance(behind, int) and behind >= transactions)


def _describe(holder: dict[str, Any]) -> str:
    facts = (
        span(holder["seconds"]),
        f"{holder['transactions']:,} transactions",
        holder["state"],
        holder["user"] and f"user {holder['user']}",
        holder["application"],
        holder["query"] and f"query {holder['query']!r}",
    )
    return f"{holder['kind']} {holder['holder']} ({', '.join(fact for fact in facts if fact)})"


BATCH = 100
"""Of the order of what a busy worker claims at once."""
BUFFERS_PER_ROW = 2
"""One for the row and, with room to spare, its part of the index page."""
BUFFERS_OF_A_DESCENT = 20
"""From the root of the index to its leaf: three or four pages; the rest is what the planner looks up."""
WARN_BUFFERS, PROBLEM_BUFFERS = 1_000, 10_000
"""That one claim reads for nothing: 8 MB of memory, a millisecond or so, as much as the claim itself takes; and tens of
milliseconds a claim, so a handful of workers keep a processor busy with nothing."""

# One descent of `backlog_claim_order` for each queue and lane, however many records they hold.
READY_LANES = f"""
WITH RECURSIVE place AS (
    (SELECT queue, lane FROM jobs_backlogrecord WHERE status = {Status.READY} ORDER BY queue, lane LIMIT 1)
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
SELECT queue, lane FROM place LIMIT 50
"""

STATISTICS = f"""
SELECT n_live_tup, n_dead_tup, GREATEST(last_vacuum, last_autovacuum)
  FROM pg_stat_user_tables
 WHERE relid = '{TABLE}'::regclass
"""

VACUUM = (
    "see the finding horizon: what it names keeps them; then VACUUM (VERBOSE) jobs_backlogrecord; if it comes back, "
    "see table_settings, and let autovacuum look more often (autovacuum_naptime = 10s)"
)


@condition("")
def claim_head(cursor: CursorWrapper, now: datetime) -> Answer:
    """How many buffers a claim reads for nothing, in the worst queue and lane.

    `n_dead_tup` of the statistics says how many row versions are dead, but not where. What matters is how many of them
    lie before the first ready record. So the claim's own inner SELECT is run for each queue and lane, without FOR
    UPDATE, and the buffers that it touched are set against what as many live rows need. A scan marks what is dead to
    all, so it is skipped from then on: finding the queues does that; what is then still met, every claim meets.
    """
    # a planner that finds a small table not worth an index must not count: the claim is measured as its index serves it
    cursor.execute("SET LOCAL enable_sort = off")
    live, dead, vacuumed_at = rows(cursor, STATISTICS)[0]
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
        return problem(what, VACUUM, **about)
    return judge_heads(heads, last, about)


def _measured(queue: str, lane: int, now: datetime) -> dict[str, Any]:
    head = BacklogRecord.objects.ready().filter(queue=queue, lane=lane).open_at(now).in_claim_order()
    plan = json.loads(head.values("pk")[:BATCH].explain(format="json", analyze=True, buffers=True, timing=False))[0]
    nodes, top = list(_nodes(plan["Plan"])), plan["Plan"]
    found, buffers = int(top["Actual Rows"]), int(top["Shared Hit Blocks"]) + int(top["Shared Read Blocks"])
    skipped = sum(int(node.get("Rows Removed by Filter", 0)) for node in nodes)
    return {
        "queue": queue,
        "lane": lane,
        "rows": found,
        "buffers": buffers,
        "wasted": max(0, buffers - BUFFERS_OF_A_DESCENT - BUFFERS_PER_ROW * (found + skipped)),
        "milliseconds": round(float(plan["Execution Time"]), 3),
        "sorts": any("Sort" in node["Node Type"] for node in nodes),
    }


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", []):
        yield from _nodes(child)


def judge_heads(heads: list[dict[str, Any]], last: str, about: dict[str, Any]) -> Finding:
    about = {**about, "heads": heads}
    if any(head["sorts"] for head in heads):
        what = "a claim cannot read backlog_claim_order in order: it reads and sorts a whole queue"
        return problem(what, "see the finding schema, which says how to make that index again", **about)
    worst = sorted(heads, key=lambda head: -int(head["wasted"]))
    most = worst[0]["wasted"] if worst else 0
    if most < WARN_BUFFERS:
        return ok(f"a claim reads at most {most:,} buffers for nothing; {last}", **about)
    over = [
        f"a claim from queue {head['queue']}{' lane {}'.format(head['lane']) if head['lane'] else ''} reads "
        f"{head['buffers']:,} buffers for {head['rows']} records ({head['milliseconds']:.0f} ms), {head['wasted']:,} "
        "of them for dead rows"
        for head in worst
        if head["wasted"] >= WARN_BUFFERS
    ]
    return (problem if most >= PROBLEM_BUFFERS else warning)(f"{listed(over)}; {last}", VACUUM, **about)
