"""Causes of slow claims: lost table settings, and holders of old snapshots, which keep dead rows."""

from typing import Any

from external.durations import span
from operations.conditions.installation import switch_on
from operations.finding import (
    Answer,
    Finding,
    Look,
    condition,
    listed,
    ok,
    problem,
    rows,
    settings_of_server,
    warning,
)

TABLE = "jobs_backlogrecord"
WANTED = {"fillfactor": 80.0, "autovacuum_vacuum_scale_factor": 0.02, "autovacuum_vacuum_cost_delay": 0.0}
"""Upper bounds: less room for updates, or a vacuum that comes later or slower, was measured to hurt."""

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


@condition()
def table_settings(look: Look) -> Answer:
    """Autovacuum that is off, for the server or for one of our tables, or that begins later than the backlog needs."""
    server = settings_of_server("autovacuum", "track_counts")
    if off := [name for name, setting in server.items() if setting == "off"]:
        what = f"{' and '.join(off)} off: dead rows pile up, and claims get slower without end"
        return problem(what, switch_on(off), **server)
    if tables := [str(name) for (name,) in rows(SWITCHED_OFF)]:
        do = " ".join(f"ALTER TABLE {name} RESET (autovacuum_enabled);" for name in tables)
        return problem(f"autovacuum is switched off for {', '.join(tables)}: dead rows pile up", do, tables=tables)
    options = dict(rows(OPTIONS, table=TABLE))
    lost = {name: most for name, most in WANTED.items() if float(options.get(name, "inf")) > most}
    if not lost:
        return ok(f"{TABLE} has its settings, and autovacuum runs", **options)
    wrong = [f"{name} is {options.get(name, 'not set')} instead of {most:g}" for name, most in lost.items()]
    do = f"ALTER TABLE {TABLE} SET ({', '.join(f'{name} = {most:g}' for name, most in lost.items())});"
    return warning(f"{TABLE}: {listed(wrong)}: dead rows stay for longer than they should", do, **options)


WARN_SECONDS, PROBLEM_SECONDS = 300, 3600
"""A page or a report is done by the first; at thousands of claims a second each then passes over a million dead rows. A
dump of a large database may take as long as the second; a longer transaction was forgotten.
"""
WARN_TRANSACTIONS, PROBLEM_TRANSACTIONS = 100_000, 1_000_000
"""Each batch that a busy worker claims or settles is one transaction of up to hundreds of rows."""

# Sessions of this database, and those without a database: a standby with hot_standby_feedback. Those that run VACUUM
# pin nothing.
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


@condition()
def horizon(look: Look) -> Answer:
    """Old snapshots, prepared transactions and replication slots that pin the xmin horizon.

    A claimed record leaves a dead row version at the head of the claim index. As long as a snapshot may still see it,
    neither vacuum nor the scans themselves can remove it, and every claim passes over all such versions.
    """
    return judge_holders([dict(zip(HOLDER, found, strict=True)) for found in rows(HOLDERS, now=look.now)])


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
