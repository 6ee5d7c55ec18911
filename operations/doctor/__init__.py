"""`manage.py doctor`: looks at the running system, changes nothing, and says what is wrong and what to do.

Each examination is a function `(cursor, now) -> Finding` in the module of its family. It runs in a transaction of its
own that is read-only, bounded in time, and rolled back.
"""

from collections.abc import Callable, Collection
from datetime import datetime

from django.apps import apps
from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper
from django.db.utils import Error

from jobs.clock import database_clock
from operations.doctor import (
    breakers,
    claim_head,
    clocks,
    connections,
    horizon,
    installation,
    periodic,
    queues,
    schema,
    server,
    set_aside,
    table_settings,
    workers,
)
from operations.doctor.asking import STATEMENT_SECONDS
from operations.doctor.finding import Finding, Severity, problem, warning

__all__ = ["NAMES", "Finding", "Severity", "examine"]

Examination = Callable[[CursorWrapper, datetime], Finding]

EXAMINATIONS: dict[str, Examination] = {
    examination.__name__: examination
    for examination in (
        server.version,
        installation.migrations,
        schema.schema,
        table_settings.table_settings,
        server.durability,
        server.isolation,
        server.pooler,
        connections.connections,
        clocks.clocks,
        horizon.horizon,
        claim_head.claim_head,
        workers.workers,
        workers.silent_workers,
        workers.sockets,
        workers.expired_leases,
        queues.unserved_queues,
        queues.paused_queues,
        breakers.open_breakers,
        queues.unknown_kinds,
        set_aside.set_aside,
        periodic.periodic_tasks,
        periodic.sweeps,
    )
}

for app in apps.get_app_configs():
    EXAMINATIONS |= {each.__name__: each for each in getattr(app, "examinations", list)()}

NAMES = ("settings", *EXAMINATIONS)
"""Of the findings, in the order in which they are made."""


def examine(skip: Collection[str] = (), now: datetime | None = None) -> list[Finding]:
    """Everything but the findings named in `skip`. Settings that cannot work end it early: the rest reads them.

    `now` (aware) replaces the database's clock in tests. Raises: django.db.Error when the database is away.
    """
    found = [] if "settings" in skip else [installation.settings()]
    if not installation.can_be_examined():
        return found or [installation.settings()]
    instant = now or database_clock()
    return found + [_made(name, instant) for name in EXAMINATIONS if name not in skip]


def _made(name: str, now: datetime) -> Finding:
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(f"SET TRANSACTION READ ONLY; SET LOCAL statement_timeout = '{STATEMENT_SECONDS}s'")
            found = EXAMINATIONS[name](cursor, now)
            transaction.set_rollback(True)
            return found
    except Error as error:
        if not connection.is_usable():
            raise
        return _not_made(name, str(error).strip().partition("\n")[0])


def _not_made(name: str, error: str) -> Finding:
    what = f"could not be examined: {error}"
    if name == "migrations":
        return problem(name, what, "manage.py migrate says more")
    do = "apply missing migrations; a role that may not look needs GRANT pg_monitor; else wait and ask again"
    return warning(name, what, do, error=error)
