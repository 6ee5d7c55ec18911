"""The server: its version, what it does with a commit, how it isolates transactions, and what stands before it."""

from datetime import datetime

from django.db import connection
from django.db.backends.utils import CursorWrapper

from jobs import conf
from operations.doctor.asking import row, settings_of_server
from operations.doctor.finding import Finding, ok, problem, warning

MIN_VERSION = 140_000
"""PostgreSQL 14, the oldest that the statements are tested with."""

READ_COMMITTED = ("read committed", "read uncommitted")
"""PostgreSQL runs both alike."""


def version(cursor: CursorWrapper, now: datetime) -> Finding:
    """Whether this PostgreSQL is new enough."""
    name, number = row(cursor, "SELECT current_setting('server_version'), current_setting('server_version_num')::int")
    return _version(str(name), int(number))


def _version(name: str, number: int) -> Finding:
    if number < MIN_VERSION:
        return problem(
            "version",
            f"this is PostgreSQL {name}; 14 or later is needed",
            "move the database to a newer server (pg_dump, pg_restore)",
            server_version_num=number,
        )
    return ok("version", f"PostgreSQL {name}", server_version_num=number)


def durability(cursor: CursorWrapper, now: datetime) -> Finding:
    """Whether a commit survives a crash of the server."""
    return _durability(settings_of_server(cursor, "fsync", "full_page_writes", "synchronous_commit"))


def _durability(settings: dict[str, str]) -> Finding:
    off = [name for name in ("fsync", "full_page_writes") if settings[name] == "off"]
    if off:
        return problem(
            "durability",
            f"{' and '.join(off)} off: a crash of the server's machine can destroy the database",
            f"set {' and '.join(f'{name} = on' for name in off)} in postgresql.conf, and reload it",
            **settings,
        )
    if settings["synchronous_commit"] == "off":
        return warning(
            "durability",
            "synchronous_commit is off: a crash forgets the last commits, so backups that succeeded run again",
            "set synchronous_commit = on for this database or its role",
            **settings,
        )
    return ok("durability", "commits survive a crash", **settings)


def isolation(cursor: CursorWrapper, now: datetime) -> Finding:
    """Whether transactions see what others committed meanwhile: the throttles count on it."""
    names = ("default_transaction_isolation", "transaction_isolation")
    settings = settings_of_server(cursor, *names)
    wrong = {name: level for name, level in settings.items() if level not in READ_COMMITTED}
    if wrong:
        name, level = next(iter(wrong.items()))
        return problem(
            "isolation",
            f"{name} is {level!r}: throttles let too many records run, and claims fail to serialise",
            "ALTER DATABASE … and ALTER ROLE … RESET default_transaction_isolation, and look into postgresql.conf and "
            "the OPTIONS of DATABASES; then start the workers again",
            **settings,
        )
    return ok("isolation", "transactions read what is committed", **settings)


def pooler(cursor: CursorWrapper, now: datetime) -> Finding:
    """Whether a pooler stands before the server. It gives its clients made-up process ids; PostgreSQL gives its own."""
    raw = connection.connection
    at_client = raw.info.backend_pid
    return _pooler(at_client, int(row(cursor, "SELECT pg_backend_pid()")[0]), listens=conf.listens())


def _pooler(at_client: int, at_server: int, *, listens: bool) -> Finding:
    if at_client == at_server:
        return ok("pooler", "connections are direct", pooled=False)
    if not listens:
        return ok("pooler", "behind a pooler, and workers poll", pooled=True)
    return warning(
        "pooler",
        "a pooler (PgBouncer) stands before the server, while workers listen and prepare statements",
        "if it pools transactions: BACKUPSCHED_WAKE=poll for all processes, or a direct DATABASE_URL for the workers; "
        "if it pools sessions, nothing",
        pooled=True,
    )
