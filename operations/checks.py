"""Django system checks: settings that would stop the backlog, or quietly do it harm. No database is queried.

An error (`jobs.E…`) is a setting with which workers cannot run, or would break a promise; a warning (`jobs.W…`) costs
time or pruning, never work. `manage.py doctor` reports the same again, next to the problems of the running system.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, TypeGuard

from django.apps import AppConfig, apps
from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning, register
from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from psycopg import IsolationLevel

from declarations.surfaces.commands.base import TAG
from delivery import addresses
from jobs import conf
from jobs.handlers import Handler, registry

QUEUE_KEYS = ("concurrency", "feeds")
MAX_QUEUE_NAME = 50
"""The width of the column `queue`."""
MAX_KEEP_DAYS = 36_500
"""A hundred years. A much longer time puts the instant before which to prune outside any calendar."""
MAX_SWEEP = 1_000_000
"""Records, as `jobs.sweeps.LARGEST`: a sweep is one transaction."""
MAX_BREAKER_SECONDS = 86_400
"""A day: a repository that works again should not wait for longer."""
BROKER = "operations.periodic_broker.PeriodicTasksOnly"
LEVELS = (None, IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED)
"""PostgreSQL treats the first two alike."""


def is_number(value: Any, least: float = -math.inf, most: float = math.inf) -> TypeGuard[float]:
    """True if it is a finite number within the bounds; True and False are not numbers."""
    is_one = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return is_one and least <= value <= most


def is_count(value: Any, most: float = math.inf) -> TypeGuard[int]:
    return isinstance(value, int) and is_number(value, 1, most)


def has_timeout(cluster: Mapping[str, Any]) -> bool:
    return is_number(cluster["timeout"], 0) and cluster["timeout"] > 0


Fits = Callable[[Any], bool]

DAYS = f"give days, above 0 and at most {MAX_KEEP_DAYS:,}"
SECONDS = f"give a number of seconds, 1 to {MAX_BREAKER_SECONDS:,}; {{}} is usual"
COUNT = f"give a whole number, 1 to {MAX_SWEEP:,}; {{:,}} is usual"
VALUES: dict[str, tuple[str, Any, Fits, str]] = {
    "LEASE_SECONDS": ("E006", 60, lambda v: is_number(v, 1), "give a number of seconds, 1 or more; {} is usual"),
    "PROGRAM": ("E019", "manage.py", lambda v: isinstance(v, str) and bool(v), "'{}', or what starts the commands"),
    "WAKE": (
        "E007", "listen", lambda v: v in ("listen", "poll"),
        "'{}', or 'poll' behind a pooler of transactions (PgBouncer)",
    ),
    "KEEP_FINISHED_DAYS": ("E008", 90, lambda v: v != 0 and is_number(v, 0, MAX_KEEP_DAYS), DAYS),
    "KEEP_LOG_DAYS": ("E008", 14, lambda v: v != 0 and is_number(v, 0, MAX_KEEP_DAYS), DAYS),
    "CONSIDERING": ("E014", False, lambda v: isinstance(v, bool), "True or False"),
    "SWEEP_MAX_RECORDS": ("E015", 10_000, lambda v: is_count(v, MAX_SWEEP), COUNT),
    "BREAKER_AFTER": ("E016", 3, lambda v: is_count(v, MAX_SWEEP), COUNT),
    "BREAKER_PROBE_SECONDS": ("E017", 60, lambda v: is_number(v, 1, MAX_BREAKER_SECONDS), SECONDS),
    "BREAKER_LONGEST_SECONDS": ("E017", 900, lambda v: is_number(v, 1, MAX_BREAKER_SECONDS), SECONDS),
}  # fmt: skip
"""The keys of settings.JOBS except QUEUES: the check's number, the usual value, the accepted values, and advice."""

