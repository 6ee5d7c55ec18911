"""Engine mariadb_dump: one database of a MariaDB or MySQL server as SQL, and the server's accounts.

    database.sql    tables with their rows, views, triggers, routines and events, of one moment (InnoDB); read back as a
                    stream: a dump that was cut off lacks its last line
    globals.sql     users with the hashes of their passwords, roles and grants (`mariadb-dump --system=users`)

Both go into a server by `mariadb --binary-mode NAME < database.sql`, the accounts first.
"""

import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sources.engines.base import BackupTask, RunEnded, SourceSpec, Verdict
from sources.engines.dumps import Dump, DumpEngine
from sources.engines.mariadb.arguments import CLIENT, DUMPED, needs_encryption, options_of
from sources.engines.mariadb.reading import read
from sources.engines.mariadb.verdicts import NOT_WRITABLE, judge, message_of, number_of
from sources.processes import runner
from sources.processes.programs import find_mariadb_program
from sources.processes.runner import Command, Ended, Ending, StopSignal
from sources.storage.store import Stopped

DATABASE, GLOBALS = "database.sql", "globals.sql"
NO_HOME = {"HOME": "/dev/null/none"}
"""MySQL's programs read `~/.mylogin.cnf`, too, whatever option file is named."""
FACT = "fact "
"""Begins what a query finds, beside what a program warns of."""
FACTS = f"""
SHOW SESSION STATUS LIKE 'Ssl_cipher';
SELECT CONCAT('{FACT}', TABLE_NAME, ' (', ENGINE, ')') FROM information_schema.TABLES
 WHERE TABLE_SCHEMA = DATABASE() AND TABLE_TYPE = 'BASE TABLE' AND ENGINE NOT IN ('InnoDB', 'ROCKSDB') LIMIT 21;
"""
SHOWN_TABLES = 20
WITHOUT_GLOBALS = (
    "the users, roles and grants of the server were not kept, which needs MariaDB's mariadb-dump and the right to "
    "read the database mysql: create them before a restore"
)
NO_SUCH_ACCOUNT = frozenset({1133, 1141})
WITHOUT_SOME = (
    "accounts that are bound to the name of a host were not kept: the server looks up no names (skip_name_resolve), so "
    "it knows none of them"
)
TORN = "not of the same moment as the rest, since these tables know no transactions: "


class MariadbDumpEngine(DumpEngine):
    """Dumps a source of kind mariadb."""

    name = "mariadb_dump"

    def find_programs(self) -> None:
        for name in ("mariadb-dump", "mariadb"):
            find_mariadb_program(name)

    def write(self, dump: Dump) -> tuple[str, tuple[str, ...]]:
        task, program = dump.task, find_mariadb_program("mariadb-dump")
        with option_file(task.source) as (option, descriptor):

            def start(*arguments: str, alive: Callable[[], object] | None = None) -> Ended:
                argv = (program, option, *arguments)
                return dump.start(argv, NO_HOME, sign_of_life=alive, inherited=(descriptor,))

            warnings = self._look(task, dump.stop, (option, descriptor))
            file = dump.new_file(DATABASE)
            judge(start(*DUMPED, f"--result-file={file}", "--", task.source.path, alive=dump.grows), task)
            _check(file, dump)
            warnings += self._dump_globals(dump, start)
            judge(version := dump.start((program, "--version")), task)
        return version.last_lines[-1], warnings

    def look(self, task: BackupTask, stop: StopSignal) -> str:
        with option_file(task.source) as options:
            self._look(task, stop, options)
            argv = (find_mariadb_program("mariadb-dump"), options[0], *DUMPED, "--no-data", "--result-file=/dev/null")
            command = Command(
                (*argv, "--", task.source.path), NO_HOME, grace=task.program_grace, inherited=(options[1],)
            )
            judge(runner.run(command, stop=stop), task)
        return f"mariadb-dump may read the database {task.source.path}"

    def _look(self, task: BackupTask, stop: StopSignal, options: tuple[str, int]) -> tuple[str, ...]:
        """Refuse a connection that is not as it has to be. Returns warnings."""
        facts = list[str]()
        timeout = f"--connect-timeout={max(1, round(task.connect_timeout))}"
        command = Command(
            (find_mariadb_program("mariadb"), options[0], *CLIENT, timeout, "--", task.source.path),
            NO_HOME,
            given=FACTS.encode(),
            stall_timeout=task.stall_timeout,
            grace=task.program_grace,
            inherited=(options[1],),
        )
        judge(runner.run(command, stop=stop, on_line=lambda line: facts.append(line)), task)
        if needs_encryption(task.source) and not any(re.match(r"Ssl_cipher\t.", line) for line in facts):
            raise RunEnded(
                Verdict.SOURCE_FAILED,
                "the server encrypts no connections, so nothing was read: give it a certificate, or accept that with "
                'the option "sslmode": "disable" if everything on the way is yours',
            )
        torn = [line.removeprefix(FACT) for line in facts if line.startswith(FACT)]
        more = ", …" if len(torn) > SHOWN_TABLES else ""
        return (TORN + ", ".join(torn[:SHOWN_TABLES]) + more,) if torn else ()

    def _dump_globals(self, dump: Dump, start: Callable[..., Ended]) -> tuple[str, ...]:
        """Returns warnings. A database without its server's accounts is still a backup."""
        file = dump.new_file(GLOBALS)
        ended = start("--system=users", "--force", f"--result-file={file}", alive=dump.size)
        numbers = {number_of(line) for line in ended.last_lines} - {0}
        if ended.ending is Ending.EXITED and numbers <= NO_SUCH_ACCOUNT and bool(numbers) is bool(ended.exit_code):
            _check(file, dump)
            return (WITHOUT_SOME,) if numbers else ()
        message = message_of(ended) if ended.ending is Ending.EXITED else ended.ending.value
        if ended.ending is Ending.STOPPED or NOT_WRITABLE.search(message):
            judge(ended, dump.task)
        dump.leave_out(GLOBALS)
        reason = message.rpartition("': ")[2]  # behind the query, which it repeats
        return (f"{WITHOUT_GLOBALS} ({reason})",)


@contextmanager
def option_file(source: SourceSpec) -> Iterator[tuple[str, int]]:
    """The argument that names the option file of `source`, which has to be the first one, and its descriptor, which
    the program inherits."""
    with tempfile.TemporaryFile() as file:
        file.write(options_of(source).encode())
        file.flush()
        yield f"--defaults-file=/dev/fd/{file.fileno()}", file.fileno()


def _check(file: Path, dump: Dump) -> None:
    def alive() -> None:
        if dump.stop.is_set():
            raise Stopped

    with file.open("rb") as opened:
        if not read(opened, alive).is_whole:
            text = "the dump is cut off, although its program reported no error; so it was removed"
            raise RunEnded(Verdict.REPOSITORY_FAILED, text)
