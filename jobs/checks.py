"""Django system checks: what in the settings would stop the backlog, or quietly do it harm. No database is asked.

An error (`jobs.E…`) is a setting with which workers cannot run, or would break a promise; a warning (`jobs.W…`) costs
time or pruning, never work. `manage.py doctor` says the same again, beside what it finds in the running system.
"""

import math
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any, TypeGuard

from django.apps import AppConfig, apps
from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning, register
from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from psycopg import IsolationLevel

from jobs.delivery import addresses
from jobs.handlers import Handler, registry

TAG = "jobs"
"""`manage.py check --tag jobs`. Not `database`: those checks are left out unless a database is named."""
KEYS = (
    "QUEUES", "LEASE_SECONDS", "WAKE", "KEEP_FINISHED_DAYS", "CONSIDERING", "KEEP_LOG_DAYS", "SWEEP_MAX_RECORDS",
    "BREAKER_AFTER", "BREAKER_PROBE_SECONDS", "BREAKER_LONGEST_SECONDS",
    "CALLBACKS_ALLOWED",
)  # fmt: skip
QUEUE_KEYS = ("concurrency", "feeds")
MAX_QUEUE_NAME = 50
"""The length of the column `queue`."""
MAX_KEEP_DAYS = 36_500
"""A hundred years. Much more, and the instant before which to prune is none that a calendar has."""
MAX_SWEEP = 1_000_000
"""Records, as `jobs.sweeps.LARGEST`: a sweep is one transaction."""
MAX_BREAKER_SECONDS = 86_400
"""A day: what is tried less often than that nobody waits for."""
LEVELS = (None, IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED)
"""PostgreSQL runs the first two alike."""

Apps = Sequence[AppConfig] | None


@register(TAG)
def check_backlog(app_configs: Apps = None, **_: Any) -> list[CheckMessage]:
    """What is wrong with settings.JOBS."""
    found = getattr(settings, "JOBS", {})
    if not isinstance(found, dict):
        return [_error("E001", f"JOBS is {found!r:.80}, not a dict", "see jobs/conf.py for an example")]
    return [*_unknown_keys(found), *_queues(found.get("QUEUES", {})), *_numbers(found)]


@register(TAG)
def check_registry(app_configs: Apps = None, **_: Any) -> list[CheckMessage]:
    """Kinds and handlers whose queue no worker can serve. Says nothing while settings.JOBS itself is wrong."""
    if check_backlog():
        return []
    queues = getattr(settings, "JOBS", {}).get("QUEUES", {"default": {}})
    return [*_homes(list(queues)), *_handlers(list(queues))]


@register(TAG)
def check_database(app_configs: Apps = None, **_: Any) -> list[CheckMessage]:
    """What DATABASES["default"] says that the backlog cannot live with. Connects nowhere."""
    return list(_database(connection.settings_dict, connection.vendor))


@register(TAG)
def check_periodic_tasks(app_configs: Apps = None, **_: Any) -> list[CheckMessage]:
    """The traps of django-q2's defaults (docs/decisions/0004-django-q2-runs-the-clock-only.md)."""
    if not apps.is_installed("django_q"):
        return []
    return list(_q_cluster(getattr(settings, "Q_CLUSTER", {})))


def registered() -> dict[tuple[str, str], Handler]:
    """The handlers of this installation by (kind, queue)."""
    return registry.handlers()


def _error(number: str, what: str, do: str) -> Error:
    return Error(what, hint=do, id=f"jobs.{number}")


def _warning(number: str, what: str, do: str) -> Warning:
    return Warning(what, hint=do, id=f"jobs.{number}")


def _unknown_keys(found: dict[Any, Any]) -> Iterator[CheckMessage]:
    for key in found:
        if key not in KEYS:
            yield _error("E002", f"JOBS has the unknown key {key!r}, which does nothing", _meant(key, KEYS))


def _meant(key: Any, known: Sequence[str]) -> str:
    close = get_close_matches(str(key).casefold(), [name.casefold() for name in known], n=1)
    likely = [name for name in known if name.casefold() in close]
    return f"did you mean {likely[0]!r}?" if likely else f"take it out; there are {', '.join(known)}"


def _queues(queues: Any) -> Iterator[CheckMessage]:
    if not isinstance(queues, dict):
        yield _error("E003", f"JOBS['QUEUES'] is {queues!r:.80}, not a dict", "write {'name': {'concurrency': 4}}")
        return
    for name, row in queues.items():
        where = f"JOBS['QUEUES'][{name!r}]"
        if not isinstance(name, str) or not 0 < len(name) <= MAX_QUEUE_NAME:
            yield _error("E003", f"{where}: that is no name", f"use 1 to {MAX_QUEUE_NAME} characters")
        if not isinstance(row, dict):
            yield _error("E003", f"{where} is {row!r:.80}, not a dict", "write {'concurrency': 4}")
            continue
        for key in row:
            if key not in QUEUE_KEYS:
                yield _error("E002", f"{where} has the unknown key {key!r}", _meant(key, QUEUE_KEYS))
        yield from _queue(where, name, row, queues)


