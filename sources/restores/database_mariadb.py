"""Restores a dump as a new database at its MariaDB or MySQL server, never over one that is there. Without Django.

These servers rename no database. So it has its name from the beginning, and until it is whole a table of ours: one that
has this table is what an interrupted restore left, and is made anew. The table's comment is a token of the restore that
made it: of two under one name, the one that has been overtaken fails, and drops nothing.
"""

import math
import secrets
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from sources.engines.base import SourceSpec
from sources.engines.mariadb.engine import CLIENT, DATABASE, FACT, NO_HOME, option_file
from sources.engines.mariadb.engine import errors_of as message_of
from sources.processes import runner
from sources.processes.programs import find_mariadb_program
from sources.processes.runner import Command, Ending
from sources.storage import restoring
from sources.storage.places import Refused, Report, Step, TargetFailed, Wish
from sources.storage.store import Stopped, Store

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


def create(wish: Wish, store: Store, source: SourceSpec, cache: Path, on_step: Callable[[Step], None]) -> Report:
    """Restore the dump of a point as the database `wish.target`; block until done.

    Raises: Refused for a name that is taken; StorageFailed, Stopped, OSError, ProgramMissing.
    """
    name = str(wish.target)
    server = _Server(source, store)
    exists, is_ours, *like = server.ask(
        LOOK.format(fact=FACT, name=_text(name), source=_text(source.path), table=UNFINISHED)
    )
    if exists != "0" and is_ours == "0":
        raise Refused(f"there is a database {name!r} at {source.name} already; name one that is not there")
    with tempfile.TemporaryDirectory(dir=cache.parent, prefix="restore-") as scratch:
        fetched = replace(wish, target=Path(scratch) / "dump", paths=(DATABASE,))
        report = restoring.restore(fetched, store, cache, on_step)
        if report.failed_files:
            return report
        drop, token = f"DROP DATABASE IF EXISTS {_name(name)};", secrets.token_hex(8)
        is_mine = IS_MINE.format(fact=FACT, name=_text(name), table=UNFINISHED, token=token)
        mark = f"CREATE TABLE {_name(name)}.{UNFINISHED} (n INT) COMMENT '{token}';"
        how = f" CHARACTER SET {like[0]}" if like else ""
        server.ask(f"{drop} CREATE DATABASE {_name(name)}{how}; {mark}")
        try:
            server.load(name, fetched.target / DATABASE)
            if server.ask(is_mine) != ["1"]:
                raise TargetFailed(f"another restore made the database {name!r} at {source.name} meanwhile")
            server.ask(f"DROP TABLE {_name(name)}.{UNFINISHED};")
        except BaseException:
            with suppress(TargetFailed, Stopped):  # a server that went away: the first error says so
                if server.ask(is_mine) == ["1"]:
                    server.ask(drop)
            raise
    return replace(report, target=f"{source.name}: database {name}")


class _Server:
    def __init__(self, source: SourceSpec, store: Store) -> None:
        self.source, self.store, self.program = source, store, find_mariadb_program("mariadb")

    def ask(self, sql: str) -> list[str]:
        """What it answers. Raises: TargetFailed, Stopped."""
        return self._run(given=sql.encode())

    def load(self, database: str, dump: Path) -> None:
        with dump.open("rb") as opened:
            self._run("--", database, reads=opened.fileno())

    def _run(self, *arguments: str, given: bytes = b"", reads: int | None = None) -> list[str]:
        facts = list[str]()
        with option_file(self.source) as (option, descriptor):
            command = Command(
                (self.program, option, *CLIENT, *arguments),
                NO_HOME,
                stall_timeout=math.inf,
                grace=self.store.grace,
                given=given,
                reads=reads,
                inherited=(descriptor,),
            )
            ended = runner.run(command, stop=self.store.stop, on_line=facts.append)
        if ended.ending is Ending.STOPPED:
            raise Stopped
        if ended.exit_code:
            raise TargetFailed(f"{self.source.name}: {message_of(ended) or f'code {ended.exit_code}'}")
        return [line.removeprefix(FACT) for line in facts if line.startswith(FACT)]


def _text(value: str) -> str:
    return f"CONVERT(0x{value.encode().hex()} USING utf8mb4)"


def _name(value: str) -> str:
    return f"`{value.replace('`', '``')}`"
