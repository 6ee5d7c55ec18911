"""The server of a source, as a restore uses it: asked with the source's account, loaded with one that has rights to the
new database alone.

A dump is a program that someone else may have written: it may contain `USE`, `DROP` and `GRANT`, and after an error
mariadb continues. So the account that loads it is made for that, and dropped at the end; only this process knows its
password. It may not make objects of another account. These are made afterwards with the source's account, by a single
statement each (`EXECUTE IMMEDIATE` accepts only one) that makes a view, trigger or routine, and runs no part of it.
"""

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engines.base import SourceSpec
from engines.mariadb.catalogue import FACT
from engines.mariadb.connection import CLIENT, NO_HOME, option_file
from engines.mariadb.engine import DATABASE
from engines.mariadb.reading import DumpContents
from engines.mariadb.verdicts import AWAY, LOCKED, NOT_LET_IN
from engines.mariadb.verdicts import errors_of as message_of
from engines.restores import loading
from engines.restores.maria.database_names import moved
from engines.restores.maria.statements import DumpedStatement
from engines.restores.scratch import ran
from external.processes.programs import find_mariadb_program
from external.processes.runner import ProgramEnd
from storage.points.store import StorageStopped, Store
from storage.restoring.base import RestoreRefused, TargetFailed

ERROR = re.compile(r"ERROR (\d+) \([0-9A-Z]{5}\)(?: at line (\d+))?: (.*)")
KEPT_ERRORS, LONGEST_TEXT = 10_000, 2_000
LOADER = "backupsched_{}"
GOES_AWAY = frozenset({*AWAY, *LOCKED, *NOT_LET_IN})
"""Numbers of errors that another try may not have."""
COUNTED = re.compile(rf"{FACT}(\d+) (\d+)")


@dataclass(frozen=True)
class LoadError:
    """The server's answer to the statement that begins at a `line`. `text` may quote a row."""

    line: int
    number: int
    text: str


