"""Engine pg_dump: one PostgreSQL database in pg_dump's custom format, and its server's roles as SQL.

    database.dump    read back whole with `pg_restore` (its table of contents alone would accept a truncated file)
    globals.sql      roles, their grants and settings, tablespaces (`pg_dumpall`)
    database.json    owner, rights, settings and locale of the database (`properties.py`)

Roles first: `psql --dbname=postgres --file=globals.sql`, then `pg_restore --create --dbname=postgres database.dump`.

Everything about the connection goes through libpq's environment: as an argument, a database name with an equals sign
would be read as a connection string.
"""

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from engines.addresses import addresses_of
from engines.base import BackupTask, RunEnded, RunStalled, SourceSpec, Verdict
from engines.cleartext import WITHOUT_TICKET, libpq_parameters
from engines.dumps import NOT_WRITTEN, REFUSED, SILENT, Dump, DumpEngine, judge, message_of, messages_of
from engines.engine import NOTHING, EngineRun
from engines.postgresql import properties
from engines.postgresql.catalogue import PSQL, SQL, UNKNOWN, PostgresqlCatalogue, asked
from engines.postgresql.counting import counting
from engines.postgresql.damage import dump_what_can_be_read
from engines.postgresql.properties import PROPERTIES
from external.processes.programs import find_postgresql_program
from external.processes.runner import ProgramEnd, StopSignal

DATABASE, GLOBALS = "database.dump", "globals.sql"
PASSWORDS = "pg_authid"
"""The catalogue of roles with their passwords, which a role that is not a superuser may not read."""
WITHOUT_PASSWORDS = (
    "the roles of the server were kept without their passwords, which only a superuser or a member of "
    "pg_read_all_data may read: set them after a restore, or back up as such a role"
)
WITHOUT_GLOBALS = "the roles of the server were not kept: create them before a restore"

PREFIX = re.compile(r"^(pg_dump|pg_dumpall|pg_restore|psql)(:\S+)?: (error: |warning: |detail: |hint: )?")
CONTINUED = re.compile(r"^(pg_\w+: (detail|hint): |(DETAIL|HINT|LOCATION|CONTEXT|LINE \d+):|\s)")
"""A line that belongs to the one before it."""
BAD_CONNECTION = 2
"""psql's exit code; 3: a statement failed."""
NOT_WRITABLE = re.compile(
    r"^(?!.*Error message from server).*(No space left|Disk quota exceeded|could not write to (output )?file|"
    r"could not open output file|could not (close|fsync) file|Read-only file system)",
    re.IGNORECASE,
)
"""The server has a separate disk, about which it uses the same words."""
NOT_LET_IN = re.compile(r"authentication failed|no password supplied|no pg_hba.conf entry|role .* does not exist")
NO_DATABASE = re.compile(r"database .* does not exist")
LOCK_WAIT = "10s"
"""The limit for a lock. While pg_dump waits for one it holds those that it has. A change to one of these tables waits
for pg_dump, and each query of an application waits behind that.
"""
LOCKED = re.compile(
    r"canceling statement due to (lock|statement|user)|could not obtain lock|deadlock detected", re.IGNORECASE
)
STAYS_LOCKED = (
    f"a table stayed locked for {LOCK_WAIT}, such as by ALTER TABLE, VACUUM FULL or LOCK of another session (pg_locks "
    "names it): let the window of the policy keep clear of migrations and upkeep"
)
CONFLICTS = re.compile(r"due to conflict with recovery", re.IGNORECASE)
ENDED_BY_REPLAY = (
    "the standby ended the dump's query, which held up its recovery: set hot_standby_feedback, or raise "
    "max_standby_streaming_delay there, or back up the primary server"
)
NOT_LOCKED = re.compile(
    r"^(?!.*(?:permission denied|out of shared memory|max_locks_per_transaction)).*query was: LOCK TABLE", re.IGNORECASE
)
"""pg_dump shows no SQLSTATE. It prints this part itself, in any language of the server; the setting's name is in the
hint in each language, too.
"""
NO_LOCK = f"{STAYS_LOCKED}; or it was dropped in the meantime"
# as the server writes them in English (`PostgresqlCatalogue.in_english`); in another language it counts as present
NOT_FOR_NOW = re.compile(
    r"the database system is (starting up|shutting down|in recovery mode|not yet accepting connections|"
    r"not accepting connections)|"
    r"too many (clients|connections)|remaining connection slots are reserved|terminating connection due to",
    re.IGNORECASE,
)
NO_ANSWER = re.compile(
    r"connection refused|timeout expired|timed out|could not translate host name|no route to host|"
    r"network is unreachable|host is down|connection reset|server closed the connection unexpectedly|"
    r"could not receive data from server|SSL SYSCALL error: EOF|\.s\.PGSQL\.\d+\" failed: No such file or directory|"
    f"{NOT_FOR_NOW.pattern}",
    re.IGNORECASE,
)


