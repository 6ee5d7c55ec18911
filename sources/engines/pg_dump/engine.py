"""Engine pg_dump: one PostgreSQL database in pg_dump's custom format, and its server's roles as SQL.

    points/20261121T065755Z/database.dump    read back whole with `pg_restore` (its table of contents alone would
                                             accept a truncated file)
    points/20261121T065755Z/globals.sql      roles, their grants and settings, tablespaces (`pg_dumpall`)
    manifests/20261121T065755Z.jsonl.gz      written last: without it the two are no point

What no manifest names is left from a run that failed or was killed, and the next run removes it. Roles first:
`psql --dbname=postgres --file=globals.sql`, then `pg_restore --create --dbname=postgres database.dump`.

Where a repository is no plain folder of this host, both are written here first, into files without names: a worker that
is killed leaves no password behind.
"""

import dataclasses
import hashlib
import math
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sources.engines.base import BackupTask, EngineProgress, EngineResult, Verdict
from sources.engines.limits import Later, LeastRate, Space
from sources.engines.pg_dump.arguments import connection_environment, dump_arguments, globals_arguments
from sources.engines.pg_dump.verdicts import NOT_WRITABLE, judge_check, judge_dump, message_of
from sources.engines.results import GuardedProgress, result_of
from sources.processes import runner
from sources.processes.programs import find_postgresql_program
from sources.processes.runner import Command, Ended, Ending, StopSignal
from sources.storage import layout, runs
from sources.storage.locks import locked
from sources.storage.manifests import Entry, Header
from sources.storage.store import Stopped, StorageFailed, Store

DATABASE, GLOBALS = "database.dump", "globals.sql"
DIGEST_BYTES = 2**20
PASSWORDS = "pg_authid"
"""The catalogue of roles with their passwords, which a role that is no superuser may not read."""
WITHOUT_PASSWORDS = (
    "the roles of the server were kept without their passwords, which only a superuser or a member of "
    "pg_read_all_data may read: set them after a restore, or back up as such a role"
)
WITHOUT_GLOBALS = "the roles of the server were not kept: create them before a restore"


class PgDumpEngine:
    """Dumps a source of kind postgresql. Takes no options."""

    name = "pg_dump"

    def check_options(self, options: dict[str, Any]) -> None:
        """Raises: ValueError naming the first option: pg_dump takes none."""
        for name in options:
            raise ValueError(f"unknown option {name!r}; pg_dump takes no options")

    def run(self, task: BackupTask, *, on_progress: Callable[[EngineProgress], None], stop: StopSignal) -> EngineResult:
        """Dump the database and its server's roles into a new point. See `Engine.run`.

        `size` and `added` are the bytes of both files, `snapshot` names the point. Options are those of other
        engines of the same policy, and passed over.
        """

        def dump() -> EngineResult:
            with locked(task.location, task.folder) as lock, ExitStack() as files:
                return _Run(task, lock, files, GuardedProgress(on_progress), stop).dump()

        return result_of(task, dump)


