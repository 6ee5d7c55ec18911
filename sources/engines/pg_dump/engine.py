"""Engine pg_dump: one PostgreSQL database in pg_dump's custom format, and its server's roles as SQL.

    <destination>/points/20261121T065755Z/database.dump    read back whole with `pg_restore` (its table of contents
                                                           alone would accept a truncated file)
    <destination>/points/20261121T065755Z/globals.sql      roles, their grants and settings, tablespaces (`pg_dumpall`)
    <destination>/manifests/20261121T065755Z.jsonl.gz      written last: without it the two are no point

What no manifest names is left from a run that failed or was killed, and the next run removes it. Roles first:
`psql --dbname=postgres --file=globals.sql`, then `pg_restore --create --dbname=postgres database.dump`.
"""

import hashlib
import math
import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sources.engines.base import BackupTask, EngineProgress, EngineResult, RunEnded, Verdict
from sources.engines.limits import LeastRate, Space
from sources.engines.pg_dump.arguments import connection_environment, dump_arguments, globals_arguments
from sources.engines.pg_dump.verdicts import NOT_WRITABLE, judge_check, judge_dump, message_of
from sources.engines.results import GuardedProgress, result_of
from sources.processes import runner
from sources.processes.programs import find_postgresql_program
from sources.processes.runner import Command, Ended, Ending, StopSignal
from sources.storage import layout, manifests
from sources.storage.locks import locked
from sources.storage.manifests import Entry, Header
from sources.storage.store import Stopped

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
            if task.directory is None:
                text = "dumps go into directories of this host that are not encrypted only: choose another repository"
                raise RunEnded(Verdict.REPOSITORY_FAILED, text)
            with locked(task.location, task.folder) as lock:
                return _Run(task, task.directory, lock, GuardedProgress(on_progress), stop).dump()

        return result_of(task, dump)


class _Run:
    """One run of the engine. Raises what `result_of` turns into a result."""

    def __init__(
        self,
        task: BackupTask,
        destination: Path,
        lock: tuple[int, ...],
        on_progress: Callable[[EngineProgress], None],
        stop: StopSignal,
    ) -> None:
        self.task, self.lock, self.on_progress, self.stop = task, lock, on_progress, stop
        self.manifests, self.points = destination / layout.MANIFESTS, destination / layout.POINTS
        self.space, self.least_rate = Space(destination, task.reserve), LeastRate(task.least_rate)

    def dump(self) -> EngineResult:
        for folder in (self.manifests, self.points):
            folder.mkdir(exist_ok=True)
        self._remove_what_is_no_point()
        self.space.check_before()
        try:
            result = self._make_point(self.points / layout.name_of(self.task.started_at, self._names()))
            self._prune()
            return result
        finally:
            self._remove_what_is_no_point()

    def _make_point(self, point: Path) -> EngineResult:
        point.mkdir()
        database = self._new_file(point / DATABASE)
        pg_dump, pg_restore = find_postgresql_program("pg_dump"), find_postgresql_program("pg_restore")
        dump = (pg_dump, *dump_arguments(database, self.task.source))
        judge_dump(self._start(dump, lambda: self._grows(database)), self.task)
        # reading shows no progress to watch
        judge_check(self._start((pg_restore, "--file=/dev/null", str(database))), self.task)
        warnings = self._dump_globals(self._new_file(point / GLOBALS))
        entries = [self._entry(file) for file in sorted(point.iterdir())]
        judge_dump(version := self._start((pg_dump, "--version")), self.task)
        manifest = point / "manifest"
        manifests.write(manifest, self._header(version.last_lines[-1], complete=not warnings), entries)
        with manifest.open("rb") as file:
            os.fsync(file)
        manifest.rename(self.manifests / (point.name + layout.MANIFEST_ENDING))
        size = sum(entry.size for entry in entries)
        return EngineResult(
            Verdict.WARNINGS if warnings else Verdict.SUCCEEDED,
            size=size,
            files=len(entries),
            added=size,
            snapshot=point.name,
            warnings=warnings,
        )

    def _dump_globals(self, file: Path) -> tuple[str, ...]:
        """Returns warnings. A database without its server's roles is still a backup."""
        program, source = find_postgresql_program("pg_dumpall"), self.task.source
        for passwords in (True, False):
            command = (program, *globals_arguments(file, source, passwords=passwords))
            ended = self._start(command, lambda: self._size(file))
            if ended.ending is Ending.EXITED and ended.exit_code == 0:
                return () if passwords else (WITHOUT_PASSWORDS,)
            message = message_of(ended) if ended.ending is Ending.EXITED else ended.ending.value
            if ended.ending is Ending.STOPPED or NOT_WRITABLE.search(message):
                judge_dump(ended, self.task)
            if PASSWORDS not in message:
                break
        file.unlink()
        return (f"{WITHOUT_GLOBALS} ({message})",)

    def _start(self, argv: tuple[str, ...], sign_of_life: Callable[[], int] | None = None) -> Ended:
        command = Command(
            argv,
            connection_environment(self.task.source, self.task.connect_timeout),
            stall_timeout=self.task.stall_timeout if sign_of_life else math.inf,
            grace=self.task.program_grace,
            inherited=self.lock,
        )
        return runner.run(command, stop=self.stop, sign_of_life=sign_of_life)

    def _new_file(self, file: Path) -> Path:
        file.touch(mode=0o600)
        return file

    def _grows(self, file: Path) -> int:
        size = self._size(file)
        self.least_rate.check(size, is_fetching=True)
        return size

    def _size(self, file: Path) -> int:
        size = sum(each.stat().st_size for each in file.parent.iterdir())
        self.space.check(size, f"the dump ({size:,} bytes so far)")
        self.on_progress(EngineProgress(size, 0, 0))
        return size

    def _entry(self, file: Path) -> Entry:
        digest = hashlib.sha256()
        with file.open("rb") as opened:
            while chunk := opened.read(DIGEST_BYTES):
                if self.stop.is_set():
                    raise Stopped
                digest.update(chunk)
        found = file.stat()
        modified = datetime.fromtimestamp(found.st_mtime, UTC).isoformat()
        return Entry(
            file.name, size=found.st_size, modified=modified, digest=digest.hexdigest(), digest_from="copy"
        )  # fmt: skip

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

    def _prune(self) -> None:
        """Remove the manifests of all points but the newest one and `keep_versions` before it."""
        names = sorted(self._names(), key=layout.order_of)
        for name in names[: max(0, len(names) - self.task.keep_versions - 1)]:
            (self.manifests / (name + layout.MANIFEST_ENDING)).unlink()

    def _remove_what_is_no_point(self) -> None:
        for name in set(os.listdir(self.points)).difference(self._names()):
            shutil.rmtree(self.points / name)

    def _names(self) -> list[str]:
        names = (each.removesuffix(layout.MANIFEST_ENDING) for each in os.listdir(self.manifests))
        return [name for name in names if layout.NAME.fullmatch(name)]
