"""Restores a dump as a new database at its MariaDB or MySQL server, never over an existing one; a drill, into a
separate server that runs only for this purpose. Without Django.

It is loaded by `maria/steps.py`: an object that the server does not accept costs nothing else. These servers cannot
rename a database. So it has its name from the beginning and, until it is whole, a marker table: a database with this
table was left by an interrupted restore, and is made again. The table's comment is a token of the restore that made it:
of two restores under one name, the one that has been overtaken fails, and drops nothing.

The server of a drill loads no plugin, reads and writes no file for a query, and starts no event. It has one account in
addition to the system's locked one: the restoring account, which has one database. `SET USER` lets it make objects of
accounts that do not exist here, and there is no other account whose rights it could take that way.
"""

import os
import re
import secrets
import signal
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from engines.base import SourceSpec
from engines.limits import Space
from engines.mariadb.catalogue import FACT, UNFINISHED
from engines.mariadb.connection import CLIENT, NO_HOME
from engines.mariadb.engine import DATABASE, PROPERTIES
from engines.mariadb.reading import read
from engines.restores import loading
from engines.restores.maria.at_source import AtSource, LoadError, name_of, quoted, taker, text_of
from engines.restores.maria.database_names import moved
from engines.restores.maria.steps import failures_of, load, not_loaded
from engines.restores.maria.target import MariadbTarget
from engines.restores.pg import leftover
from engines.restores.pg.steps import LoadResult
from engines.restores.scratch import KEPT, NAME, Database, Scratch, ScratchServer
from engines.restores.terms import USUAL, Terms, foreseen, needs_trust
from external.processes.programs import find_mariadb_program
from external.processes.rows import row_of
from external.processes.runner import ProgramEnd
from storage.points.store import StorageStopped, Store
from storage.points.trees import opened
from storage.restoring import into_folder
from storage.restoring.base import Report, RestoreProgress, RestoreRefused, TargetFailed, Wish

LONGEST_PROPERTIES = 131_072
FILES = (DATABASE, PROPERTIES)
LOOK = """
SELECT CONCAT('{fact}', COUNT(*)) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = {name};
SELECT CONCAT('{fact}', IFNULL(MAX(TABLE_COMMENT), '-')) FROM information_schema.TABLES
 WHERE TABLE_SCHEMA = {name} AND TABLE_NAME = '{table}';
"""
IS_MINE = """
SELECT CONCAT('{fact}', COUNT(*)) FROM information_schema.TABLES
 WHERE TABLE_SCHEMA = {name} AND TABLE_NAME = '{table}' AND TABLE_COMMENT = '{token}';
"""
NO_RIGHTS = "rights of accounts to the database: none is given under its new name (globals.sql of the point has them)"
WITHOUT_LOADER = (
    "the dump was loaded with all rights of the source's account, which may make none with rights to the new database "
    "alone"
)
WITHOUT_PROPERTIES = (
    "character set and collation of the database: the point does not hold them, so its server's are used"
)

RUN_BY = " with `mariadb --force`, twice if views depend on other views"
OF_OTHERS = frozenset({1054, 1305})
"""Errors of a view or a routine, which may depend on another database, or be dead: each backup names it then."""

