"""Restores a dump as a new database at its MariaDB or MySQL server, never over one that is there; a drill, into a
server of its own, which lives for that only. Without Django.

These servers rename no database. So it has its name from the beginning, and until it is whole a table of ours: one that
has this table is what an interrupted restore left, and is made anew. The table's comment is a token of the restore that
made it: of two under one name, the one that has been overtaken fails, and drops nothing.

The server of a drill loads no plugin, reads and writes no file for a query, and starts no event. It has one account
besides the system's locked one: the one that restores, which has one database. `SET USER` lets it make what belongs to
accounts that are not here, and there is none whose rights it could take by that.
"""

import secrets
import signal
import tempfile
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from sources.engines.base import SourceSpec
from sources.engines.limits import Space
from sources.engines.mariadb.catalogue import FACT
from sources.engines.mariadb.engine import CLIENT, DATABASE, NO_HOME, number_of, option_file
from sources.engines.mariadb.engine import errors_of as message_of
from sources.engines.mariadb.reading import read
from sources.processes.programs import find_mariadb_program
from sources.processes.runner import Ended
from sources.restores import loading
from sources.restores.scratch import NAME, Database, Scratch, Server, ran
from sources.storage import restoring
from sources.storage.places import Refused, Report, Step, TargetFailed, Wish
from sources.storage.store import Stopped, Store
from sources.storage.trees import opened

FILES = (DATABASE,)
UNFINISHED = "backupsched_unfinished"
LOOK = """
SELECT CONCAT('{fact}', COUNT(*)) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = {name};
SELECT CONCAT('{fact}', COUNT(*)) FROM information_schema.TABLES WHERE TABLE_SCHEMA = {name} AND TABLE_NAME = '{table}';
SELECT CONCAT('{fact}', DEFAULT_CHARACTER_SET_NAME, ' COLLATE ', DEFAULT_COLLATION_NAME)
  FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = {source};
"""
IS_MINE = """
SELECT CONCAT('{fact}', COUNT(*)) FROM information_schema.TABLES
 WHERE TABLE_SCHEMA = {name} AND TABLE_NAME = '{table}' AND TABLE_COMMENT = '{token}';
"""

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
"""Of rights, accounts and other databases that a scratch server does not have. A table that lacks is counted anyway."""


def create(
    wish: Wish,
    store: Store,
    source: SourceSpec,
    cache: Path,
    on_step: Callable[[Step], None],
    loader: Scratch | None = None,
) -> Report:
    """Restore the dump of a point as the database `wish.target`; block until done. The client that loads it is the
    worker's, whatever the `loader`: it reads SQL and no other files.

    Raises: Refused for a name that is taken; StorageFailed, Stopped, OSError, ProgramMissing.
    """
    name = str(wish.target)
    server = AtSource(source, store)
    exists, is_ours, *like = server.ask(
        LOOK.format(fact=FACT, name=_text(name), source=_text(source.path), table=UNFINISHED)
    )
    if exists != "0" and is_ours == "0":
        raise Refused(f"there is a database {name!r} at {source.name} already; name one that is not there")
    with tempfile.TemporaryDirectory(dir=cache.parent.resolve(), prefix="restore-") as scratch:
        with opened(store, wish.assignment, wish.point, cache) as tree:
            loading.files_in(tree, FILES)
        fetched = replace(wish, target=Path(scratch) / "dump", paths=FILES)
        report = restoring.restore(fetched, store, cache, on_step)
        if report.failed_files:
            return report
        drop, token = f"DROP DATABASE IF EXISTS {_name(name)};", secrets.token_hex(8)
        is_mine = IS_MINE.format(fact=FACT, name=_text(name), table=UNFINISHED, token=token)
        mark = f"CREATE TABLE {_name(name)}.{UNFINISHED} (n INT) COMMENT '{token}';"
        how = f" CHARACTER SET {like[0]}" if like else ""
        server.ask(f"{drop} CREATE DATABASE {_name(name)}{how}; {mark}")
        try:
            server.load(name, fetched.target)
            if server.ask(is_mine) != ["1"]:
                raise TargetFailed(f"another restore made the database {name!r} at {source.name} meanwhile")
            server.ask(f"DROP TABLE {_name(name)}.{UNFINISHED};")
        except BaseException:
            with suppress(TargetFailed, Stopped):  # a server that went away: the first error says so
                if server.ask(is_mine) == ["1"]:
                    server.ask(drop)
            raise
    return replace(report, target=f"{source.name}: database {name}")


class AtSource:
    def __init__(self, source: SourceSpec, store: Store) -> None:
        self.source, self.store, self.program = source, store, find_mariadb_program("mariadb")

    def ask(self, sql: str) -> list[str]:
        """What it answers. Raises: TargetFailed, Stopped."""
        return self._run(given=sql.encode())

    def load(self, database: str, files: Path) -> None:
        with loading.opened(files, DATABASE) as dump:
            self._run("--", database, reads=dump)

    def _run(self, *arguments: str, **given: Any) -> list[str]:
        facts = list[str]()
        with option_file(self.source) as (option, descriptor):
            argv = (self.program, option, *CLIENT, *arguments)
            ended = ran(self.store, argv, NO_HOME, facts.append, inherited=(descriptor,), **given)
        if ended.exit_code:
            raise TargetFailed(f"{self.source.name}: {message_of(ended) or f'code {ended.exit_code}'}")
        return [line.removeprefix(FACT) for line in facts if line.startswith(FACT)]


def _text(value: str) -> str:
    return f"CONVERT(0x{value.encode().hex()} USING utf8mb4)"


def _name(value: str) -> str:
    return f"`{value.replace('`', '``')}`"


def drill(files: Path, folder: Path, scratch: Scratch, space: Space, store: Store) -> Database:
    """Restore the dump that lies in `files`, with a server in `folder`. Raises: StorageFailed, Stopped, OSError,
    ProgramMissing."""
    server = _Scratch(folder / "data", scratch, space, store)
    with loading.opened(files, DATABASE) as dump, open(dump, "rb", closefd=False) as content:
        contents = read(content, store.go_on)
    server.versioned = contents.versioned
    with server.running(server.made(), signal.SIGTERM), loading.opened(files, DATABASE) as dump:
        return server.count(server.load(dump), contents.rows)


class _Scratch(Server):
    count_rows = "SELECT {}, COUNT(*) FROM {};"
    versioned: Collection[str] = ()
    """Tables that hold earlier rows, too, which a plain SELECT passes over."""

    def count_in(self, table: str) -> str:
        return "SELECT {}, COUNT(*) FROM {} FOR SYSTEM_TIME ALL;" if table in self.versioned else self.count_rows

    def environment(self) -> dict[str, str]:
        return NO_HOME

    def made(self) -> tuple[str, ...]:
        """Returns its command."""
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

    def load(self, dump: int) -> Database:
        errors = list[str]()
        ended = self._client(lambda line: errors.append(line) if line.startswith("ERROR ") else None, reads=dump)
        return self.judge(ended, errors, lambda error: number_of(error) in NOT_HERE)

    def ask(self, statements: list[str], on_line: Callable[[str], None] = lambda line: None) -> Ended:
        return self._client(on_line, given="\n".join(statements).encode(errors="surrogateescape"))

    def _client(self, on_line: Callable[[str], None], **given: Any) -> Ended:
        where = f"--socket={self.socket_folder()}/{SOCKET}"
        options = ("--no-defaults", "--protocol=socket", where, f"--user={NAME}", *CLIENT, "--force", NAME)
        return self.run((find_mariadb_program("mariadb"), *options), on_line, **given)
