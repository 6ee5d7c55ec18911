"""Engine pg_dump: one PostgreSQL database into one file in pg_dump's custom format.

The dump is written as `<destination>/20261121T065755Z.dump.unfinished`, read back whole with `pg_restore` (its table
of contents alone would accept a truncated file) and only then renamed to `….dump`. So a `.dump` is always a good one,
and a run that fails or is killed leaves none. `pg_restore --create --dbname=postgres FILE` restores it.

Everything about the connection goes through libpq's environment: as an argument, a database name with an equals sign
would be read as a connection string.
"""

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sources.engines.base import BackupTask, EngineProgress, EngineResult, RunEnded, SourceSpec, Verdict
from sources.engines.cleartext import libpq_parameters
from sources.engines.limits import LeastRate, Space
from sources.engines.results import GuardedProgress, failure, judge_ending, result_of
from sources.processes import runner
from sources.processes.programs import find_postgresql_program
from sources.processes.runner import Command, Ended, Ending, StopSignal
from sources.storage.layout import NAME, name_after
from sources.storage.locks import locked

ENDING = ".dump"
UNFINISHED = ".unfinished"
MESSAGE_LINES = 4
PREFIX = re.compile(r"^pg_(dump|restore): (error: |detail: |hint: )?")
NOT_WRITABLE = re.compile(
    r"^(?!.*Error message from server).*(No space left|Disk quota exceeded|could not write to (output )?file|"
    r"could not open output file|could not (close|fsync) file|Read-only file system)",
    re.IGNORECASE,
)
"""The server has a disk of its own, of which it speaks in the same words."""
REFUSED = re.compile(r"authentication failed|no password supplied|no pg_hba.conf entry|role .* does not exist")
NO_DATABASE = re.compile(r"database .* does not exist")
SILENT = re.compile(
    r"connection refused|timeout expired|timed out|could not translate host name|no route to host|"
    r"network is unreachable|host is down|connection reset|server closed the connection unexpectedly|"
    r"the database system is (starting up|shutting down|in recovery mode|not yet accepting connections)|"
    r"terminating connection due to|could not receive data from server|SSL SYSCALL error: EOF|"
    r"\.s\.PGSQL\.\d+\" failed: No such file or directory",
    re.IGNORECASE,
)


class PgDumpEngine:
    """Dumps a source of kind postgresql. Takes no options."""

    name = "pg_dump"

    def check_options(self, options: dict[str, Any]) -> None:
        """Raises: ValueError naming the first option: pg_dump takes none."""
        for name in options:
            raise ValueError(f"unknown option {name!r}; pg_dump takes no options")

    def run(self, task: BackupTask, *, on_progress: Callable[[EngineProgress], None], stop: StopSignal) -> EngineResult:
        """Dump the database into a new file of the destination. See `Engine.run`.

        `size` and `transferred` are the bytes of the dump, `snapshot` its path. Options are those of other engines
        of the same policy, and passed over.
        """
        return result_of(task, lambda: _dump(task, GuardedProgress(on_progress), stop))


def dump_arguments(file: Path, source: SourceSpec) -> tuple[str, ...]:
    """pg_dump's arguments: custom format, compressed, flushed to disk, never a question. Pure.

    How it may prove itself stands here and not in the environment, where a libpq that is too old would overlook it.
    """
    # every look at a repository starts a process that imports this module: psycopg would cost it three quarters of that
    from psycopg.conninfo import make_conninfo

    given = make_conninfo(**libpq_parameters(source.secret, source.options))
    return ("--format=custom", "--no-password", f"--file={file}", *([f"--dbname={given}"] if given else []))


def connection_environment(source: SourceSpec, connect_timeout: float) -> dict[str, str]:
    """libpq's environment for `source`. `connect_timeout` in seconds; libpq knows whole ones, from 2 on. Pure."""
    environment = {
        "PGHOST": source.address,
        "PGPORT": str(source.port or 5432),
        "PGDATABASE": source.path,
        "PGCONNECT_TIMEOUT": str(max(2, round(connect_timeout))),
        "PGAPPNAME": "backup",
    }
    if user := source.options.get("user"):
        environment["PGUSER"] = str(user)
    if source.secret:
        environment["PGPASSWORD"] = source.secret
    return environment