AHEAD = "tasks are taken into memory long before they run, and delivered again in the meantime"
TRAPS: tuple[tuple[str, Fits, str, str], ...] = (
    (
        "W011", lambda c: c["orm"] != "default" or c["broker_class"] != BROKER,
        "django-q2's broker is {broker_class} on {orm!r}: it may be out of step with the rows, and runs any function "
        "that a row names", f"set Q_CLUSTER['orm'] to 'default' and 'broker_class' to '{BROKER}'",
    ),
    (
        "W012", lambda c: c["ack_failures"] is not True,
        "django-q2 delivers a periodic task that failed again and again", "set Q_CLUSTER['ack_failures'] to True",
    ),
    (
        "W013", lambda c: c["max_attempts"] != 1,
        "Q_CLUSTER['max_attempts'] is {max_attempts!r}, without end if 0 or None; the next run is the next try",
        "set Q_CLUSTER['max_attempts'] to 1",
    ),
    (
        "W014", lambda c: c.get("bulk", 1) != 1, f"Q_CLUSTER['bulk'] is {{bulk!r}}: {AHEAD}",
        "set Q_CLUSTER['bulk'] to 1",
    ),
    # left out, django-q2 takes the number of processors, and its square
    (
        "W015", lambda c: not c["workers"] or c["queue_limit"] != c["workers"],
        f"Q_CLUSTER['queue_limit'] is {{queue_limit!r}} and 'workers' {{workers!r}}: {AHEAD}",
        "set both, to the same number; 1 is enough",
    ),
    (
        "W016", lambda c: c["catch_up"] is not False,
        "django-q2 replays every run that it missed: 4,320 ticks after three days down",
        "set Q_CLUSTER['catch_up'] to False",
    ),
    (
        "W017", lambda c: not has_timeout(c),
        "Q_CLUSTER['timeout'] is {timeout!r}: a periodic task that hangs, hangs for ever",
        "set Q_CLUSTER['timeout'] to 300",
    ),
    (
        "W018", lambda c: has_timeout(c) and not (is_number(c.get("retry", 60)) and c.get("retry", 60) > c["timeout"]),
        "Q_CLUSTER['retry'] is {retry!r} and 'timeout' {timeout!r}: a task that still runs is run a second time",
        "set 'retry' above 'timeout'; 600 and 300 are usual",
    ),
    (
        "W019", lambda c: c.get("scheduler", True) is not True,
        "django-q2's scheduler is off: no periodic task runs", "remove 'scheduler' from Q_CLUSTER",
    ),
)  # fmt: skip
"""Traps of django-q2's defaults (docs/decisions/0004-django-q2-runs-the-clock-only.md): the condition,
and what to set.
"""

DATABASE: tuple[tuple[str, Fits, str, str], ...] = (
    (
        "E012", lambda d: d["OPTIONS"].get("isolation_level") not in LEVELS,
        "the default database runs its transactions above READ COMMITTED: throttles would let too many through, and "
        "claims would fail to serialise", "remove isolation_level from DATABASES['default']['OPTIONS']",
    ),
    (
        "W002", lambda d: d["ATOMIC_REQUESTS"],
        "ATOMIC_REQUESTS keeps a transaction open for as long as a page takes: claims skip the rows that "
        "it locks, and dead rows stay",
        "set ATOMIC_REQUESTS to False; code that has to be atomic opens its own transaction",
    ),
    (
        "W003", lambda d: d["CONN_MAX_AGE"] == 0 and not d["OPTIONS"].get("pool"),
        "CONN_MAX_AGE is 0: every handler opens a separate connection and closes it again",
        "set CONN_MAX_AGE to None, and CONN_HEALTH_CHECKS to True",
    ),
)  # fmt: skip

Apps = Sequence[AppConfig] | None


def _message(number: str, what: str, do: str) -> CheckMessage:
    kind = Error if number.startswith("E") else Warning
    return kind(what, hint=do, id=f"jobs.{number}")


def _meant(key: Any, known: Sequence[str]) -> str:
    """Advice about the unknown `key`: the known one that it is close to, or the known ones."""
    close = get_close_matches(str(key).casefold(), [name.casefold() for name in known], n=1)
    likely = [name for name in known if name.casefold() in close]
    return f"did you mean {likely[0]!r}?" if likely else f"remove it; there are {', '.join(known)}"


@register(TAG)
def check_backlog(app_configs: Apps = None, **_: Any) -> list[CheckMessage]:
    """Errors in settings.JOBS, and in CALLBACKS_ALLOWED."""
    found = getattr(settings, "JOBS", {})
    if not isinstance(found, dict):
        return [_message("E001", f"JOBS is {found!r:.80}, not a dict", "see jobs/conf.py for an example")]
    keys = ("QUEUES", *VALUES)
    unknown = [key for key in found if key not in keys]
    messages = [
        _message("E002", f"JOBS has the unknown key {key!r}, which does nothing", _meant(key, keys)) for key in unknown
    ]
    return [*messages, *_wrong_queues(found.get("QUEUES", {})), *_wrong_values(found), *_wrong_addresses()]


def _wrong_values(found: dict[Any, Any]) -> Iterator[CheckMessage]:
    given = {name: found.get(name, usual) for name, (_, usual, _, _) in VALUES.items()}
    wrong = {name for name, (_, _, fits, _) in VALUES.items() if not fits(given[name])}
    for name in wrong:
        number, usual, _, do = VALUES[name]
        yield _message(number, f"JOBS[{name!r}] is {given[name]!r}", do.format(usual))
    if "LEASE_SECONDS" not in wrong and conf.ending_seconds() < 1:
        lease = f"JOBS['LEASE_SECONDS'] is {given['LEASE_SECONDS']:g}"
        what = f"{lease}: a stopped program is killed {conf.ending_seconds():.2g} s later"
        yield _message("W004", what, "a program needs a second or more to end in good order: 6 or more; 60 is usual")
    probe, longest = given["BREAKER_PROBE_SECONDS"], given["BREAKER_LONGEST_SECONDS"]
    if not wrong & {"BREAKER_PROBE_SECONDS", "BREAKER_LONGEST_SECONDS"} and longest < probe:
        what = f"JOBS['BREAKER_LONGEST_SECONDS'] is {longest}, below JOBS['BREAKER_PROBE_SECONDS'], {probe}"
        yield _message("E018", what, "make the longest time between two probes the larger number; 900 and 60 are usual")