def _queue(where: str, name: str, row: dict[Any, Any], queues: dict[Any, Any]) -> Iterator[CheckMessage]:
    concurrency, feeds = row.get("concurrency", 1), row.get("feeds")
    if not isinstance(concurrency, int) or isinstance(concurrency, bool) or concurrency < 1:
        yield _error(
            "E004",
            f"{where}['concurrency'] is {concurrency!r}",
            "give a whole number, 1 or more: how many of its records one worker runs at once",
        )
    if feeds is not None and (feeds == name or feeds not in queues):
        wrong = "itself" if feeds == name else f"the unknown queue {feeds!r}"
        yield _error("E005", f"{where}['feeds'] names {wrong}", "name the queue that takes its records over, or none")


def _numbers(found: dict[Any, Any]) -> Iterator[CheckMessage]:
    lease = found.get("LEASE_SECONDS", 60)
    if not _is_number(lease) or lease < 1:
        yield _error("E006", f"JOBS['LEASE_SECONDS'] is {lease!r}", "give a number of seconds, 1 or more; 60 is usual")
    wake = found.get("WAKE", "listen")
    if wake not in ("listen", "poll"):
        yield _error(
            "E007", f"JOBS['WAKE'] is {wake!r}", "'listen', or 'poll' behind a pooler of transactions (PgBouncer)"
        )
    for name, usual in (("KEEP_FINISHED_DAYS", 90), ("KEEP_LOG_DAYS", 14)):
        days = found.get(name, usual)
        if not _is_number(days) or not 0 < days <= MAX_KEEP_DAYS:
            yield _error("E008", f"JOBS[{name!r}] is {days!r}", f"give days, above 0 and at most {MAX_KEEP_DAYS:,}")
    if not isinstance(considering := found.get("CONSIDERING", False), bool):
        yield _error("E014", f"JOBS['CONSIDERING'] is {considering!r}", "True or False")
    allowed = found.get("CALLBACKS_ALLOWED", [])
    try:
        if not isinstance(allowed, list) or not all(isinstance(each, str) for each in allowed):
            raise ImproperlyConfigured(f"JOBS['CALLBACKS_ALLOWED'] is {allowed!r:.80}")
        addresses.allowed()
    except ImproperlyConfigured as error:
        yield _error("E019", str(error), "a list of networks and hosts, as ['10.1.0.0/16', 'intranet.example']")
    yield from _retrying(found)


def _retrying(found: dict[Any, Any]) -> Iterator[CheckMessage]:
    for number, name, usual in (("E015", "SWEEP_MAX_RECORDS", 10_000), ("E016", "BREAKER_AFTER", 3)):
        count = found.get(name, usual)
        if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= MAX_SWEEP:
            do = f"give a whole number, 1 to {MAX_SWEEP:,}; {usual:,} is usual"
            yield _error(number, f"JOBS[{name!r}] is {count!r}", do)
    probe, longest = found.get("BREAKER_PROBE_SECONDS", 60), found.get("BREAKER_LONGEST_SECONDS", 900)
    for name, seconds, usual in (("BREAKER_PROBE_SECONDS", probe, 60), ("BREAKER_LONGEST_SECONDS", longest, 900)):
        if not _is_number(seconds) or not 1 <= seconds <= MAX_BREAKER_SECONDS:
            do = f"give a number of seconds, 1 to {MAX_BREAKER_SECONDS:,}; {usual} is usual"
            yield _error("E017", f"JOBS[{name!r}] is {seconds!r}", do)
            return
    if longest < probe:
        what = f"JOBS['BREAKER_LONGEST_SECONDS'] is {longest}, below JOBS['BREAKER_PROBE_SECONDS'], {probe}"
        yield _error("E018", what, "give the longest time between two trials the larger number; 900 and 60 are usual")


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _homes(queues: list[str]) -> Iterator[CheckMessage]:
    handled = registered()
    for kind in registry.kinds.values():
        if kind.home_queue not in queues:
            yield _error(
                "E009",
                f"records of kind {kind.name!r} start in queue {kind.home_queue!r}, which no worker can serve",
                f"add it to JOBS['QUEUES'] (there are {', '.join(queues)}), or correct the kind's home_queue",
            )
        elif (kind.name, kind.home_queue) not in handled:
            yield _error(
                "E010",
                f"records of kind {kind.name!r} start in queue {kind.home_queue!r}, where it has no handler",
                "register a handler for it in the ready() of its app",
            )


