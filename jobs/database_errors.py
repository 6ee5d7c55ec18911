"""What a database error asks of the code that meets it: wait for the database, try the same again, or look at what
was asked.

The codes are those of appendix A of PostgreSQL's manual. They decide, and not the class of the exception: a server
that became read-only says `InternalError`, and so does one that ended an idle transaction.
"""

import logging
import re
from enum import Enum

import psycopg
from django.conf import settings
from django.db import connection
from django.db.utils import Error, InterfaceError, OperationalError

from jobs.conf import PROGRAM
from jobs.formatting import first_line


class Trouble(Enum):
    """What is wrong: the database is *away* (reconnect and wait), it is *busy* (the same again, a bounded number of
    times, then halved), or the statement is *ours* to mend (halve, isolate and name what is wrong; never wait)."""

    AWAY = "away"
    BUSY = "busy"
    OURS = "ours"


AWAY_CLASSES = ("08", "57P", "58")
"""The connection broke; the server stops, starts or refuses; its files cannot be read or written."""

AWAY_CODES = {
    "25006",  # read only: after a failover, or a provider's full disk
    "25P03",  # ended while idle in a transaction: the connection is gone
    "53100",  # the disk is full
    "53300",  # too many connections
}

BUSY_CODES = {
    "40001",  # serialization failure
    "40P01",  # deadlock
    "55P03",  # a lock was not had in time
    "57014",  # the statement was cancelled, or took too long
    "53200",  # out of memory
}

LOST = (OperationalError, InterfaceError, psycopg.OperationalError, psycopg.InterfaceError)
"""Without a code these mean that nothing answered."""

REFUSAL = re.compile(
    r"FATAL: .*(authentication failed|does not exist|no such (user|database)|no pg_hba\.conf entry)"
    r"|no password supplied"
)
"""Codes 28000, 28P01 and 3D000: libpq gives the message of a connection that was not made, and not its code."""


def trouble_of(error: BaseException) -> Trouble:
    """What `error`, of Django or of psycopg, asks of its caller. Anything that is no database error is *ours*.

    To be asked where the error is caught, before this thread's connection is closed.
    """
    code = code_of(error)
    if code.startswith(AWAY_CLASSES) or code in AWAY_CODES:
        return Trouble.AWAY
    if isinstance(error, Error | psycopg.Error) and _connection_is_lost():
        return Trouble.AWAY
    if code in BUSY_CODES:
        return Trouble.BUSY
    return Trouble.AWAY if isinstance(error, LOST) and not code else Trouble.OURS


def is_away(error: BaseException) -> bool:
    """Whether the database is to be waited for, on a new connection."""
    return trouble_of(error) is Trouble.AWAY


def is_busy(error: BaseException) -> bool:
    """Whether the same statement may go through when it is tried again."""
    return trouble_of(error) is Trouble.BUSY


def log_unless_away(log: logging.Logger, failed: str, error: Exception) -> None:
    """Log what failed, to be called where `error` is caught: of a busy database in a line, else with the traceback.

    Raises: `error` when the database is away.
    """
    if is_away(error):
        raise error
    if is_busy(error):
        log.warning("%s: %s", failed, str(error).strip())
    else:
        log.exception("%s", failed)


def is_refusal(error: BaseException) -> bool:
    """Whether a server that answers refuses this connection until a setting is changed."""
    return isinstance(error, LOST) and REFUSAL.search(str(error)) is not None


def code_of(error: BaseException) -> str:
    """PostgreSQL's code of `error`; empty when the server gave none."""
    for each in (error, error.__cause__):
        if code := getattr(each, "sqlstate", None):
            return str(code)
    return ""


def _connection_is_lost() -> bool:
    held = connection.connection
    return held is not None and held.closed


UNDEFINED = ("42P01", "42703")
"""PostgreSQL's codes for a table and for a column that does not exist."""


def describe(error: Error) -> str:
    """What is wrong and what to do, without a password. Empty: the database answered, and it is none of these."""
    if code_of(error) in UNDEFINED:
        return f"the database is not migrated ({first_line(str(error))}). Run `{PROGRAM} migrate` first."
    if "invalid connection option" in str(error):
        return f"the connection to the database has an unknown option: {first_line(str(error))}\n{what_to_do()}"
    return describe_away(error) if error.__cause__ is not None and is_away(error) else ""


def describe_away(error: Error) -> str:
    """That the database does not answer: names the place, never the password."""
    database = settings.DATABASES["default"]
    place = f"{database['NAME']!r} at {database['HOST'] or 'the local socket'}:{database['PORT'] or 5432}"
    return f"the database {place} does not answer: {first_line(str(error))}\n{what_to_do()}"


def what_to_do() -> str:
    """A project may have words of its own for it."""
    usual = "Check the setting DATABASES, and that the server runs."
    return str(settings.DATABASES["default"].get("WHEN_AWAY", usual))
