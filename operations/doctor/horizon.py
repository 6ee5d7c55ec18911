"""What keeps dead rows from being removed.

A claimed record leaves a dead row version at the head of the claim index. As long as anybody may still see it, neither
vacuum nor the scans themselves can take it away, and every claim passes over all of them.
"""

from datetime import datetime
from typing import Any

from django.db.backends.utils import CursorWrapper

from jobs.durations import span
from operations.doctor.asking import rows
from operations.doctor.finding import Finding, listed, ok, problem, warning

WARN_SECONDS = 300
"""A page or a report is done by then; at thousands of claims a second each then passes over a million dead rows."""
PROBLEM_SECONDS = 3600
"""A dump of a large database may take that long; what takes longer was forgotten."""
WARN_TRANSACTIONS = 100_000
PROBLEM_TRANSACTIONS = 1_000_000
"""Each batch that a busy worker claims or settles is one transaction of up to hundreds of rows."""

# Sessions of this database, and of none: a standby with hot_standby_feedback. What VACUUM itself sees pins nothing.
HOLDERS = """
SELECT 'session' AS kind, 'pid ' || pid AS holder, usename::text, application_name, state,
       EXTRACT(EPOCH FROM %(now)s - xact_start)::float8 AS seconds,
       GREATEST(age(backend_xmin), age(backend_xid)) AS transactions,
       left(regexp_replace(query, '\\s+', ' ', 'g'), 80) AS query
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

DO = {
    "session": "end it if nobody needs it: SELECT pg_terminate_backend({pid}); and give its role an "
    "idle_in_transaction_session_timeout",
    "prepared transaction": "COMMIT PREPARED or ROLLBACK PREPARED '{holder}', as its owner decides",
    "replication slot": "bring its standby back, or SELECT pg_drop_replication_slot('{holder}')",
}

NAMES = ("kind", "holder", "user", "application", "state", "seconds", "transactions", "query")


def horizon(cursor: CursorWrapper, now: datetime) -> Finding:
    """Whether an old snapshot, a prepared transaction or a replication slot pins the xmin horizon."""
    return _judged([dict(zip(NAMES, found, strict=True)) for found in rows(cursor, HOLDERS, {"now": now})])


def _judged(holders: list[dict[str, Any]]) -> Finding:
    old = [holder for holder in holders if _is_over(holder, WARN_SECONDS, WARN_TRANSACTIONS)]
    if not old:
        oldest = max((holder["seconds"] or 0.0 for holder in holders), default=0.0)
        return ok("horizon", f"no snapshot is old (the oldest: {span(max(oldest, 0))})", oldest_seconds=oldest)
    bad = [holder for holder in old if _is_over(holder, PROBLEM_SECONDS, PROBLEM_TRANSACTIONS)]
    make, worst = (problem, bad[0]) if bad else (warning, old[0])
    return make(
        "horizon",
        f"dead rows cannot be removed, so claims get slower: {listed([_described(holder) for holder in old], 3)}",
        DO[worst["kind"]].format(holder=worst["holder"].replace("'", "''"), pid=worst["holder"].removeprefix("pid ")),
        holders=old,
    )


def _is_over(holder: dict[str, Any], seconds: float, transactions: int) -> bool:
    age, behind = holder["seconds"], holder["transactions"]
    return (isinstance(age, float) and age >= seconds) or (isinstance(behind, int) and behind >= transactions)


def _described(holder: dict[str, Any]) -> str:
    seconds = holder["seconds"]
    facts = [
        span(seconds) if isinstance(seconds, float) else "",
        f"{holder['transactions']:,} transactions",
        str(holder["state"] or ""),
        f"user {holder['user']}" if holder["user"] else "",
        str(holder["application"] or ""),
        f"query {holder['query']!r}" if holder["query"] else "",
    ]
    return f"{holder['kind']} {holder['holder']} ({', '.join(fact for fact in facts if fact)})"
