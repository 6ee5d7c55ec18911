"""Restores a dump as a new database at its PostgreSQL server, never over an existing one; a drill, into a separate
server that runs only for this purpose. Without Django.

It is made under another name, `<name>.unfinished`, and gets its final name when it is whole. So a database with that
name is whole, and the one that a killed restore left is dropped by the next restore of that name, with the statements
that still run in it.

Roles that the dump needs and the server has no longer are made again, as the `globals.sql` of the point says. A role
that exists stays as it is: the file would give it the password and the rights of the day of the backup.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engines.base import SourceSpec
from engines.postgresql.engine import DATABASE, GLOBALS
from engines.postgresql.properties import PROPERTIES
from engines.restores import loading
from engines.restores.pg import databases, dump_drill, leftover, roles
from engines.restores.pg.connections import connected
from engines.restores.pg.databases import Properties
from engines.restores.pg.dump_restore import DumpRestore
from engines.restores.pg.target import PostgresqlTarget
from engines.restores.scratch import Scratch
from engines.restores.terms import USUAL, Terms, foreseen
from storage.points.store import Store
from storage.points.trees import opened
from storage.restoring import into_folder
from storage.restoring.base import KEPT_TEXTS, Report, RestoreProgress, RestoreRefused, TargetFailed, Wish

FILES = (DATABASE, GLOBALS, PROPERTIES)
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
    on_step: Callable[[RestoreProgress], None],
    loader: Scratch | None = None,
    terms: Terms = USUAL,
) -> Report:
    """Restore the dump of a point as the database `wish.target`; block until done. In a dry run the server is only
    asked, and the things that would be left out are named as failed. `loader`: the account and the programs that load
    it.

    Raises: RestoreRefused for a name that is taken; StorageFailed, StorageStopped, OSError, ProgramMissing.
    """
    import psycopg

    name = str(wish.target)
    try:
        with connected(source) as server, loading.scratch_beside(cache) as scratch:
            if server.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone():
                raise RestoreRefused(
                    f"there is a database {name!r} at {source.name} already; name one that does not exist"
                )
            _check_rights(server, source)
            if not server.execute("SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", (name,)).fetchone()[0]:
                raise TargetFailed(f"another restore makes the database {name!r} at {source.name}")
            asked = _ask(server, wish, store, source, cache, scratch / "asked", terms)
            fetched = replace(wish, target=scratch / "dump", paths=asked.paths)
            report = into_folder.restore(fetched, store, cache, on_step)
            if wish.dry_run:
                # the server notices that a connection has ended a moment later, and the restore may come before that
                server.execute("SELECT pg_advisory_unlock_all()")
                return foreseen(report, asked.lacks, asked.notes, f"{source.name}: database {name}")
            if report.failed_files:
                return report
            made = _make_roles(server, fetched.target, report, terms)
            with loading.opened(fetched.target, DATABASE) as dump:
                loaded = DumpRestore(server, source, store, dump, asked.like, loader, terms).make(name)
    except psycopg.Error as error:
        if _is_final(error):
            raise RestoreRefused(f"{source.name}: {first_line(error)}") from None
        raise TargetFailed(f"{source.name}: {first_line(error)}") from None
    more = f", with the roles that were missing: {', '.join(made)}" if made else ""
    leftover.note(report, loaded, cache.parent, f"{wish.point}-{name}", "")
    return replace(report, target=f"{source.name}: database {name}{more}")


@dataclass
class _ServerAnswers:
    """A server's answers before a dump is fetched. `paths`: of the point; `lacks`: the things that would
    be left out.
    """

    paths: tuple[str, ...]
    like: Properties | None
    lacks: list[str]
    notes: list[str]


def _ask(
    server: Any, wish: Wish, store: Store, source: SourceSpec, cache: Path, folder: Path, terms: Terms
) -> _ServerAnswers:
    """Fetch the small files, and ask the server for what they need. Raises: RestoreRefused if there is no room;
    StorageFailed.
    """
    paths = _files(wish, store, cache)
    small = tuple(each for each in paths if each != DATABASE)
    if small:
        into_folder.restore(replace(wish, target=folder, paths=small, dry_run=False), store, cache)
    like = databases.of_file(loading.lines_of(folder, PROPERTIES))
    target = PostgresqlTarget(server)
    target.check_login(source, terms)
    lacks = target.lacks(like, loading.lines_of(folder, GLOBALS), terms)
    return _ServerAnswers(paths, like, lacks, target.notes(source, like))


def _check_rights(server: Any, source: SourceSpec) -> None:
    """Check the account's rights before a dump is fetched, which may take hours. Raises: RestoreRefused."""
    who, may, is_standby = server.execute(RIGHTS).fetchone()
    if is_standby:
        raise RestoreRefused(f"{source.name} is a standby, and accepts no new database: restore to its primary")
    if not may:
        raise RestoreRefused(
            f"{source.name}: the role {who} may not create a database there: ALTER ROLE {who} CREATEDB"
        )


def _is_final(error: Any) -> bool:
    """True if the server answered, and would answer the same again: it is not away, full or busy."""
    state = error.sqlstate or ""
    return bool(state) and state[:2] not in AGAIN_LATER and state != "25006"


def first_line(error: object) -> str:
    return str(error).strip().partition("\n")[0]


def _files(wish: Wish, store: Store, cache: Path) -> tuple[str, ...]:
    with opened(store, wish.assignment, wish.point, cache) as tree:
        return tuple(each.path for each in loading.files_in(tree, FILES))


def _make_roles(server: Any, files: Path, report: Report, terms: Terms) -> list[str]:
    """Make the roles that are missing, and return their names. Failures are noted: the dump may need none of these."""
    if not (files / GLOBALS).exists():
        report.not_set.append("roles: the point holds none; one that the server lacks was not made")
        return []
    lines = loading.lines_of(files, GLOBALS)
    made = roles.make_missing(server, lines, with_rights=terms.roles_with_rights)
    report.not_set += made.left[:KEPT_TEXTS]
    return made.names


drill = dump_drill.drill
