"""The installation: its migrations, the server, a pooler before it, its connections and the clocks of the hosts."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from inspect import iscoroutinefunction
from typing import Any

from django.db import connection

from audit import triggers
from jobs import conf
from jobs.clock import MAX_SKEW_SECONDS, ahead_of_database
from jobs.models import Worker
from jobs.schema_check import differences
from jobs.worker.database_threads import THREADS
from operations import checks
from operations.finding import (
    Answer,
    Case,
    Finding,
    Look,
    Severity,
    condition,
    listed,
    ok,
    problem,
    rows,
    settings_of_server,
    warning,
)

MIN_VERSION = 140_000
"""PostgreSQL 14, the oldest that the statements are tested with."""


@condition()
def version(look: Look) -> Answer:
    """A PostgreSQL that is too old."""
    names = "current_setting('server_version'), current_setting('server_version_num')::int"
    return judge_version(*rows(f"SELECT {names}")[0])


def judge_version(name: str, number: int) -> Finding:
    if number >= MIN_VERSION:
        return ok(f"PostgreSQL {name}", server_version_num=number)
    do = "move the database to a newer server (pg_dump, pg_restore)"
    return problem(f"this is PostgreSQL {name}; 14 or later is needed", do, server_version_num=number)


@condition()
def migrations(look: Look) -> Answer:
    """Tables that differ from those of this version: a worker refuses to start."""
    found = differences()
    names = {"missing": list(found.missing), "unknown": list(found.unknown), "needed": list(found.needed)}
    if found.what:
        return problem(found.what, found.to_do, **names)
    if found.ahead:
        return warning(f"{found.ahead}; this version works with it", "bring this host to that version", **names)
    if unseen := triggers.missing():  # the last step of `migrate`
        do = f"`{conf.PROGRAM} migrate` makes the triggers; until then the audit sees no change of these tables"
        return problem(f"the audit has no trigger of {listed(unseen)}", do, **names, triggers=unseen)
    return ok("all are applied, and none of a newer version", **names)


@condition(
    "the server may write",
    "{}: nothing is backed up, and no edit is kept",
    "point DATABASE_URL at the primary, or free the server's disk where its provider has locked it; with several hosts "
    "in the URL the one that may write is found automatically",
    severity=Severity.PROBLEM,
)
def writable(look: Look) -> Answer:
    """A server that is not the primary: after a failover the old one may live on and answer every question."""
    names = "pg_is_in_recovery(), current_setting('default_transaction_read_only') = 'on'"
    (in_recovery, read_only), *_ = rows(f"SELECT {names}")
    why = (in_recovery, "the server is a standby"), (read_only, "the server is read-only")
    return [Case("server", text) for is_so, text in why if is_so][:1]


@condition()
def durability(look: Look) -> Answer:
    """Settings by which a commit does not survive a crash of the server."""
    return judge_durability(settings_of_server("fsync", "full_page_writes", "synchronous_commit"))


def judge_durability(settings: dict[str, str]) -> Finding:
    if off := [name for name in ("fsync", "full_page_writes") if settings[name] == "off"]:
        what = f"{' and '.join(off)} off: a crash of the server's machine can destroy the database"
        return problem(what, switch_on(off), **settings)
    if settings["synchronous_commit"] == "off":
        what = "synchronous_commit is off: a crash forgets the last commits, so backups that succeeded run again"
        return warning(what, "set synchronous_commit = on for this database or its role", **settings)
    return ok("commits survive a crash", **settings)


def switch_on(names: list[str]) -> str:
    return f"set {' and '.join(f'{name} = on' for name in names)} in postgresql.conf, and reload it"


@condition(
    "transactions are READ COMMITTED",
    "{}: throttles let too many records run, and claims fail to serialise",
    "ALTER DATABASE … and ALTER ROLE … RESET default_transaction_isolation, and look into postgresql.conf and the "
    "OPTIONS of DATABASES; then start the workers again",
    severity=Severity.PROBLEM,
)
def isolation(look: Look) -> Answer:
    """Transactions that do not see what others have committed since: the throttles count on it."""
    settings = settings_of_server("default_transaction_isolation", "transaction_isolation")
    alike = ("read committed", "read uncommitted")  # PostgreSQL runs both alike
    return [Case(name, f"{name} is {level!r}") for name, level in settings.items() if level not in alike]


@condition()
def pooler(look: Look) -> Answer:
    """A pooler before the server. It gives its clients made-up process ids; PostgreSQL returns real ones."""
    at_server = rows("SELECT pg_backend_pid()")[0][0]
    return judge_pooler(connection.connection.info.backend_pid, at_server, listens=conf.listens())


def judge_pooler(at_client: int, at_server: int, *, listens: bool) -> Finding:
    if at_client == at_server:
        return ok("connections are direct", pooled=False)
    if not listens:
        return ok("behind a pooler, and workers poll", pooled=True)
    return warning(
        "a pooler (PgBouncer) is in front of the server, while workers listen and prepare statements",
        "if it pools transactions: BACKUPSCHED_WAKE=poll for all processes, or a direct DATABASE_URL for the workers; "
        "if it pools sessions, nothing",
        pooled=True,
    )


OF_EACH_WORKER = 5
"""Its main loop, its two settlers, its heartbeat and its listener."""
OF_OTHERS = 12
"""Two web processes with a thread each and their successors at a reload, one qcluster (its scheduler, pusher, monitor,
worker), a command or two, and an operator with psql.
"""
WARN_SHARE = 0.8
"""A restart opens new connections before the old ones are gone."""
POOL_SIZE = 4
"""The connections that psycopg's pool allows when its size is not set."""

