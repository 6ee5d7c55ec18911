"""Engine pg_dump: one PostgreSQL database in pg_dump's custom format, and its server's roles as SQL.

    database.dump    read back whole with `pg_restore` (its table of contents alone would accept a truncated file)
    globals.sql      roles, their grants and settings, tablespaces (`pg_dumpall`)

Roles first: `psql --dbname=postgres --file=globals.sql`, then `pg_restore --create --dbname=postgres database.dump`.
"""

from collections.abc import Callable
from pathlib import Path

from sources.engines.base import BackupTask
from sources.engines.dumps import Dump, DumpEngine
from sources.engines.pg_dump.arguments import connection_environment, dump_arguments, globals_arguments
from sources.engines.pg_dump.verdicts import NOT_WRITABLE, judge_check, judge_dump, message_of
from sources.processes import runner
from sources.processes.programs import find_postgresql_program
from sources.processes.runner import Command, Ended, Ending, StopSignal

DATABASE, GLOBALS = "database.dump", "globals.sql"
PASSWORDS = "pg_authid"
"""The catalogue of roles with their passwords, which a role that is no superuser may not read."""
WITHOUT_PASSWORDS = (
    "the roles of the server were kept without their passwords, which only a superuser or a member of "
    "pg_read_all_data may read: set them after a restore, or back up as such a role"
)
WITHOUT_GLOBALS = "the roles of the server were not kept: create them before a restore"


class PgDumpEngine(DumpEngine):
    """Dumps a source of kind postgresql."""

    name = "pg_dump"

    def find_programs(self) -> None:
        for name in ("pg_dump", "pg_dumpall", "pg_restore"):
            find_postgresql_program(name)

    def write(self, dump: Dump) -> tuple[str, tuple[str, ...]]:
        database, task = dump.new_file(DATABASE), dump.task
        pg_dump, pg_restore = find_postgresql_program("pg_dump"), find_postgresql_program("pg_restore")
        judge_dump(_start(dump, (pg_dump, *dump_arguments(database, task.source)), dump.grows), task)
        # reading shows no progress to watch
        judge_check(_start(dump, (pg_restore, "--file=/dev/null", str(database))), task)
        warnings = _dump_globals(dump, dump.new_file(GLOBALS))
        judge_dump(version := _start(dump, (pg_dump, "--version")), task)
        return version.last_lines[-1], warnings

    def look(self, task: BackupTask, stop: StopSignal) -> str:
        arguments = dump_arguments(Path("/dev/null"), task.source)
        command = Command(
            (find_postgresql_program("pg_dump"), "--schema-only", "--no-sync", *arguments),
            connection_environment(task.source, task.connect_timeout),
            grace=task.program_grace,
        )
        judge_dump(runner.run(command, stop=stop), task)
        return f"pg_dump may read the database {task.source.path}"


def _dump_globals(dump: Dump, file: Path) -> tuple[str, ...]:
    """Returns warnings. A database without its server's roles is still a backup."""
    program, source = find_postgresql_program("pg_dumpall"), dump.task.source
    for passwords in (True, False):
        ended = _start(dump, (program, *globals_arguments(file, source, passwords=passwords)), dump.size)
        if ended.ending is Ending.EXITED and ended.exit_code == 0:
            return () if passwords else (WITHOUT_PASSWORDS,)
        message = message_of(ended) if ended.ending is Ending.EXITED else ended.ending.value
        if ended.ending is Ending.STOPPED or NOT_WRITABLE.search(message):
            judge_dump(ended, dump.task)
        if PASSWORDS not in message:
            break
    dump.leave_out(GLOBALS)
    return (f"{WITHOUT_GLOBALS} ({message})",)


def _start(dump: Dump, argv: tuple[str, ...], sign_of_life: Callable[[], int] | None = None) -> Ended:
    environment = connection_environment(dump.task.source, dump.task.connect_timeout)
    return dump.start(argv, environment, sign_of_life=sign_of_life, stalls=sign_of_life is not None)
