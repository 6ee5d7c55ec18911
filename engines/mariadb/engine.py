"""Engine mariadb_dump: one database of a MariaDB or MySQL server as SQL, and the server's accounts.

    database.sql    tables with their rows, views, triggers, routines and events, of one moment (InnoDB); read back as a
                    stream: a dump that was cut off lacks its last line
    database.json   character set, collation and comment of the database, which its dump lacks
    globals.sql     users with the hashes of their passwords, roles and grants (`mariadb-dump --system=users`)

Both SQL files go into a server by `mariadb --binary-mode NAME < database.sql`, the accounts first.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from engines.base import BackupTask, RunEnded, RunStalled, Verdict
from engines.dumps import Dump, DumpEngine
from engines.engine import EngineRun
from engines.mariadb.catalogue import FACT, QUERIES, MariadbCatalogue, listed
from engines.mariadb.connection import CLIENT, LONGEST_ROW, NO_HOME, needs_encryption, option_file
from engines.mariadb.lock_limit import ASK, LockLimit
from engines.mariadb.reading import DumpContents, read
from engines.mariadb.verdicts import NOT_WRITABLE, WAITS, errors_of, judge_dump, judge_forced, number_of
from external.processes.programs import find_mariadb_program
from external.processes.runner import ProgramEnd, StopSignal

DATABASE, GLOBALS, PROPERTIES = "database.sql", "globals.sql", "database.json"
FORCE = "--force"
"""Continue after an error of one object, such as a view over a table that is gone."""
DUMPED = (
    "--single-transaction", "--quick", "--routines", "--events", "--triggers", "--hex-blob", "--no-tablespaces",
    "--skip-add-locks",
    "--default-character-set=utf8mb4", LONGEST_ROW,
)  # fmt: skip
"""Options of mariadb-dump: one moment of all tables with transactions, and everything that belongs to a database."""
WITHOUT_GLOBALS = (
    "the users, roles and grants of the server were not kept, which needs MariaDB's mariadb-dump and the right to "
    "read the database mysql: create them before a restore"
)
NO_SUCH_ACCOUNT = frozenset({1133, 1141})
WITHOUT_SOME = (
    "accounts that are bound to a host name were not kept: the server looks up no names (skip_name_resolve), "
    "so they mean nothing to it"
)
NOT_IN_DUMP = "not in the dump: {}"
HISTORY = "--dump-history"


class MariadbDumpEngine(DumpEngine):
    """The engine of sources of kind mariadb."""

    name = "mariadb_dump"

    def find_programs(self) -> None:
        for name in ("mariadb-dump", "mariadb"):
            find_mariadb_program(name)

    def write(self, dump: Dump) -> tuple[str, tuple[str, ...]]:
        task, program = dump.task, find_mariadb_program("mariadb-dump")
        with option_file(task.source) as (option, descriptor):

            def start(*arguments: str, alive: Callable[[], object]) -> ProgramEnd:
                return dump.start((program, option, *arguments), NO_HOME, sign_of_life=alive, inherited=(descriptor,))

            catalogue = _look(dump, option, descriptor)
            history = _history_option(dump, program)
            file = dump.new_file(DATABASE)
            arguments = (*DUMPED, *history, FORCE, f"--result-file={file}", "--", task.source.path)
            try:
                limit = LockLimit(dump.grows, lambda: _wait_of(dump, option, descriptor))
                said = judge_forced(start(*arguments, alive=limit), task)
            except RunStalled as error:
                raise RunEnded(error.verdict, f"{error}{WAITS}") from None
            warnings = (*catalogue.warnings(with_history=bool(history)), *said)
            contents = _read(file, dump)
            dump.tables, dump.rows = len(contents.rows), sum(contents.rows.values())
            warnings += _compare(catalogue, contents, said)
            warnings += _dump_globals(dump, start)
            dump.new_file(PROPERTIES).write_text(json.dumps(catalogue.properties | {"needs": catalogue.needs}))
            judge_dump(version := dump.start((program, "--version")), task)
        return version.last_lines[-1], warnings

    def look(self, task: BackupTask, stop: StopSignal) -> str:
        run, program = EngineRun(task, stop), find_mariadb_program("mariadb-dump")
        with option_file(task.source) as (option, descriptor):
            catalogue = _look(run, option, descriptor)
            if catalogue.lacking:
                raise RunEnded(Verdict.SOURCE_FAILED, catalogue.lacking)
            history = _history_option(run, program)
            arguments = (option, *DUMPED, "--no-data", FORCE, "--result-file=/dev/null", "--", task.source.path)
            said = judge_forced(run.start((program, *arguments), NO_HOME, inherited=(descriptor,)), task)
        found = f"mariadb-dump may read the database {task.source.path}"
        return "; ".join([found, *catalogue.warnings(with_history=bool(history)), *said])


def _look(run: EngineRun, option: str, descriptor: int) -> MariadbCatalogue:
    """Read the catalogue of the database. Raises: RunEnded for a connection that is not encrypted though it must be,
    and for a database that a restore has not finished.
    """
    source = run.task.source
    found = MariadbCatalogue(source.path)
    timeout = f"--connect-timeout={max(1, round(run.task.connect_timeout))}"
    argv = (find_mariadb_program("mariadb"), option, *CLIENT, timeout, "--", source.path)
    judge_dump(run.start(argv, NO_HOME, given=QUERIES.encode(), on_line=found.take, inherited=(descriptor,)), run.task)
    if needs_encryption(source) and not found.cipher:
        raise RunEnded(
            Verdict.SOURCE_FAILED,
            "the server encrypts no connections, so nothing was read: give it a certificate, or accept that with "
            'the option "sslmode": "disable" if everything on the way is yours',
        )
    if found.is_unfinished:
        raise RunEnded(Verdict.NOT_FOR_NOW, "a restore makes this database, or was interrupted: finish or repeat it")
    return found


def _wait_of(run: EngineRun, option: str, descriptor: int) -> list[str]:
    """The seconds for which the dump has been waiting for a lock; empty if it does not wait, or that is not known."""
    found = list[str]()
    argv = (find_mariadb_program("mariadb"), option, *CLIENT, "--", run.task.source.path)
    with suppress(RunStalled):
        run.start(argv, NO_HOME, given=ASK.encode(), on_line=found.append, inherited=(descriptor,))
    return [line.removeprefix(FACT) for line in found if line.startswith(FACT)]


def _history_option(run: EngineRun, program: str) -> tuple[str, ...]:
    """The option of mariadb-dump for earlier rows of tables with system versioning, if it has one."""
    helped = list[str]()
    run.start((program, "--no-defaults", "--help"), NO_HOME, on_line=helped.append)
    return (HISTORY,) if any(HISTORY in line for line in helped) else ()


def _compare(catalogue: MariadbCatalogue, contents: DumpContents, said: tuple[str, ...]) -> tuple[str, ...]:
    """A warning about the objects that the dump lacks. Raises: RunEnded for an empty dump of a database that is not
    empty.
    """
    missing = catalogue.missing_in(contents)
    if missing and not contents.rows and catalogue.has_tables:
        raise RunEnded(Verdict.SOURCE_FAILED, f"no table is in the dump: {'; '.join(said) or listed(missing)}")
    return (NOT_IN_DUMP.format(listed(missing)),) if missing else ()


def _dump_globals(dump: Dump, start: Callable[..., ProgramEnd]) -> tuple[str, ...]:
    """Dump the server's accounts. Returns warnings: a database without its server's accounts is still a backup."""
    file = dump.new_file(GLOBALS)
    try:
        ended = start("--system=users", "--force", f"--result-file={file}", alive=dump.size)
        message, numbers = errors_of(ended), {number_of(line) for line in ended.last_lines} - {0}
        if numbers <= NO_SUCH_ACCOUNT and bool(numbers) is bool(ended.exit_code):
            _read(file, dump)
            return (WITHOUT_SOME,) if numbers else ()
        if NOT_WRITABLE.search(message):
            judge_dump(ended, dump.task)
    except RunStalled as error:
        message = str(error)
    dump.leave_out(GLOBALS)
    reason = message.rpartition("': ")[2]  # behind the query, which it repeats
    return (f"{WITHOUT_GLOBALS} ({reason})",)


def _read(file: Path, dump: Dump) -> DumpContents:
    with file.open("rb") as opened:
        found = read(opened, dump.store.check_stop)
    if not found.is_whole:
        text = "the dump is cut off, although its program reported no error; so it was removed"
        raise RunEnded(Verdict.REPOSITORY_FAILED, text)
    return found
