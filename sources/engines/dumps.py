"""What engines share whose point is a few files, written anew each time: dumps of databases.

    points/20261121T065755Z/NAME             what the engine writes, and reads back whole
    manifests/20261121T065755Z.jsonl.gz      written last: without it the files are no point

What a killed run left, which its mark names (`sources.storage.runs`), the next run removes; what has no manifest and no
mark has lost its manifest, and retention alone removes it, once points older than the newest go.

Where a repository is no plain folder of this host, all is written here first, into files without names: a worker that
is killed leaves no password behind. A program that needs a name writes into the staging directory.
"""

import dataclasses
import hashlib
import math
import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sources.engines.base import BackupTask, EngineProgress, EngineResult, Verdict
from sources.engines.limits import Later, LeastRate, Space
from sources.engines.results import GuardedProgress, result_of
from sources.engines.staging import staged
from sources.processes import runner
from sources.processes.runner import Command, Ended, StopSignal
from sources.storage import layout, runs
from sources.storage.locks import locked
from sources.storage.manifests import Entry, Header
from sources.storage.store import Stopped, StorageFailed, Store

DIGEST_BYTES = 2**20
NOTHING: Mapping[str, str] = MappingProxyType({})


class DumpEngine:
    """Writes the files of a new point by `write`. Takes no options."""

    name = ""

    def find_programs(self) -> None:
        """Raises: ProgramMissing for the first of its programs that is not installed here."""
        raise NotImplementedError

    def write(self, dump: "Dump") -> tuple[str, tuple[str, ...]]:
        """Write the files, and read back what was written. Returns the version of its program, and warnings.

        Raises: RunEnded, Stopped, StorageFailed, ProgramMissing, ValueError, OSError.
        """
        raise NotImplementedError

    def look(self, task: BackupTask, stop: StopSignal) -> str:
        """What of the source could be read, in a sentence without full stop; no file is written. Raises: as `write`."""
        raise NotImplementedError

    def check_options(self, options: dict[str, Any]) -> None:
        """Raises: ValueError naming the first option: it takes none."""
        for name in options:
            raise ValueError(f"unknown option {name!r}; {self.name} takes no options")

    def run(self, task: BackupTask, *, on_progress: Callable[[EngineProgress], None], stop: StopSignal) -> EngineResult:
        """Dump into a new point. See `Engine.run`.

        `size` and `added` are the bytes of its files, `snapshot` names the point. Options are those of other engines
        of the same policy, and ignored.
        """

        def dump() -> EngineResult:
            with locked(task.location, task.folder) as lock, ExitStack() as files:
                return Dump(self, task, lock, files, GuardedProgress(on_progress), stop).make()

        return result_of(task, dump)