def _dump(task: BackupTask, on_progress: Callable[[EngineProgress], None], stop: StopSignal) -> EngineResult:
    pg_dump, pg_restore = find_postgresql_program("pg_dump"), find_postgresql_program("pg_restore")
    if task.directory is None:
        raise RunEnded(Verdict.REPOSITORY_FAILED, "dumps are written to directories that are not encrypted only")
    with locked(task.location, task.folder) as lock:
        return _dump_into(task, task.directory, pg_dump, pg_restore, lock, on_progress, stop)


def _dump_into(
    task: BackupTask,
    destination: Path,
    pg_dump: str,
    pg_restore: str,
    lock: tuple[int, ...],
    on_progress: Callable[[EngineProgress], None],
    stop: StopSignal,
) -> EngineResult:
    for leftover in destination.glob("*" + UNFINISHED):
        leftover.unlink()
    space = Space(destination, task.reserve)
    space.check_before()
    taken = [file.stem for file in destination.glob("*" + ENDING) if NAME.fullmatch(file.stem)]
    final = destination / (name_after(task.started_at, taken) + ENDING)
    unfinished = final.with_name(final.name + UNFINISHED)
    unfinished.touch(mode=0o600)

    least_rate = LeastRate(task.least_rate)

    def size_so_far() -> int:
        size = unfinished.stat().st_size
        space.check(size, f"the dump ({size:,} bytes so far)")
        on_progress(EngineProgress(size, 0, 0))
        return size

    def grows() -> int:
        size = size_so_far()
        least_rate.check(size, is_fetching=True)
        return size

    dump = Command(
        (pg_dump, *dump_arguments(unfinished, task.source)),
        connection_environment(task.source, task.connect_timeout),
        stall_timeout=task.stall_timeout,
        grace=task.program_grace,
        inherited=lock,
    )
    # reading shows no progress to watch
    check = Command(
        (pg_restore, "--file=/dev/null", str(unfinished)),
        stall_timeout=math.inf,
        grace=task.program_grace,
        inherited=lock,
    )
    try:
        if refusal := _judge_dump(runner.run(dump, stop=stop, sign_of_life=grows), task):
            return refusal
        if refusal := _judge_check(runner.run(check, stop=stop), task):
            return refusal
        size = size_so_far()
        unfinished.rename(final)
    finally:
        unfinished.unlink(missing_ok=True)
    _prune(destination, task.keep_versions)
    return EngineResult(Verdict.SUCCEEDED, size=size, transferred=size, files=1, snapshot=str(final))


def _prune(destination: Path, keep_versions: int) -> None:
    """Remove the oldest dumps but the newest one and `keep_versions` before it."""
    dumps = sorted(destination.glob("*" + ENDING))
    for dump in dumps[: max(0, len(dumps) - keep_versions - 1)]:
        dump.unlink()


def _judge_dump(ended: Ended, task: BackupTask) -> EngineResult | None:
    """What a pg_dump that ended so means; None: it is done. Messages decide, since every error is exit code 1."""
    if ended.ending is not Ending.EXITED:
        return failure(*judge_ending(ended.ending, task))
    if ended.exit_code == 0:
        return None
    message = _message(ended)
    for pattern, verdict, text in (
        (NOT_WRITABLE, Verdict.REPOSITORY_FAILED, "the dump cannot be written"),
        (REFUSED, Verdict.SOURCE_FAILED, "the source refused the credentials: check its user and secret"),
        (SILENT, Verdict.UNAVAILABLE, "the source does not answer"),
        (NO_DATABASE, Verdict.SOURCE_FAILED, f"there is no database {task.source.path!r}: check the source's path"),
    ):
        if pattern.search(message):
            return failure(verdict, f"{text} ({message})")
    if ended.exit_code < 0:
        return failure(Verdict.SOURCE_FAILED, f"pg_dump was ended by signal {-ended.exit_code} from outside")
    return failure(Verdict.SOURCE_FAILED, message or f"pg_dump ended with code {ended.exit_code}")


def _judge_check(ended: Ended, task: BackupTask) -> EngineResult | None:
    if ended.ending is not Ending.EXITED:
        return failure(*judge_ending(ended.ending, task))
    text = f"the dump was written but cannot be read back, so it was removed: {_message(ended)}"
    return failure(Verdict.REPOSITORY_FAILED, text) if ended.exit_code else None


def _message(ended: Ended) -> str:
    """The program's errors in one line, without its name."""
    lines = [PREFIX.sub("", line).strip() for line in ended.last_lines if line.strip()]
    return "; ".join(lines[-MESSAGE_LINES:])
