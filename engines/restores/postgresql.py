"""Restores a dump as a new database at its PostgreSQL server, never over one that is there; a drill, into a server of
its own, which lives for that only. Without Django.

It is made under another name, `<name>.unfinished`, and gets its own when it is whole. So one that has the name is
whole, and what a killed restore left is dropped by the next one of that name, with what its server still does there.

Roles that the dump needs and the server has no longer are made again, as the `globals.sql` of the point says. One that
is there stays as it is: the file would give it the password and the rights of the day of the backup.
"""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from engines.base import SourceSpec
from engines.cleartext import libpq_parameters
from engines.postgresql.engine import DATABASE, GLOBALS, connection_environment
from engines.postgresql.properties import PROPERTIES
from engines.restores import loading
from engines.restores.pg import databases, leftover, proving, roles
from engines.restores.pg.contents import read
from engines.restores.pg.databases import Properties
from engines.restores.pg.loader import Loader
from engines.restores.pg.steps import Loaded, load
from engines.restores.scratch import Scratch, ran
from external.processes.runner import Ended
from storage.points.places import KEPT_TEXTS, Refused, Report, Step, TargetFailed, Wish
from storage.points.store import Store
from storage.points.trees import opened
from storage.restoring import restoring

FILES = (DATABASE, GLOBALS, PROPERTIES)
CONNECT_SECONDS = 30
UNFINISHED = ".unfinished"
LONGEST_NAME = 63
FIRST_WITH_FORCE = 130000
AGAIN_LATER = ("08", "40", "53", "55", "57", "58")
"""Classes of SQLSTATEs of a server that is away, full or busy."""

RIGHTS = """
SELECT quote_ident(current_user), rolsuper OR rolcreatedb, pg_is_in_recovery()
  FROM pg_roles WHERE rolname = current_user
"""


def create(
    wish: Wish,
    store: Store,
    source: SourceSpec,
    cache: Path,
    on_step: Callable[[Step], None],
    loader: Scratch | None = None,
) -> Report:
    """Restore the dump of a point as the database `wish.target`; block until done. `loader`: as whom, and by which
    programs, it is loaded.

    Raises: Refused for a name that is taken; StorageFailed, Stopped, OSError, ProgramMissing.
    """
    import psycopg

    name = str(wish.target)
    try:
        with _connected(source) as server:
            if server.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone():
                raise Refused(f"there is a database {name!r} at {source.name} already; name one that is not there")
            _check_rights(server, source)
            if not server.execute("SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", (name,)).fetchone()[0]:
                raise TargetFailed(f"another restore makes the database {name!r} at {source.name}")
            with tempfile.TemporaryDirectory(dir=cache.parent.resolve(), prefix="restore-") as scratch:
                fetched = replace(wish, target=Path(scratch) / "dump", paths=_files(wish, store, cache))
                report = restoring.restore(fetched, store, cache, on_step)
                if report.failed_files:
                    return report
                made = _make_roles(server, fetched.target, report)
                like = databases.of_file(loading.lines_of(fetched.target, PROPERTIES))
                with loading.opened(fetched.target, DATABASE) as dump:
                    loaded = _fill(server, dump, name, like, store, source, loader)
    except psycopg.Error as error:
        if _is_final(error):
            raise Refused(f"{source.name}: {first_line(error)}") from None
        raise TargetFailed(f"{source.name}: {first_line(error)}") from None
    more = f", with the roles that were missing: {', '.join(made)}" if made else ""
    _note(report, loaded, cache, f"{wish.point}-{name}")
    return replace(report, target=f"{source.name}: database {name}{more}")


def _check_rights(server: Any, source: SourceSpec) -> None:
    """Asked before a dump is fetched, which may take hours. Raises: Refused."""
    who, may, is_standby = server.execute(RIGHTS).fetchone()
    if is_standby:
        raise Refused(f"{source.name} is a standby, which takes no new database: restore to its primary server")
    if not may:
        raise Refused(f"{source.name}: the role {who} may not create a database there: ALTER ROLE {who} CREATEDB")


def _note(report: Report, loaded: Loaded, cache: Path, name: str) -> None:
    """What is not as in the dump."""
    report.what = "object"
    report.failed = [*map(str, loaded.failures), *loaded.lacking][:KEPT_TEXTS]
    report.failed_files = len(loaded.failures) + len(loaded.lacking)
    if loaded.failures:
        file = leftover.write(cache.parent, name, loaded.failures, f"What is not in the database of {name}, and why")
        report.elsewhere = (
            f"All else is there. {file} on the worker's host has the statements that failed, with their errors: make "
            "what they lack, and run them in that database"
        )