SOCKET, NOTHING = "socket", "nothing"
SETTINGS = (
    "--skip-networking", f"--socket={SOCKET}", "--pid-file=pid", "--skip-symbolic-links", "--local-infile=0",
    "--event-scheduler=OFF", "--skip-log-bin", "--skip-slave-start", "--performance-schema=OFF",
    "--max-connections=10", "--max-allowed-packet=1G", "--character-set-server=utf8mb4",
    "--innodb-buffer-pool-size=64M", "--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0",
    "--innodb-use-native-aio=0",
)  # fmt: skip
FIRST = (
    f"CREATE DATABASE {NAME}",
    f"CREATE USER {NAME}@localhost IDENTIFIED BY ''",
    f"GRANT ALL ON {NAME}.* TO {NAME}@localhost",
    f"GRANT SET USER ON *.* TO {NAME}@localhost",
    f"DELETE FROM mysql.global_priv WHERE User NOT IN ('{NAME}', 'mariadb.sys')",
    "FLUSH PRIVILEGES",
)
NOT_HERE = frozenset({1044, 1049, 1142, 1146, 1227, 1356, 1370, 1449, 4031})
"""Errors about rights, accounts and other databases that a scratch server does not have. A missing table is noticed by
the count anyway.
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
    asked, and the things that would be left out are named as failed. The client that loads it is the worker's, whatever
    the `loader`: it reads SQL and no other files.

    Raises: RestoreRefused for a name that is taken; StorageFailed, StorageStopped, OSError, ProgramMissing.
    """
    name = str(wish.target)
    server = AtSource(source, store)
    exists, left_by = server.ask(LOOK.format(fact=FACT, name=text_of(name), table=UNFINISHED))
    if exists != "0" and left_by == "-":
        raise RestoreRefused(f"there is a database {name!r} at {source.name} already; name one that does not exist")
    with loading.scratch_beside(cache) as scratch:
        with opened(store, wish.assignment, wish.point, cache) as tree:
            paths = tuple(each.path for each in loading.files_in(tree, FILES))
        target = MariadbTarget(server, name)
        target.check(terms)
        needs = _needs(wish, store, cache, scratch / "asked") if PROPERTIES in paths else {}
        notes = target.notes(needs)
        fetched = replace(wish, target=scratch / "dump", paths=paths)
        report = into_folder.restore(fetched, store, cache, on_step)
        if wish.dry_run:
            return foreseen(report, target.lacks(needs), notes, f"{source.name}: database {name}")
        if report.failed_files:
            return report
        loaded = _fill(server, name, fetched.target, report, left_by, terms)
    leftover.note(report, loaded, cache.parent, f"{wish.point}-{name}", RUN_BY)
    return replace(report, target=f"{source.name}: database {name}")


def _needs(wish: Wish, store: Store, cache: Path, folder: Path) -> dict[str, Any]:
    """The things that the server must have; empty if they are not known."""
    into_folder.restore(replace(wish, target=folder, paths=(PROPERTIES,), dry_run=False), store, cache)
    needs = given(folder).get("needs")
    return needs if isinstance(needs, dict) else {}


def _fill(server: AtSource, name: str, files: Path, report: Report, left_by: str, terms: Terms = USUAL) -> LoadResult:
    """Make the database and load the dump. `left_by`: the token of a restore that was interrupted. Raises: the same as
    `create`.
    """
    with loading.opened(files, DATABASE) as dump, open(dump, "rb", closefd=False) as content:
        contents = read(content, server.store.check_stop)
    drop, token = f"DROP DATABASE IF EXISTS {name_of(name)};", secrets.token_hex(8)
    is_mine = IS_MINE.format(fact=FACT, name=text_of(name), table=UNFINISHED, token=token)
    mark = f"CREATE TABLE {name_of(name)}.{UNFINISHED} (n INT) COMMENT '{token}';"
    overtaken = f"another restore made the database {name!r} at {server.source.name} in the meantime"
    server.drop_loader(left_by)
    server.ask(f"{drop} CREATE DATABASE {name_of(name)}{_properties(files, report)}; {mark}")
    try:
        loader = server.make_loader(name, token, f"aA1-{secrets.token_urlsafe(24)}")
        if not (loader or terms.trusted):
            raise RestoreRefused(needs_trust("@".join(server.account), server.source.name))
        report.not_set += [NO_RIGHTS] if loader else [NO_RIGHTS, WITHOUT_LOADER]
        loaded = load(server, name, files, contents, loader)
        if server.ask(is_mine) != ["1"]:
            raise TargetFailed(overtaken)
        if loaded.failures and contents.rows and not loaded.tables:
            raise RestoreRefused(
                f"{server.source.name} accepts nothing of the dump; the first error: {loaded.failures[0]}"
            )
        server.ask(f"DROP TABLE {name_of(name)}.{UNFINISHED};")
    except BaseException as error:
        whose = [""]
        with suppress(
            TargetFailed, RestoreRefused, StorageStopped
        ):  # if the server went away, the first error reports it
            if (whose := server.ask(is_mine)) == ["1"]:
                server.ask(drop)
        if whose == ["0"] and isinstance(error, TargetFailed):  # the account that loads has gone with it
            raise TargetFailed(overtaken) from None
        raise
    finally:
        server.drop_loader(token)
    return loaded