class AtSource:
    """The server of a source. The methods raise RestoreRefused for an error that the server answered, TargetFailed if
    it is away, StorageStopped, OSError.
    """

    def __init__(self, source: SourceSpec, store: Store) -> None:
        self.source, self.store, self.program = source, store, find_mariadb_program("mariadb")

    def ask(self, sql: str) -> list[str]:
        """Run SQL with the source's account. Returns the server's answers."""
        facts = list[str]()
        ended = self._start(self.source, facts.append, given=sql.encode())
        if ended.exit_code:
            text = f"{self.source.name}: {message_of(ended) or f'code {ended.exit_code}'}"
            numbers = {int(found[1]) for line in ended.last_lines if (found := ERROR.match(line))}
            raise TargetFailed(text) if not numbers or numbers & GOES_AWAY else RestoreRefused(text)
        return [line.removeprefix(FACT) for line in facts if line.startswith(FACT)]

    @property
    def account(self) -> tuple[str, str]:
        """The name and host of the account as which the server knows us."""
        name, _, host = self.ask(f"SELECT CONCAT('{FACT}', CURRENT_USER());")[0].rpartition("@")
        return name, host

    def make_loader(self, database: str, token: str, password: str) -> SourceSpec | None:
        """Make an account that has rights to this database alone. Returns the source with it; None if the source's
        account may not make one.
        """
        who = f"{quoted(LOADER.format(token))}@{quoted(self.account[1])}"
        pattern = name_of(re.sub(r"([\\_%])", r"\\\1", database))
        made = f"CREATE USER {who} IDENTIFIED BY {quoted(password)}; GRANT ALL ON {pattern}.* TO {who};"
        try:
            self.ask(made)
        except RestoreRefused:  # its text may quote the password
            self.drop_loader(token)
            return None
        return replace(self.source, secret=password, options=self.source.options | {"user": LOADER.format(token)})

    def drop_loader(self, token: str) -> None:
        """Drop the account of `make_loader`, if there is one."""
        if re.fullmatch(r"[0-9a-f]+", token):
            with suppress(RestoreRefused, TargetFailed, StorageStopped):
                self.ask(f"DROP USER IF EXISTS {quoted(LOADER.format(token))}@{quoted(self.account[1])};")

    def load(self, database: str, files: Path, account: SourceSpec, *, goes_on: bool) -> list[LoadError]:
        """Load the dump into a database. `goes_on`: True if it continues after an error; else the first
        one is raised.
        """
        errors = list[LoadError]()
        options = ("--force",) if goes_on else ()
        with loading.opened(files, DATABASE) as dump, moved(dump) as moving:
            ended = self._start(account, taker(errors), *options, "--", database, reads=moving)
        self._check(errors, ended)
        if errors and not goes_on:
            first = errors[0]
            raise RestoreRefused(
                f"{self.source.name}: error {first.number} at line {first.line} of the dump, and nothing was kept: the "
                "account of the source may not make another one that could continue (CREATE USER, and its rights WITH "
                "GRANT OPTION)"
            )
        return errors

    def define(self, database: str, statements: Iterable[DumpedStatement]) -> dict[int, LoadError]:
        """Make these objects, each with the settings with which it was made, by a single statement. Returns the errors
        of those that were refused, by the line of the dump.
        """
        errors, lines, script = list[LoadError](), list[int](), list[str]()
        for each in statements:
            settings = "".join(f" SET {name} = {quoted(value)};" for name, value in each.settings.items())
            script.append(f"SET NAMES utf8mb4;{settings} EXECUTE IMMEDIATE 0x{each.text.hex()};")
            lines.append(each.line)
        text = "\n".join(script).encode()
        self._check(errors, self._start(self.source, taker(errors), "--force", "--", database, given=text))
        return {lines[each.line - 1]: each for each in errors if 0 < each.line <= len(lines)}

    def count(self, database: str, contents: DumpContents) -> dict[str, int]:
        """The rows of each table that exists."""
        tables, found = list(contents.rows), dict[str, int]()

        errors = list[LoadError]()
        take_error = taker(errors)

        def take(line: str) -> None:
            if counted := COUNTED.fullmatch(line):
                found[tables[int(counted[1])]] = int(counted[2])
            else:
                take_error(line)

        with_history = dict.fromkeys(contents.versioned, " FOR SYSTEM_TIME ALL")
        script = "\n".join(
            f"SELECT CONCAT('{FACT}{number} ', COUNT(*)) FROM {table}{with_history.get(table, '')};"
            for number, table in enumerate(tables)
        )
        given = script.encode(errors="surrogateescape")
        self._check(errors, self._start(self.source, take, "--force", "--", database, given=given))
        return found

    def _check(self, errors: list[LoadError], ended: ProgramEnd) -> None:
        # at a statement, the numbers of refused connections mean other rights, such as to write a file
        away = [each for each in errors if each.number in GOES_AWAY and not (each.line and each.number in NOT_LET_IN)]
        if away or (ended.exit_code and not errors):
            text = f"error {away[0].number}: {away[0].text}" if away else message_of(ended) or f"code {ended.exit_code}"
            raise TargetFailed(f"{self.source.name}: {text}")

    def _start(self, account: SourceSpec, on_line: Callable[[str], None], *arguments: str, **given: Any) -> ProgramEnd:
        with option_file(account) as (option, descriptor):
            argv = (self.program, option, *CLIENT, *arguments)
            return ran(self.store, argv, NO_HOME, on_line, inherited=(descriptor,), **given)


def taker(errors: list[LoadError]) -> Callable[[str], None]:
    """A function that takes lines of mariadb, and keeps the errors among them."""

    def take(line: str) -> None:
        if (found := ERROR.match(line)) and len(errors) < KEPT_ERRORS:
            errors.append(LoadError(int(found[2] or 0), int(found[1]), found[3][:LONGEST_TEXT]))

    return take


def text_of(value: str) -> str:
    """Any text as SQL."""
    return f"CONVERT(0x{value.encode().hex()} USING utf8mb4)"


def quoted(value: str) -> str:
    """A text as a literal. Refuses a backslash: it is an escape in any SQL mode but one, and no caller doubles it."""
    if "\\" in value:
        raise RestoreRefused(f"{value!r} has a backslash")
    return "'" + value.replace("'", "''") + "'"


def name_of(value: str) -> str:
    """An identifier as SQL writes it."""
    return f"`{value.replace('`', '``')}`"