class PgDumpEngine(DumpEngine):
    """The engine of sources of kind postgresql."""

    name = "pg_dump"

    def find_programs(self) -> None:
        for name in ("pg_dump", "pg_dumpall", "pg_restore", "psql"):
            find_postgresql_program(name)

    def write(self, dump: Dump) -> tuple[str, tuple[str, ...]]:
        task = dump.task
        catalogue, unknown = _ask_catalogue(dump)
        if catalogue.is_hopeless:
            raise RunEnded(Verdict.SOURCE_FAILED, "; ".join(catalogue.lacking))
        file = dump.new_file(DATABASE)
        arguments = (*dump_arguments(file, task.source), *catalogue.left_out)
        start = partial(_start, dump, "pg_dump", *arguments, alive=dump.grows, more=catalogue.in_english)
        dumped, damaged = dump_what_can_be_read(start)
        judge_dump(dumped, task)
        with counting() as (descriptor, counter):
            where = ("--section=data", f"--file=/dev/fd/{descriptor}")
            read = _start(dump, "pg_restore", "--format=custom", *where, str(file), inherited=(descriptor,))
        if read.exit_code:
            text = f"the dump was written but cannot be read back, so it was removed: {errors_of(read)}"
            raise RunEnded(Verdict.REPOSITORY_FAILED, text)
        dump.tables, dump.rows = counter.tables, counter.rows
        left_out = [f"not in the dump: {each}" for each in catalogue.lacking]
        warnings = (*damaged, *left_out, *catalogue.not_kept, *unknown, *said(dumped), *said(read))
        warnings = (*warnings, *_dump_globals(dump), *_keep_properties(dump))
        judge_dump(version := _start(dump, "pg_dump", "--version"), task)
        return version.last_lines[-1], warnings

    def look(self, task: BackupTask, stop: StopSignal) -> str:
        run = EngineRun(task, stop)
        catalogue, unknown = _ask_catalogue(run)
        if catalogue.lacking:
            raise RunEnded(Verdict.SOURCE_FAILED, "; ".join(catalogue.lacking))
        arguments = ("--schema-only", "--no-sync", *dump_arguments(Path("/dev/null"), task.source))
        judge_dump(_start(run, "pg_dump", *arguments, more=catalogue.in_english), task)
        passwords = [WITHOUT_PASSWORDS] if catalogue.hides_passwords else []
        found = f"pg_dump may read the database {task.source.path}"
        return "; ".join([found, *catalogue.not_kept, *catalogue.speaks, *passwords, *unknown])


def _ask_catalogue(run: EngineRun) -> tuple[PostgresqlCatalogue, list[str]]:
    """Read the catalogue. Also returns a warning if it could not be read: the dump may still be made. Raises: RunEnded
    if there is no connection.
    """
    environment = connection_environment(run.task.source, run.task.connect_timeout)
    argv = (find_postgresql_program("psql"), *PSQL, _proof(run.task.source))

    def ask(on_line: Callable[[str], None]) -> ProgramEnd:
        return run.start(argv, environment, given=SQL, on_line=on_line)

    try:
        found, ended = asked(ask)
    except RunStalled as error:
        return PostgresqlCatalogue(), [UNKNOWN.format(error)]
    if ended is None:
        return found, [UNKNOWN.format("it sends rows without end")]
    if ended.exit_code == BAD_CONNECTION or ended.exit_code < 0:
        judge_dump(ended, run.task)
    return found, [UNKNOWN.format(errors_of(ended))] if ended.exit_code else []


def _dump_globals(dump: Dump) -> tuple[str, ...]:
    """Dump the server's roles. Returns warnings: a database without its server's roles is still a backup."""
    file = dump.new_file(GLOBALS)
    for passwords in (True, False):
        arguments = globals_arguments(file, dump.task.source, passwords=passwords)
        try:
            ended = _start(dump, "pg_dumpall", *arguments, alive=dump.size)
        except RunStalled as error:
            message = str(error)
            break
        message = errors_of(ended)
        if ended.exit_code == 0:
            return said(ended) if passwords else (*said(ended), WITHOUT_PASSWORDS)
        if NOT_WRITABLE.search(message):
            judge_dump(ended, dump.task)
        if PASSWORDS not in message:
            break
    dump.leave_out(GLOBALS)
    return (f"{WITHOUT_GLOBALS} ({message})",)