# The tightest of the limits of server, database and role, the connections taken of it now, and the number of those that
# are ours: to this database, under our application name.
LIMITS = """
WITH client AS (SELECT * FROM pg_stat_activity WHERE backend_type = 'client backend'), bound AS (
    SELECT 'max_connections' AS name,
           (SELECT sum(setting::int * CASE name WHEN 'max_connections' THEN 1 ELSE -1 END)
              FROM pg_settings
             WHERE name IN ('max_connections', 'superuser_reserved_connections', 'reserved_connections')) AS allowed,
           (SELECT count(*) FROM client) AS taken
 UNION ALL
    SELECT 'the connection limit of the database', datconnlimit, (SELECT count(*) FROM client WHERE datid = oid)
      FROM pg_database
     WHERE datname = current_database() AND datconnlimit >= 0
 UNION ALL
    SELECT 'the connection limit of the role', rolconnlimit, (SELECT count(*) FROM client WHERE usesysid = oid)
      FROM pg_roles
     WHERE rolname = current_user AND rolconnlimit >= 0)
SELECT name, allowed::int, taken,
       (SELECT count(*) FROM client
         WHERE datname = current_database() AND application_name = current_setting('application_name'))
  FROM bound
 ORDER BY allowed
 LIMIT 1
"""


@condition()
def connections(look: Look) -> Answer:
    """More connections than the server, the database and the role allow for the living workers and the web."""
    per_worker = [connections_of(worker.queues) for worker in Worker.alive(look.now)]
    pool = connection.settings_dict["OPTIONS"].get("pool")
    too_small = judge_pool(pool, max(per_worker, default=0))
    bound, allowed, taken, ours = rows(LIMITS)[0]
    return too_small or judge_connections(bound, allowed, taken, ours, sum(per_worker))


def connections_of(queues: Mapping[str, int]) -> int:
    """The connections that a worker may hold if it serves `queues` (name → records at once)."""
    handlers = checks.registered()
    shared = {queue for (_, queue), handler in handlers.items() if iscoroutinefunction(handler)}
    sync = {queue for (_, queue), handler in handlers.items() if not iscoroutinefunction(handler)}
    own = sum(units for queue, units in queues.items() if queue in sync)
    return OF_EACH_WORKER + own + THREADS * len(shared & set(queues))


def judge_pool(pool: Any, needed: int) -> Finding | None:
    """`pool`: Django's option of that name, True or psycopg's parameters; a process has one."""
    sizes = pool if isinstance(pool, dict) else {}
    size = int(sizes.get("max_size") or sizes.get("min_size", POOL_SIZE))
    if not pool or needed <= size:
        return None
    what = f"a worker may need {needed} connections, and its pool gives {size}: handlers wait for one, and fail"
    do = f"OPTIONS['pool']['max_size'] = {needed} or more, or no pool at all (CONN_MAX_AGE = None)"
    return problem(what, do, needed=needed, pool=size)


def judge_connections(bound: str, allowed: int, taken: int, ours: int, workers: int) -> Finding:
    # more may be open now than was planned for: more web processes, a worker that just ended
    others = max(0, taken - ours)
    most = others + max(ours, workers + OF_OTHERS)
    numbers = {"allowed": allowed, "taken": taken, "workers_may_need": workers, "at_most": most}
    what = (
        f"the workers may need {workers}, the web and the rest {OF_OTHERS}, others hold {others}: {most} of the "
        f"{allowed} that {bound} leaves ({taken} are open)"
    )
    if most <= WARN_SHARE * allowed:
        return ok(what, **numbers)
    do = "raise it (max_connections needs a restart of the server), or run fewer workers or units"
    return (problem if most > allowed else warning)(what, do, **numbers)


# Served by `worker_alive`.
SKEWED = """
SELECT id, name, clock_skew
  FROM jobs_worker
 WHERE stopped_at IS NULL AND heartbeat_at > %(since)s AND abs(clock_skew) > %(most)s
 ORDER BY abs(clock_skew) DESC
 LIMIT 100
"""


@condition(
    "the clocks of this machine and of the running workers agree with the database's",
    "{}: logs and the times of copied files mislead",
    "synchronise the clocks of these machines and of the database's (NTP: chrony, systemd-timesyncd)",
)
def clocks(look: Look) -> Iterator[Case]:
    """The clocks of the hosts. Leases use the database's alone; logs and engines use the hosts'."""
    skew = ahead_of_database()
    since = look.now - timedelta(seconds=conf.lease_seconds())
    if abs(skew) > MAX_SKEW_SECONDS:
        yield Case("clock", f"this machine's clock is {_off(skew)}")
    for pk, name, ahead in rows(SKEWED, since=since, most=MAX_SKEW_SECONDS):
        yield Case(f"worker:{pk}", f"that of worker {name} is {_off(ahead)}")


def _off(skew: float) -> str:
    return f"{abs(skew):.1f} s {'ahead of' if skew > 0 else 'behind'} the database's"