def given(files: Path) -> dict[str, Any]:
    """The stored properties of the database itself; empty if there are none, or the file is not one of properties."""
    with suppress(OSError), loading.opened(files, PROPERTIES) as found:
        return row_of(os.read(found, LONGEST_PROPERTIES)) or {}
    return {}


def _properties(files: Path, report: Report) -> str:
    """The properties of the database, as SQL, from checked parts."""
    said = given(files)
    character_set, collation, comment = (str(said.get(each, "")) for each in ("charset", "collation", "comment"))
    if not re.fullmatch(r"\w+", character_set) or not re.fullmatch(r"\w+", collation):
        report.not_set.append(WITHOUT_PROPERTIES)
        return ""
    sql = f" CHARACTER SET {character_set} COLLATE {collation}"
    return f"{sql} COMMENT {quoted(comment)}" if comment and "\\" not in comment else sql


def drill(files: Path, folder: Path, scratch: Scratch, space: Space, store: Store) -> Database:
    """Restore the dump that is in `files`, with a server in `folder`. Raises: StorageFailed, StorageStopped, OSError,
    ProgramMissing.
    """
    server = _ScratchMariaDb(folder / "data", scratch, space, store)
    with loading.opened(files, DATABASE) as dump, open(dump, "rb", closefd=False) as content:
        contents = read(content, store.check_stop)
    server.versioned = contents.versioned
    with server.running(server.made(), signal.SIGTERM):
        return server.count(server.load(files), contents.rows)


class _ScratchMariaDb(ScratchServer):
    count_rows = "SELECT {}, COUNT(*) FROM {};"
    versioned: Collection[str] = ()
    """Tables that also hold earlier rows, which a plain SELECT passes over."""

    def count_in(self, table: str) -> str:
        return "SELECT {}, COUNT(*) FROM {} FOR SYSTEM_TIME ALL;" if table in self.versioned else self.count_rows

    def environment(self) -> dict[str, str]:
        return NO_HOME

    def made(self) -> tuple[str, ...]:
        """Make the server's data. Returns the server's command."""
        self.own_folder(nothing := self.data.with_name(NOTHING))
        self.make(
            find_mariadb_program("mariadb-install-db"), "--no-defaults", f"--datadir={self.data}", "--skip-test-db",
            "--skip-name-resolve", "--auth-root-authentication-method=normal", f"--tmpdir={self.data}",
        )  # fmt: skip
        first = self.data / "first.sql"
        first.write_text("".join(f"{each};\n" for each in FIRST))
        first.chmod(0o644)
        return (
            find_mariadb_program("mariadbd"), "--no-defaults", f"--datadir={self.data}", *SETTINGS,
            f"--init-file={first}", f"--plugin-dir={nothing}", f"--secure-file-priv={nothing}", f"--tmpdir={self.data}",
        )  # fmt: skip

    def load(self, files: Path) -> Database:
        """Load the dump. Errors that a scratch server makes even of a sound dump are notes."""
        errors, done = list[LoadError](), Database()
        with loading.opened(files, DATABASE) as dump, moved(dump) as moving:
            ended = self._client(taker(errors), reads=moving)
        failed = failures_of(files, errors, self.store.check_stop)
        for error, statement in failed.values():
            is_note = error.number in NOT_HERE or (statement.definition and error.number in OF_OTHERS)
            (done.notes if is_note else done.wrong).append(str(not_loaded([(error, statement)])[0]))
        if ended.exit_code and not errors:
            done.wrong.append(f"the dump was loaded with code {ended.exit_code}: {' '.join(ended.last_lines[-1:])}")
        done.notes = done.notes[:KEPT]
        return done

    def ask(self, statements: list[str], on_line: Callable[[str], None] = lambda line: None) -> ProgramEnd:
        return self._client(on_line, given="\n".join(statements).encode(errors="surrogateescape"))

    def _client(self, on_line: Callable[[str], None], **given: Any) -> ProgramEnd:
        where = f"--socket={self.socket_folder()}/{SOCKET}"
        options = ("--no-defaults", "--protocol=socket", where, f"--user={NAME}", *CLIENT, "--force", NAME)
        return self.run((find_mariadb_program("mariadb"), *options), on_line, **given)