def _wrong_queues(queues: Any) -> Iterator[CheckMessage]:
    if not isinstance(queues, dict):
        yield _message("E003", f"JOBS['QUEUES'] is {queues!r:.80}, not a dict", "write {'name': {'concurrency': 4}}")
        return
    for name, row in queues.items():
        where = f"JOBS['QUEUES'][{name!r}]"
        if not isinstance(name, str) or not 0 < len(name) <= MAX_QUEUE_NAME:
            yield _message("E003", f"{where}: that is not a name", f"use 1 to {MAX_QUEUE_NAME} characters")
        if not isinstance(row, dict):
            yield _message("E003", f"{where} is {row!r:.80}, not a dict", "write {'concurrency': 4}")
            continue
        for key in row.keys() - set(QUEUE_KEYS):
            yield _message("E002", f"{where} has the unknown key {key!r}", _meant(key, QUEUE_KEYS))
        if not is_count(concurrency := row.get("concurrency", 1)):
            do = "give a whole number, 1 or more: how many of its records one worker runs at once"
            yield _message("E004", f"{where}['concurrency'] is {concurrency!r}", do)
        feeds = row.get("feeds")
        if feeds is not None and (feeds == name or feeds not in queues):
            wrong = "itself" if feeds == name else f"the unknown queue {feeds!r}"
            do = "name the queue that takes its records over, or none"
            yield _message("E005", f"{where}['feeds'] names {wrong}", do)


def _wrong_addresses() -> Iterator[CheckMessage]:
    found = getattr(settings, "CALLBACKS_ALLOWED", [])
    try:
        if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
            raise ImproperlyConfigured(f"CALLBACKS_ALLOWED is {found!r:.80}")
        addresses.allowed()
    except ImproperlyConfigured as refused:
        yield _message(
            "E019", str(refused), "a list of networks and hosts, such as ['10.1.0.0/16', 'intranet.example']"
        )


@register(TAG)
def check_registry(app_configs: Apps = None, **_: Any) -> list[CheckMessage]:
    """Kinds and handlers whose queue no worker can serve. Empty while settings.JOBS itself is wrong."""
    if any(message.is_serious() for message in check_backlog()):
        return []
    queues = list(getattr(settings, "JOBS", {}).get("QUEUES", {"default": {}}))
    handled, found = registered(), []
    add = f"add it to JOBS['QUEUES'] (there are {', '.join(queues)}), or"
    for kind in registry.kinds.values():
        start = f"records of kind {kind.name!r} start in queue {kind.home_queue!r}"
        if kind.home_queue not in queues:
            found.append(
                _message("E009", f"{start}, which no worker can serve", f"{add} correct the kind's home_queue")
            )
        elif (kind.name, kind.home_queue) not in handled:
            do = "register a handler for it in the ready() of its app"
            found.append(_message("E010", f"{start}, where it has no handler", do))
    for name, queue in sorted(handled):
        if queue not in queues and registry.kind(name).home_queue != queue:
            what = f"kind {name!r} has a handler for queue {queue!r}, which no worker can serve"
            found.append(_message("W001", what, f"{add} remove the handler"))
    return found


@register(TAG)
def check_database(app_configs: Apps = None, **_: Any) -> list[CheckMessage]:
    """Values of DATABASES["default"] with which the backlog cannot work, or is slow. Does not connect."""
    if connection.vendor != "postgresql":
        needs = "the backlog needs PostgreSQL (SKIP LOCKED, partial indexes, LISTEN)"
        what = f"the default database is {connection.vendor}; {needs}"
        return [_message("E011", what, "point DATABASE_URL at a PostgreSQL 14 or later")]
    database = {"OPTIONS": {}, "ATOMIC_REQUESTS": False, "CONN_MAX_AGE": None, **connection.settings_dict}
    found = list(_wrong(DATABASE, database))
    if not settings.USE_TZ:
        found.append(
            _message("E013", "USE_TZ is False, but all instants of the backlog are aware", "set USE_TZ to True")
        )
    return found


@register(TAG)
def check_periodic_tasks(app_configs: Apps = None, **_: Any) -> list[CheckMessage]:
    """The traps of django-q2's defaults."""
    if not apps.is_installed("django_q"):
        return []
    cluster = getattr(settings, "Q_CLUSTER", {})
    if not isinstance(cluster, dict):
        return [_message("W010", f"Q_CLUSTER is {cluster!r:.80}, not a dict", "see backupsched/settings.py")]
    return list(_wrong(TRAPS, defaultdict(lambda: None, cluster)))


def _wrong(table: tuple[tuple[str, Fits, str, str], ...], given: Mapping[str, Any]) -> Iterator[CheckMessage]:
    for number, is_wrong, what, do in table:
        if is_wrong(given):
            yield _message(number, what.format_map(given), do)


def registered() -> dict[tuple[str, str], Handler]:
    """All handlers of this installation, by (kind, queue)."""
    return registry.handlers()
