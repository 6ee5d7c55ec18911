"""Whether there are connections enough for all that the processes may open at once."""

from collections.abc import Mapping
from datetime import datetime
from inspect import iscoroutinefunction
from typing import Any

from django.db import connection
from django.db.backends.utils import CursorWrapper

from jobs.worker.database_threads import THREADS
from operations.checks import registered
from operations.doctor.asking import row
from operations.doctor.finding import Finding, ok, problem, warning
from operations.doctor.workers import living

OF_EACH_WORKER = 5
"""Its main loop, its two settlers, its heartbeat and its listener."""
OF_OTHERS = 12
"""Two web processes with a thread each and their successors at a reload, one qcluster (its scheduler, pusher, monitor,
worker), a command or two, and a person with psql."""
WARN_SHARE = 0.8
"""A restart opens new connections before the old ones are gone."""
POOL_SIZE = 4
"""What psycopg's pool allows when nothing is said."""

# Of the limits of server, database and role the tightest: what it allows, and what is taken of it now.
LIMITS = """
SELECT name, allowed, taken
  FROM (SELECT 'max_connections' AS name,
               (SELECT sum(setting::int * CASE name WHEN 'max_connections' THEN 1 ELSE -1 END)
                  FROM pg_settings
                 WHERE name IN ('max_connections', 'superuser_reserved_connections', 'reserved_connections')
               ) AS allowed,
               (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS taken
     UNION ALL
        SELECT 'the connection limit of the database', datconnlimit,
               (SELECT count(*) FROM pg_stat_activity
                 WHERE backend_type = 'client backend' AND datname = current_database())
          FROM pg_database
         WHERE datname = current_database() AND datconnlimit >= 0
     UNION ALL
        SELECT 'the connection limit of the role', rolconnlimit,
               (SELECT count(*) FROM pg_stat_activity
                 WHERE backend_type = 'client backend' AND usename = current_user)
          FROM pg_roles
         WHERE rolname = current_user AND rolconnlimit >= 0) AS bound
 ORDER BY allowed
 LIMIT 1
"""

# Ours are those of this database under our application name; what others have taken is not there for us.
OURS = """
SELECT count(*)
  FROM pg_stat_activity
 WHERE backend_type = 'client backend' AND datname = current_database()
   AND application_name = current_setting('application_name')
"""


def connections(cursor: CursorWrapper, now: datetime) -> Finding:
    """What the living workers and the web may need, against what the server, the database and the role allow."""
    per_worker = [needed(worker.queues) for worker in living(now)]
    bound, allowed, taken = row(cursor, LIMITS)
    ours = int(row(cursor, OURS)[0])
    pool = connection.settings_dict["OPTIONS"].get("pool")
    return _too_small(pool, max(per_worker, default=0)) or _judged(
        str(bound), int(allowed), int(taken), ours, sum(per_worker)
    )


def needed(queues: Mapping[str, int]) -> int:
    """How many connections a worker may hold that serves `queues` (name → records at once)."""
    handlers = registered()
    sync = {queue for (_, queue), handler in handlers.items() if not iscoroutinefunction(handler)}
    async_ = {queue for (_, queue), handler in handlers.items() if iscoroutinefunction(handler)}
    return (
        OF_EACH_WORKER
        + sum(units for queue, units in queues.items() if queue in sync)
        + sum(THREADS for queue in queues if queue in async_)
    )


def _too_small(pool: Any, needed: int) -> Finding | None:
    """`pool`: Django's option of that name, True or psycopg's parameters; a process has one."""
    if not pool:
        return None
    sizes = pool if isinstance(pool, dict) else {}
    size = int(sizes.get("max_size") or sizes.get("min_size", POOL_SIZE))
    if needed <= size:
        return None
    return problem(
        "connections",
        f"a worker may need {needed} connections, and its pool gives {size}: handlers wait for one, and fail",
        f"OPTIONS['pool']['max_size'] = {needed} or more, or no pool at all (CONN_MAX_AGE = None)",
        needed=needed,
        pool=size,
    )


def _judged(bound: str, allowed: int, taken: int, ours: int, workers: int) -> Finding:
    # what is open now may be more than was thought of: more web processes, a worker that just ended
    others = max(0, taken - ours)
    most = others + max(ours, workers + OF_OTHERS)
    numbers = {"allowed": allowed, "taken": taken, "workers_may_need": workers, "at_most": most}
    what = (
        f"the workers may need {workers}, the web and the rest {OF_OTHERS}, others hold {others}: {most} of the "
        f"{allowed} that {bound} leaves ({taken} are open)"
    )
    do = "raise it (max_connections needs a restart of the server), or run fewer workers or units"
    if most > allowed:
        return problem("connections", what, do, **numbers)
    if most > WARN_SHARE * allowed:
        return warning("connections", what, do, **numbers)
    return ok("connections", what, **numbers)