class Dump:
    """One run of such an engine. Raises what `result_of` turns into a result."""

    def __init__(
        self,
        engine: DumpEngine,
        task: BackupTask,
        lock: tuple[int, ...],
        opened: ExitStack,
        on_progress: Callable[[EngineProgress], None],
        stop: StopSignal,
    ) -> None:
        self.engine, self.task, self.opened, self.on_progress, self.stop = engine, task, opened, on_progress, stop
        self.store = Store(task.location, stop, grace=task.program_grace, inherited=lock)
        self.space = Space(task.directory or Path(tempfile.gettempdir()), task.reserve)
        self.least_rate = LeastRate(task.least_rate)
        self.files: dict[str, Path] = {}

    def make(self) -> EngineResult:
        folder, started_at = self.task.folder, self.task.started_at
        self.name = runs.begin(self.store, folder, started_at, _remove_dump, layout.POINTS).name
        self.point = f"{folder}/{layout.POINTS}/{self.name}"
        with ExitStack() as undone:
            undone.callback(self._discard)
            for space in (Space(self.task.location.directory, self.task.reserve), self.space):
                space.check_before()
            result = self._make_point()
            undone.pop_all()
        runs.end(self.store, folder, self.name)
        return result

    def new_file(self, name: str, *, is_named: bool = False) -> Path:
        """A file of the point, empty; `is_named`: its program needs one with a name, in a folder of its own."""
        if self.task.directory:
            file = Path(self.task.location.at(f"{self.point}/{name}"))
            file.parent.mkdir(parents=True, exist_ok=True)
        elif is_named:
            directory = self.opened.enter_context(staged(self.task))
            self.space = Space(directory, self.task.reserve)
            file = directory / name
            self.opened.callback(file.unlink, missing_ok=True)
        else:
            descriptor = self.opened.enter_context(tempfile.TemporaryFile()).fileno()  # noqa: SIM115 - it does
            self.store = dataclasses.replace(self.store, inherited=(*self.store.inherited, descriptor))
            self.files[name] = Path(f"/dev/fd/{descriptor}")
            return self.files[name]
        file.unlink(missing_ok=True)  # of a run that was killed
        file.touch(mode=0o600)
        self.files[name] = file
        return file

    def leave_out(self, name: str) -> None:
        """Make the point without a file that was begun."""
        file = self.files.pop(name)
        if self.task.directory:
            file.unlink()

    def start(
        self,
        argv: tuple[str, ...],
        environment: Mapping[str, str] = NOTHING,
        *,
        sign_of_life: Callable[[], object] | None = None,
        stalls: bool = True,
        on_line: Callable[[str], None] = lambda line: None,
        inherited: tuple[int, ...] = (),
    ) -> Ended:
        """Run a program. `stalls`: whether it is ended when it shows nothing new for as long as the task allows."""
        command = Command(
            argv,
            environment,
            stall_timeout=self.task.stall_timeout if stalls else math.inf,
            grace=self.task.program_grace,
            inherited=(*self.store.inherited, *inherited),
        )
        return runner.run(command, stop=self.stop, sign_of_life=sign_of_life, on_line=on_line)

    def grows(self) -> int:
        """The bytes so far, as a sign of life. Raises: RunEnded when there is too little room, or they come too
        slowly."""
        size = self.size()
        self.least_rate.check(size, is_fetching=True)
        return size

    def size(self) -> int:
        """The bytes so far, for what need not come fast. Raises: RunEnded when there is too little room."""
        size = sum(file.stat().st_size for file in self.files.values())
        self.space.check(size, f"the dump ({size:,} bytes so far)")
        self.on_progress(EngineProgress(size, 0, 0))
        return size

    def _make_point(self) -> EngineResult:
        version, warnings = self.engine.write(self)
        entries = [self._entry(name, file) for name, file in sorted(self.files.items())]
        if self.task.directory is None:
            # no line of rclone's shows that a large file moves; it ends by itself where nothing does
            patient = dataclasses.replace(self.store, stall_timeout=math.inf)
            for name, file in self.files.items():
                patient.put(file, f"{self.point}/{name}")
        runs.check_it_goes_on(self.store, self.task.folder, self.name)
        header = self._header(version, complete=not warnings)
        totals = runs.write_point(self.store, self.task.folder, self.name, header, entries)
        return EngineResult(
            Verdict.WARNINGS if warnings else Verdict.SUCCEEDED,
            size=totals.size,
            files=totals.files,
            added=totals.size,
            snapshot=self.name,
            warnings=warnings,
        )

    def _discard(self) -> None:
        later = Later(self.stop, self.task.grace - self.task.program_grace)
        with suppress(Stopped, StorageFailed):  # the next run removes it
            store = dataclasses.replace(self.store, stop=later)
            # a remote may fail to say that it has it
            store.remove(layout.manifest_path(self.task.folder, self.name))
            _remove_dump(store, self.task.folder, self.name)
            runs.end(store, self.task.folder, self.name)

    def _entry(self, name: str, file: Path) -> Entry:
        digest = hashlib.sha256()
        with file.open("rb") as opened:
            while chunk := opened.read(DIGEST_BYTES):
                if self.stop.is_set():
                    raise Stopped
                digest.update(chunk)
            os.fsync(opened.fileno())  # not every program does
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
            engine=self.engine.name,
            engine_version=version,
            started_at=task.started_at.isoformat(),
            ended_at=datetime.now(UTC).isoformat(),
            complete=complete,
        )


def _remove_dump(store: Store, folder: str, run: str) -> None:
    store.delete(f"{folder}/{layout.POINTS}/{run}")