def _is_final(error: Any) -> bool:
    """Whether the server answered, and would answer the same again: it is not away, full or busy."""
    state = error.sqlstate or ""
    return bool(state) and state[:2] not in AGAIN_LATER and state != "25006"


def first_line(error: object) -> str:
    return str(error).strip().partition("\n")[0]


def _files(wish: Wish, store: Store, cache: Path) -> tuple[str, ...]:
    with opened(store, wish.assignment, wish.point, cache) as tree:
        return tuple(each.path for each in loading.files_in(tree, FILES))


def _make_roles(server: Any, files: Path, report: Report) -> list[str]:
    """The names of those that were missing. What could not be made is noted: the dump may need none of it."""
    if not (files / GLOBALS).exists():
        report.not_set.append("roles: the point holds none; one that the server lacks was not made")
        return []
    made = roles.make_missing(server, loading.lines_of(files, GLOBALS))
    report.not_set += made.left[:KEPT_TEXTS]
    return made.names


def _fill(
    server: Any,
    dump: int,
    name: str,
    like: Properties | None,
    store: Store,
    source: SourceSpec,
    apart: Scratch | None,
) -> Loaded:
    import psycopg
    from psycopg import sql

    unfinished = name.encode()[: LONGEST_NAME - len(UNFINISHED)].decode(errors="ignore") + UNFINISHED
    # a statement of a killed restore may go on for hours, as the making of an index does
    force = " WITH (FORCE)" if server.info.server_version >= FIRST_WITH_FORCE else ""
    drop = sql.SQL("DROP DATABASE IF EXISTS {}" + force).format(sql.Identifier(unfinished))
    server.execute(drop)
    with _loader(unfinished, store, source, apart) as loader:
        contents = read(loader, dump)
        like = like or databases.of_source(server, source.path, contents.encoding)
        databases.create(server, unfinished, like)
        try:
            loaded = load(loader, dump, contents)
            if loaded.failures and contents.rows and not loaded.tables:
                raise Refused(f"{source.name} takes nothing of the dump; the first error: {loaded.failures[0]}")
            # what is shared among databases is kept in the encoding of the one that it was said in
            with _connected(source, (unfinished,)) as inside:
                databases.furnish(inside, unfinished, like)
            server.execute(
                sql.SQL("ALTER DATABASE {} RENAME TO {}").format(sql.Identifier(unfinished), sql.Identifier(name))
            )
        except BaseException:
            with suppress(psycopg.Error):  # a server that went away: the first error says so
                server.execute(drop)
            raise
    databases.give_to_owner(server, name, like)
    loaded.lacking += like.left
    return loaded


@contextmanager
def _loader(database: str, store: Store, source: SourceSpec, apart: Scratch | None) -> Iterator[Loader]:
    from psycopg.conninfo import make_conninfo

    environment = connection_environment(source, CONNECT_SECONDS)
    parameters = libpq_parameters(source.secret, source.options)
    with loading.handed_over(parameters.get("sslrootcert", "")) as (certificates, inherited):

        def run(
            argv: tuple[str, ...],
            on_line: Callable[[str], None] = lambda line: None,
            more: tuple[int, ...] = (),
            **how: Any,
        ) -> Ended:
            return ran(store, argv, environment, on_line, inherited=(*inherited, *more), **how)

        def program(name: str) -> str:
            return loading.loader_of(name, source, apart)[0]

        parameters |= {"sslrootcert": certificates} if certificates else {}
        to = (f"--dbname={make_conninfo(dbname=database, **parameters)}",)
        yield Loader(run, program, to, account=loading.loader_of("pg_restore", source, apart)[1])


def _connected(source: SourceSpec, databases: tuple[str, ...] = ()) -> Any:
    """The server of a source, at the first of these databases that lets it in: usually one for maintenance.

    Raises: psycopg.OperationalError, that of the first.
    """
    import psycopg
    from psycopg.conninfo import make_conninfo

    first: psycopg.OperationalError | None = None
    for database in databases or ("postgres", source.path, "template1"):
        parameters = {
            "host": source.address, "port": str(source.port or 5432), "dbname": database, "application_name": "restore",
            "connect_timeout": str(CONNECT_SECONDS), "client_encoding": "UTF8",
            "user": str(source.options.get("user", "")), "password": source.secret or "",
            **libpq_parameters(source.secret, source.options),
        }  # fmt: skip
        try:
            given = make_conninfo(**{name: value for name, value in parameters.items() if value})
            return psycopg.connect(given, autocommit=True)
        except psycopg.OperationalError as error:
            first = first or error
    raise first or AssertionError


drill = proving.drill
