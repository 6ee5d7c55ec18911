"""The right reaction to a database error: wait for the database, try the same again, or look at the statement.

The codes are those of appendix A of PostgreSQL's manual. They decide, and not the class of the exception: a server that
became read-only raises `InternalError`, and so does one that ended an idle transaction.
"""

import logging
import re
from enum import Enum

import psycopg
from django.conf import settings
from django.db import connection
from django.db.migrations.exceptions import MigrationSchemaMissing
from django.db.utils import Error, InterfaceError, OperationalError

from external.formatting import first_line
from jobs import schema_check
from jobs.conf import PROGRAM


class DatabaseTrouble(Enum):
    """The kind of an error: the database is *away* (reconnect and wait), it is *busy* (try the same again, a bounded
    number of times, then half of it), or the statement is *ours* to correct (halve it, isolate and name the cause;
    never wait).
    """

    AWAY = "away"
    BUSY = "busy"
    OURS = "ours"


AWAY_CLASSES = ("08", "57P", "58")
"""The connection broke; the server stops, starts or refuses; its files cannot be read or written."""

READ_ONLY = "25006"
"""The SQLSTATE of a read-only server, after a failover or on a provider's full disk."""

AWAY_CODES = {
    READ_ONLY,
    "25P03",  # ended while idle in a transaction: the connection is gone
    "53100",  # the disk is full
    "53300",  # too many connections
}

LOCK_NOT_HAD = "55P03"
"""A lock was not obtained within `lock_timeout`."""

BUSY_CODES = {
    "40001",  # serialization failure
    "40P01",  # deadlock
    LOCK_NOT_HAD,
    "57014",  # the statement was cancelled, or took too long
    "53200",  # out of memory
}

LOST = (OperationalError, InterfaceError, psycopg.OperationalError, psycopg.InterfaceError)
"""Errors that, without a code, mean that nothing answered."""

REFUSAL = re.compile(
    r"FATAL: .*(authentication failed|does not exist|no such (user|database)|no pg_hba\.conf entry)"
    r"|no password supplied"
)
"""Codes 28000, 28P01 and 3D000: libpq gives the message of a connection that was not made, and not its code."""


def trouble_of(error: BaseException) -> DatabaseTrouble:
    """The kind of `error`, of Django or of psycopg. Any error that is not the database's is *ours*.

    Must be called where the error is caught, before this thread's connection is closed.
    """
    code = code_of(error)
    if code.startswith(AWAY_CLASSES) or code in AWAY_CODES:
        return DatabaseTrouble.AWAY
    if isinstance(error, Error | psycopg.Error) and _connection_is_lost():
        return DatabaseTrouble.AWAY
    if code in BUSY_CODES:
        return DatabaseTrouble.BUSY
    return DatabaseTrouble.AWAY if isinstance(error, LOST) and not code else DatabaseTrouble.OURS


def is_away(error: BaseException) -> bool:
    """True if the database must be waited for, on a new connection."""
    return trouble_of(error) is DatabaseTrouble.AWAY


def is_busy(error: BaseException) -> bool:
    """True if the same statement may succeed when it is tried again."""
    return trouble_of(error) is DatabaseTrouble.BUSY


def log_unless_away(log: logging.Logger, failed: str, error: Exception) -> None:
    """Log the failure of an action, to be called where `error` is caught: one line if the database is busy, otherwise
    with the traceback.

    Raises: `error` if the database is down.
    """
    if is_away(error):
        raise error
    if is_busy(error):
        log.warning("%s: %s", failed, str(error).strip())
    else:
        log.exception("%s", failed)


def is_refusal(error: BaseException) -> bool:
    """True if a server that answers refuses this connection until a setting is changed."""
    return isinstance(error, LOST) and REFUSAL.search(str(error)) is not None


def code_of(error: BaseException) -> str:
    """PostgreSQL's code of `error`; empty when the server gave none."""
    return str(getattr(_of_server(error), "sqlstate", None) or "")


def _of_server(error: BaseException) -> BaseException:
    """psycopg's error, which Django wraps once, and `migrate` twice; `error` itself if there is none."""
    each: BaseException | None = error
    while each is not None and not isinstance(each, psycopg.Error):
        each = each.__context__ if isinstance(each, MigrationSchemaMissing) else each.__cause__
    return each or error


def _connection_is_lost() -> bool:
    held = connection.connection
    return held is not None and held.closed


UNDEFINED = ("42P01", "42703")
"""PostgreSQL's codes for a table and for a column that does not exist."""

NO_RIGHT = "42501"


def describe(error: Error) -> str:
    """The problem and remedy, without a password. Empty if the database answered and the error is not one of these."""
    if code_of(error) in UNDEFINED:
        return _newer_tables() or (
            f"the database is not migrated ({first_line(str(error))}). Run `{PROGRAM} migrate` first."
        )
    if "invalid connection option" in str(error):
        return f"the connection to the database has an unknown option: {first_line(str(error))}\n{what_to_do()}"
    if code_of(error) == NO_RIGHT:
        return _describe_right(first_line(str(_of_server(error))))
    is_of_server = error.__cause__ is not None or code_of(error)
    return describe_away(error) if is_of_server and is_away(error) else ""


def _newer_tables() -> str:
    """The reason where the tables are of a newer version; empty if they are not, or if nothing can be asked now."""
    try:
        return schema_check.newer_tables()
    except Error:
        return ""


def describe_away(error: Error) -> str:
    """A message that the database does not answer, or accepts no writes: names the place, never the password."""
    said = first_line(str(_of_server(error)))
    if code_of(error) == READ_ONLY:
        return (
            f"the database {_place()} accepts no writes: {said}\nIf it is a standby, connect to its primary server; if "
            "not, find out why default_transaction_read_only is on there."
        )
    return f"the database {_place()} does not answer: {said}\n{what_to_do()}"


def _describe_right(said: str) -> str:
    role = settings.DATABASES["default"].get("USER") or "of this account"
    grant = f", or allow it: GRANT USAGE, CREATE ON {said.partition(' for ')[2]} TO {role}"
    return (
        f"the role {role!r} lacks a right in the database {_place()}: {said}\nRun this as the role that owns the tables"
        f"{grant if ' for schema ' in said else ''}."
    )


def _place() -> str:
    database = settings.DATABASES["default"]
    return f"{database['NAME']!r} at {database['HOST'] or 'the local socket'}:{database['PORT'] or 5432}"


def what_to_do() -> str:
    """The remedy; a project may have its own words for it."""
    usual = "Check the setting DATABASES, and that the server runs."
    return str(settings.DATABASES["default"].get("WHEN_AWAY", usual))