def _handlers(queues: list[str]) -> Iterator[CheckMessage]:
    for kind, queue in sorted(registered()):
        if queue not in queues and registry.kind(kind).home_queue != queue:
            yield _warning(
                "W001",
                f"kind {kind!r} has a handler for queue {queue!r}, which no worker can serve",
                f"add it to JOBS['QUEUES'] (there are {', '.join(queues)}), or take the handler out",
            )


def _database(database: dict[str, Any], vendor: str) -> Iterator[CheckMessage]:
    if vendor != "postgresql":
        yield _error(
            "E011",
            f"the default database is {vendor}; the backlog needs PostgreSQL (SKIP LOCKED, partial indexes, LISTEN)",
            "point DATABASE_URL at a PostgreSQL 14 or later",
        )
        return
    if database.get("OPTIONS", {}).get("isolation_level") not in LEVELS:
        yield _error(
            "E012",
            "the default database runs its transactions above READ COMMITTED: throttles would let too many through, "
            "and claims would fail to serialise",
            "take isolation_level out of DATABASES['default']['OPTIONS']",
        )
    if database.get("ATOMIC_REQUESTS"):
        yield _warning(
            "W002",
            "ATOMIC_REQUESTS keeps a transaction open for as long as a page takes: what it locks, claims pass over, "
            "and dead rows stay",
            "set ATOMIC_REQUESTS to False; what has to be atomic says so itself",
        )
    pooled = bool(database.get("OPTIONS", {}).get("pool"))
    if database.get("CONN_MAX_AGE") == 0 and not pooled:
        yield _warning(
            "W003",
            "CONN_MAX_AGE is 0: every handler opens a connection of its own and closes it again",
            "set CONN_MAX_AGE to None, and CONN_HEALTH_CHECKS to True",
        )
    if not settings.USE_TZ:
        yield _error("E013", "USE_TZ is False, but all instants of the backlog are aware", "set USE_TZ to True")


def _q_cluster(cluster: Any) -> Iterator[CheckMessage]:
    if not isinstance(cluster, dict):
        yield _warning("W010", f"Q_CLUSTER is {cluster!r:.80}, not a dict", "see backupsched/settings.py")
        return
    others = [name for name in ("broker_class", "iron_mq", "sqs") if cluster.get(name)]
    if cluster.get("orm") != "default" or others:
        yield _warning(
            "W011",
            f"django-q2's broker is {others[0] if others else cluster.get('orm')!r}: out of step with the rows",
            "set Q_CLUSTER['orm'] to 'default' and no other broker",
        )
    if cluster.get("ack_failures") is not True:
        yield _warning(
            "W012",
            "django-q2 delivers a periodic task that failed again and again",
            "set Q_CLUSTER['ack_failures'] to True",
        )
    if cluster.get("max_attempts", 0) != 1:
        yield _warning(
            "W013",
            f"django-q2 tries a periodic task {cluster.get('max_attempts') or 'endless'} times; the next run is the "
            "next try",
            "set Q_CLUSTER['max_attempts'] to 1",
        )
    yield from _taken_ahead(cluster)
    if cluster.get("catch_up", True) is not False:
        yield _warning(
            "W016",
            "django-q2 replays every run that it missed: 4,320 ticks after three days down",
            "set Q_CLUSTER['catch_up'] to False",
        )
    yield from _redelivered(cluster)
    if cluster.get("scheduler", True) is not True:
        yield _warning(
            "W019", "django-q2's scheduler is off: no periodic task runs", "take 'scheduler' out of Q_CLUSTER"
        )


def _taken_ahead(cluster: dict[str, Any]) -> Iterator[CheckMessage]:
    why = "tasks are taken into memory long before they run, and delivered again meanwhile"
    if cluster.get("bulk", 1) != 1:
        yield _warning("W014", f"Q_CLUSTER['bulk'] is {cluster['bulk']!r}: {why}", "set Q_CLUSTER['bulk'] to 1")
    workers, limit = cluster.get("workers"), cluster.get("queue_limit")
    # left out, django-q2 takes the number of processors, and its square
    if not workers or limit != workers:
        yield _warning(
            "W015",
            f"Q_CLUSTER['queue_limit'] is {limit!r} and 'workers' {workers!r}: {why}",
            "set both, to the same number; 1 is enough",
        )


def _redelivered(cluster: dict[str, Any]) -> Iterator[CheckMessage]:
    timeout, retry = cluster.get("timeout"), cluster.get("retry", 60)
    if not _is_number(timeout) or timeout <= 0:
        yield _warning(
            "W017",
            f"Q_CLUSTER['timeout'] is {timeout!r}: a periodic task that hangs, hangs for ever",
            "set Q_CLUSTER['timeout'] to 300",
        )
    elif not _is_number(retry) or not retry > timeout:
        yield _warning(
            "W018",
            f"Q_CLUSTER['retry'] is {retry!r} and 'timeout' {timeout!r}: a task that still runs is run a second time",
            "set 'retry' above 'timeout'; 600 and 300 are usual",
        )
