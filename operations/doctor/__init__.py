"""`manage.py doctor`: looks at the running system, changes nothing, and says what is wrong and what to do.

Each condition is examined in a transaction of its own that is read-only, bounded in time, and rolled back. They are
declared in the modules of this package, those of other apps in their `doctor.py`.
"""

from collections.abc import Collection
from datetime import datetime
from functools import partial

from django.core.checks import ERROR
from django.db import connection, transaction
from django.db.utils import Error
from django.utils.module_loading import autodiscover_modules

from declarations.surfaces.finding import CONDITIONS, COUNT_TO, STATEMENT_SECONDS, Finding, Look, Severity, listed
from jobs.clock import database_clock
from jobs.conf import PROGRAM
from operations import checks
from operations.backlog import IN_NEED
from operations.backlog.summary import Summary, summary
from operations.doctor import installation, queues, tables, work  # noqa: F401 - declare their conditions

__all__ = ["CONDITIONS", "Finding", "Severity", "examine", "names"]


def names() -> list[str]:
    """Of the findings, in the order in which they are made."""
    autodiscover_modules("doctor")
    return ["settings", *CONDITIONS]


def examine(skip: Collection[str] = (), now: datetime | None = None) -> list[Finding]:
    """Everything but the findings named in `skip`. Settings that cannot work end it early: the rest reads them.

    `now` (aware) replaces the database's clock in tests. Raises: django.db.Error when the database is away.
    """
    autodiscover_modules("doctor")
    found = [] if "settings" in skip else [_settings()]
    if any(message.level >= ERROR for message in (*checks.check_database(), *checks.check_backlog())):
        return found or [_settings()]
    look = Look(now or database_clock(), partial(summary, bound=COUNT_TO, without=IN_NEED))
    return found + [_made(name, look) for name in CONDITIONS if name not in skip]


def _settings() -> Finding:
    """The system checks again (`operations/checks.py`), the dangerous settings of django-q2 among them."""
    makers = (checks.check_database, checks.check_backlog, checks.check_registry, checks.check_periodic_tasks)
    messages = sorted((message for make in makers for message in make()), key=lambda message: -message.level)
    if not messages:
        return Finding("settings", Severity.OK, "no system check complains", numbers={"ids": []})
    return Finding(
        "settings",
        Severity.PROBLEM if messages[0].level >= ERROR else Severity.WARNING,
        listed([f"{message.id} {message.msg}" for message in messages], len(messages)),
        listed([str(message.hint) for message in messages], len(messages)),
        {"ids": [message.id for message in messages]},
    )


def _made(name: str, look: Look[Summary]) -> Finding:
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(f"SET TRANSACTION READ ONLY; SET LOCAL statement_timeout = '{STATEMENT_SECONDS}s'")
            found = CONDITIONS[name](cursor, look)
            transaction.set_rollback(True)
            return found
    except Error as error:
        if not connection.is_usable():
            raise
        text = str(error).strip().partition("\n")[0]
        do = "apply missing migrations; a role that may not look needs GRANT pg_monitor; else wait and ask again"
        if name == "migrations":
            return Finding(name, Severity.PROBLEM, f"could not be examined: {text}", f"`{PROGRAM} migrate` says more")
        return Finding(name, Severity.WARNING, f"could not be examined: {text}", do, {"error": text})