class _Run:
    """One run of the engine. Raises what `result_of` turns into a result."""

    def __init__(
        self,
        task: BackupTask,
        lock: tuple[int, ...],
        opened: ExitStack,
        on_progress: Callable[[EngineProgress], None],
        stop: StopSignal,
    ) -> None:
        self.task, self.opened, self.on_progress, self.stop = task, opened, on_progress, stop
        self.store = Store(task.location, stop, grace=task.program_grace, inherited=lock)
        self.space = Space(task.directory or Path(tempfile.gettempdir()), task.reserve)
        self.least_rate = LeastRate(task.least_rate)
        self.files: dict[str, Path] = {}

    def dump(self) -> EngineResult:
        points = f"{self.task.folder}/{layout.POINTS}"
        found = set(self.store.names(points, folders=True))
        # asked after that: what another run has just made is a point by then
        known = runs.points(self.store, self.task.folder)
        for name in found.difference(known):
            self.store.delete(f"{points}/{name}")
        for space in (Space(self.task.location.directory, self.task.reserve), self.space):
            space.check_before()
        self.name = layout.name_of(self.task.started_at, known)
        self.point = f"{points}/{self.name}"
        with ExitStack() as undone:
            undone.callback(self._discard)
            result = self._make_point()
            undone.pop_all()
        return result

    def _make_point(self) -> EngineResult:
        database = self._new_file(DATABASE)
        pg_dump, pg_restore = find_postgresql_program("pg_dump"), find_postgresql_program("pg_restore")
        dump = (pg_dump, *dump_arguments(database, self.task.source))
        judge_dump(self._start(dump, self._grows), self.task)
        # reading shows no progress to watch
        judge_check(self._start((pg_restore, "--file=/dev/null", str(database))), self.task)
        warnings = self._dump_globals(self._new_file(GLOBALS))
        entries = [self._entry(name, file) for name, file in sorted(self.files.items())]
        judge_dump(version := self._start((pg_dump, "--version")), self.task)
        if self.task.directory is None:
            # no line of rclone's shows that a large file moves; it ends by itself where nothing does
            patient = dataclasses.replace(self.store, stall_timeout=math.inf)
            for name, file in self.files.items():
                patient.put(file, f"{self.point}/{name}")
        header = self._header(version.last_lines[-1], complete=not warnings)
        totals = runs.write_point(self.store, self.task.folder, self.name, header, entries)
        return EngineResult(
            Verdict.WARNINGS if warnings else Verdict.SUCCEEDED,
            size=totals.size,
            files=totals.files,
            added=totals.size,
            snapshot=self.name,
            warnings=warnings,
        )

    def _dump_globals(self, file: Path) -> tuple[str, ...]:
        """Returns warnings. A database without its server's roles is still a backup."""
        program, source = find_postgresql_program("pg_dumpall"), self.task.source
        for passwords in (True, False):
            command = (program, *globals_arguments(file, source, passwords=passwords))
            ended = self._start(command, self._size)
            if ended.ending is Ending.EXITED and ended.exit_code == 0:
                return () if passwords else (WITHOUT_PASSWORDS,)
            message = message_of(ended) if ended.ending is Ending.EXITED else ended.ending.value
            if ended.ending is Ending.STOPPED or NOT_WRITABLE.search(message):
                judge_dump(ended, self.task)
            if PASSWORDS not in message:
                break
        del self.files[GLOBALS]
        if self.task.directory:
            file.unlink()
        return (f"{WITHOUT_GLOBALS} ({message})",)

    def _start(self, argv: tuple[str, ...], sign_of_life: Callable[[], int] | None = None) -> Ended:
        command = Command(
            argv,
            connection_environment(self.task.source, self.task.connect_timeout),
            stall_timeout=self.task.stall_timeout if sign_of_life else math.inf,
            grace=self.task.program_grace,
            inherited=self.store.inherited,
        )
        return runner.run(command, stop=self.stop, sign_of_life=sign_of_life)

    def _new_file(self, name: str) -> Path:
        if self.task.directory:
            file = Path(self.task.location.at(f"{self.point}/{name}"))
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch(mode=0o600)
        else:
            descriptor = self.opened.enter_context(tempfile.TemporaryFile()).fileno()  # noqa: SIM115 - it does
            self.store = dataclasses.replace(self.store, inherited=(*self.store.inherited, descriptor))
            file = Path(f"/dev/fd/{descriptor}")
        self.files[name] = file
        return file

    def _discard(self) -> None:
        later = Later(self.stop, self.task.grace - self.task.program_grace)
        with suppress(Stopped, StorageFailed):  # the next run removes it
            dataclasses.replace(self.store, stop=later).delete(self.point)

    def _grows(self) -> int:
        size = self._size()
        self.least_rate.check(size, is_fetching=True)
        return size

    def _size(self) -> int:
        size = sum(file.stat().st_size for file in self.files.values())
        self.space.check(size, f"the dump ({size:,} bytes so far)")
        self.on_progress(EngineProgress(size, 0, 0))
        return size

    def _entry(self, name: str, file: Path) -> Entry:
        digest = hashlib.sha256()
        with file.open("rb") as opened:
            while chunk := opened.read(DIGEST_BYTES):
                if self.stop.is_set():
                    raise Stopped
                digest.update(chunk)
        found = file.stat()
        modified = datetime.fromtimestamp(found.st_mtime, UTC).isoformat()
        return Entry(
            name,
            size=found.st_size,
            modified=modified,
            digest=digest.hexdigest(),
            digest_from="copy" if self.task.directory else "source",
        )

    def _header(self, version: str, *, complete: bool) -> Header:
        task = self.task
        return Header(
            source=task.source.name,
            source_kind=task.source.kind,
            policy=task.policy,
            engine=PgDumpEngine.name,
            engine_version=version,
            started_at=task.started_at.isoformat(),
            ended_at=datetime.now(UTC).isoformat(),
            complete=complete,
        )
