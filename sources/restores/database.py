"""Restores a dump as a new database at its source, never over one that is there. Without Django.

It is made under another name, `<name>.unfinished`, and gets its own when it is whole. So one that has the name is
whole, and what an interrupted restore left is made anew.
"""

import math
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from sources.engines.base import SourceSpec
from sources.engines.cleartext import libpq_parameters
from sources.engines.pg_dump.arguments import connection_environment
from sources.engines.pg_dump.engine import DATABASE
from sources.engines.pg_dump.verdicts import message_of
from sources.processes import runner
from sources.processes.programs import find_postgresql_program
from sources.processes.runner import Command, Ending
from sources.storage import restoring
from sources.storage.places import Refused, Report, Step, Wish
from sources.storage.store import Stopped, StorageFailed, Store

CONNECT_SECONDS = 30
UNFINISHED = ".unfinished"
LONGEST_NAME = 63
ALIKE = "SELECT pg_encoding_to_char(encoding), datcollate, datctype FROM pg_database WHERE datname = %s"


def create(wish: Wish, store: Store, source: SourceSpec, cache: Path, on_step: Callable[[Step], None]) -> Report:
    """Restore the dump of a point as the database `wish.target`; block until done.

    Raises: Refused for a name that is taken; StorageFailed, Stopped, OSError, ProgramMissing.
    """
    import psycopg

    name, program = str(wish.target), find_postgresql_program("pg_restore")
    try:
        with _connected(source) as server:
            if server.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone():
                raise Refused(f"there is a database {name!r} at {source.name} already; name one that is not there")
            with tempfile.TemporaryDirectory(dir=cache.parent, prefix="restore-") as scratch:
                fetched = replace(wish, target=Path(scratch) / "dump", paths=(DATABASE,))
                report = restoring.restore(fetched, store, cache, on_step)
                if report.failed_files:
                    return report
                _fill(server, program, fetched.target / DATABASE, name, store, source)
    except psycopg.Error as error:
        raise StorageFailed(f"{source.name}: {str(error).strip()}") from None
    return replace(report, target=f"{source.name}: database {name}")


def _fill(server: Any, program: str, dump: Path, name: str, store: Store, source: SourceSpec) -> None:
    from psycopg import sql

    unfinished = name.encode()[: LONGEST_NAME - len(UNFINISHED)].decode(errors="ignore") + UNFINISHED
    drop = sql.SQL("DROP DATABASE IF EXISTS {}").format(sql.Identifier(unfinished))
    server.execute(drop)
    like = server.execute(ALIKE, (source.path,)).fetchone()
    how = sql.SQL("ENCODING {} LC_COLLATE {} LC_CTYPE {}").format(*map(sql.Literal, like)) if like else sql.SQL("")
    server.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0 ").format(sql.Identifier(unfinished)) + how)
    try:
        _restore_into(unfinished, program, dump, store, source)
        server.execute(
            sql.SQL("ALTER DATABASE {} RENAME TO {}").format(sql.Identifier(unfinished), sql.Identifier(name))
        )
    except BaseException:
        server.execute(drop)
        raise


def _restore_into(database: str, program: str, dump: Path, store: Store, source: SourceSpec) -> None:
    from psycopg.conninfo import make_conninfo

    given = make_conninfo(dbname=database, **libpq_parameters(source.secret, source.options))
    command = Command(
        (program, "--exit-on-error", "--no-password", f"--dbname={given}", str(dump)),
        connection_environment(source, CONNECT_SECONDS),
        stall_timeout=math.inf,
        grace=store.grace,
    )
    ended = runner.run(command, stop=store.stop)
    if ended.ending is Ending.STOPPED:
        raise Stopped
    if ended.exit_code:
        raise StorageFailed(f"pg_restore at {source.name}: {message_of(ended) or f'code {ended.exit_code}'}")


def _connected(source: SourceSpec) -> Any:
    """The server of a source, at its maintenance database."""
    import psycopg
    from psycopg.conninfo import make_conninfo

    parameters = {
        "host": source.address, "port": str(source.port or 5432), "dbname": "postgres", "application_name": "restore",
        "connect_timeout": str(CONNECT_SECONDS), "user": str(source.options.get("user", "")),
        "password": source.secret or "", **libpq_parameters(source.secret, source.options),
    }  # fmt: skip
    given = make_conninfo(**{name: value for name, value in parameters.items() if value})
    return psycopg.connect(given, autocommit=True)