def _keep_properties(dump: Dump) -> tuple[str, ...]:
    """Store the database's properties. Returns warnings: a database without them is still a backup."""
    environment = connection_environment(dump.task.source, dump.task.connect_timeout)
    argv = (find_postgresql_program("psql"), *PSQL, _proof(dump.task.source))

    def ask(on_line: Callable[[str], None]) -> ProgramEnd:
        return dump.start(argv, environment, given=properties.SQL, on_line=on_line)

    file = dump.new_file(PROPERTIES)
    if not (found := properties.asked(ask)):
        dump.leave_out(PROPERTIES)
        return (properties.WITHOUT,)
    file.write_text(found)
    return ()


def _start(
    run: EngineRun,
    program: str,
    *arguments: str,
    alive: Callable[[], int] | None = None,
    inherited: tuple[int, ...] = (),
    more: Mapping[str, str] = NOTHING,
) -> ProgramEnd:
    """Run a program of PostgreSQL. `alive`: its sign of life; None if it shows no progress to watch. `more`: additions
    to its environment.
    """
    environment = connection_environment(run.task.source, run.task.connect_timeout) | dict(more)
    argv = (find_postgresql_program(program), *arguments)
    return run.start(argv, environment, sign_of_life=alive, stalls=alive is not None, inherited=inherited)


def dump_arguments(file: Path, source: SourceSpec) -> tuple[str, ...]:
    """The arguments of pg_dump: custom format, compressed, flushed to disk, never a question.

    The ways in which it may prove its identity are here and not in the environment, where a libpq that is too old would
    overlook them.
    """
    return ("--format=custom", "--no-password", f"--lock-wait-timeout={LOCK_WAIT}", f"--file={file}", _proof(source))


def globals_arguments(file: Path, source: SourceSpec, *, passwords: bool) -> tuple[str, ...]:
    """The arguments of pg_dumpall: roles and tablespaces of the server, looked up in the database of the source."""
    left_out = () if passwords else ("--no-role-passwords",)
    database = f"--database={_conninfo(dbname=source.path)}"
    return ("--globals-only", "--no-password", f"--file={file}", database, *left_out, _proof(source))


def _proof(source: SourceSpec) -> str:
    return f"--dbname={_conninfo(**libpq_parameters(source.secret, source.options))}"


def _conninfo(**parameters: str) -> str:
    # every look at a repository starts a process that imports this module: psycopg would cost three quarters of it
    from psycopg.conninfo import make_conninfo

    return make_conninfo(**parameters)


def connection_environment(source: SourceSpec, connect_timeout: float) -> dict[str, str]:
    """The environment of libpq for `source`. `connect_timeout` in seconds; libpq takes whole ones, from 2 on.

    Raises: RunEnded if the source has no address.
    """
    environment = {
        **{f"PG{name.upper()}": value for name, value in hosts_of(source).items()},
        "PGPORT": str(source.port or 5432),
        "PGDATABASE": source.path,
        "PGCONNECT_TIMEOUT": str(max(2, round(connect_timeout))),
        "PGAPPNAME": "backup",
        **WITHOUT_TICKET,
    }
    if user := source.options.get("user"):
        environment["PGUSER"] = str(user)
    if source.secret:
        environment["PGPASSWORD"] = source.secret
    return environment


def hosts_of(source: SourceSpec) -> dict[str, str]:
    """The parameters of libpq for the place of `source`: its name, which its certificate contains, and the addresses of
    that name, which libpq tries one after another without a lookup. Raises: RunEnded.
    """
    if source.address.startswith("/"):
        return {"host": source.address}
    addresses = addresses_of(source.address)
    return {"host": ",".join([source.address] * len(addresses)), "hostaddr": ",".join(addresses)}


def judge_dump(ended: ProgramEnd, task: BackupTask) -> None:
    """Judge the exit of pg_dump; every error is exit code 1. Raises: RunEnded, unless it succeeded."""
    no_database = f"there is no database {task.source.path!r}: check the source's path"
    meanings = (
        (NOT_WRITABLE.search, Verdict.REPOSITORY_FAILED, NOT_WRITTEN),
        (NOT_LET_IN.search, Verdict.SOURCE_FAILED, REFUSED),
        (CONFLICTS.search, Verdict.NOT_FOR_NOW, ENDED_BY_REPLAY),
        (LOCKED.search, Verdict.NOT_FOR_NOW, STAYS_LOCKED),
        (NO_ANSWER.search, Verdict.UNAVAILABLE, SILENT),
        (NO_DATABASE.search, Verdict.SOURCE_FAILED, no_database),
        (NOT_LOCKED.search, Verdict.NOT_FOR_NOW, NO_LOCK),
    )
    judge(ended, "pg_dump", errors_of(ended), meanings)


def said(ended: ProgramEnd) -> tuple[str, ...]:
    """The messages of a program that succeeded, each with its details: warnings of the point."""
    return messages_of(ended, PREFIX, CONTINUED) if ended.exit_code == 0 else ()


def errors_of(ended: ProgramEnd) -> str:
    """The program's errors in one line, without its name."""
    return message_of(ended, PREFIX)
