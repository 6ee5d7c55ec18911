"""The shared part of engines whose point is a few files, written from scratch each time: dumps of databases.

    files/20261121T065755Z/NAME              the files that the engine writes, and reads back whole
    manifests/20261121T065755Z.jsonl.gz      written last: without it the files are not a point

The next run removes the files of a killed one, which its mark names (`storage.points.runs`), as far as its credentials
may.

Where a repository is not a plain folder on this host, everything is first written to files without names on this host:
a worker that is killed leaves no password behind. A program that needs a name writes into the staging directory.
"""

import dataclasses
import hashlib
import math
import os
import re
import shutil
import tempfile
from abc import abstractmethod
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from engines.base import BackupTask, EngineProgress, EngineResult, RunEnded, Verdict
from engines.engine import Engine, EngineRun, OnProgress
from engines.limits import Later, Space
from engines.staging import staged
from external.processes.advice import without_advice
from external.processes.runner import ProgramEnd, StopSignal
from storage import layout
from storage.places.location import of_directory
from storage.places.locks import locked
from storage.points import known, runs
from storage.points.manifests import Entry
from storage.points.store import StorageFailed, StorageStopped, Store

DUMP = "dump"
"""The name that stands for an assignment's folder in a staging directory."""
DIGEST_BYTES = 2**20
MESSAGE_LINES = 4
REFUSED = "the source refused the credentials: check its user and secret"
SILENT = "the source does not answer"
NOT_WRITTEN = "the dump cannot be written"
Meanings = Iterable[tuple[Callable[[str], object], Verdict, str]]
"""Rows of a table: a test of a message → the verdict, and a text for users."""


class DumpEngine(Engine):
    """An engine that writes the files of a new point with `write`. It has no options: a policy's options are for its
    other engines.
    """

    @abstractmethod
    def write(self, dump: "Dump") -> tuple[str, tuple[str, ...]]:
        """Write the files, read them back, and set the dump's `tables` and `rows`. Returns the version of the program,
        and warnings.

        Raises: RunEnded, StorageStopped, StorageFailed, ProgramMissing, ValueError, OSError.
        """

    def check_options(self, options: dict[str, Any]) -> None:
        for name in options:
            raise ValueError(f"unknown option {name!r}; {self.name} takes no options")

    def copy(self, task: BackupTask, stop: StopSignal, on_progress: OnProgress) -> EngineResult:
        """Dump into a new point. `size` and `added` are the bytes of its files, `snapshot` names the point."""
        with locked(task.location, task.folder) as lock, ExitStack() as files:
            return Dump(task, stop, on_progress, lock, self, files).make()

    def stage(
        self, task: BackupTask, into: Path, stop: StopSignal, on_progress: OnProgress
    ) -> tuple[EngineResult, Path]:
        # a dump that needs a name on its way is staged in here
        here = replace(task, location=of_directory(into), folder=DUMP, staging=str(into / "staging"), known=None)
        shutil.rmtree(into / here.folder, ignore_errors=True)  # left by a run that was killed
        result = self.copy(here, stop, on_progress)
        return result, into / layout.files_path(here.folder) / result.snapshot


class Dump(EngineRun):
    """One run of a dump engine."""

    def __init__(
        self,
        task: BackupTask,
        stop: StopSignal,
        on_progress: OnProgress,
        lock: tuple[int, ...],
        engine: DumpEngine,
        opened: ExitStack,
    ) -> None:
        super().__init__(task, stop, on_progress, lock)
        self.engine, self.opened, self.of_repository = engine, opened, self.space
        if task.directory is None:
            self.space = Space(Path(tempfile.gettempdir()), task.reserve)
        self.files: dict[str, Path] = {}
        self.tables: int | None = None
        self.rows: int | None = None

    def make(self) -> EngineResult:
        folder, started_at = self.task.folder, self.task.started_at
        self.begun = runs.begin(self.store, folder, started_at)
        self.name = self.begun.name
        self.point = f"{layout.files_path(folder)}/{self.name}"
        for run in self.begun.left:
            with suppress(StorageFailed):
                if known.has_mark(self.store.known, run):  # another one may be under way, in another installation
                    _remove_dump(self.store, folder, run)
                    runs.end(self.store, folder, run)
        runs.mark(self.store, folder, self.name, self.header(self.engine.name, "", boot=runs.boot()))
        with ExitStack() as undone:
            undone.callback(self._discard)
            self.of_repository.check_before()
            self.space.check_before()
            result = self._make_point()
            undone.pop_all()
        runs.end(self.store, folder, self.name)
        return result

    def new_file(self, name: str, *, is_named: bool = False) -> Path:
        """Begin an empty file of the point; `is_named`: True if its program needs one with a name, in a separate
        folder.
        """
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
            self.inherited = (*self.inherited, descriptor)
            self.store = dataclasses.replace(self.store, inherited=self.inherited)
            self.files[name] = Path(f"/dev/fd/{descriptor}")
            return self.files[name]
        file.unlink(missing_ok=True)  # left by a run that was killed
        file.touch(mode=0o600)
        self.files[name] = file
        return file

    def leave_out(self, name: str) -> None:
        """Make the point without a file that was already begun."""
        file = self.files.pop(name)
        if self.task.directory:
            file.unlink()

    def grows(self) -> int:
        """The bytes so far, as a sign of life. Raises: RunEnded if there is too little room, or if they
        come too slowly.
        """
        size = self.size()
        self.least_rate.check(size, is_fetching=True)
        return size

    def size(self) -> int:
        """The bytes so far, for data that may come slowly. Raises: RunEnded when there is too little room."""
        size = sum(file.stat().st_size for file in self.files.values())
        self.space.check(size, f"the dump ({size:,} bytes so far)")
        self.on_progress(EngineProgress(size, 0, 0))
        return size

    def _make_point(self) -> EngineResult:
        version, warnings = self.engine.write(self)
        entries = [self._entry(name, file) for name, file in sorted(self.files.items())]
        if self.task.directory is None:
            # no line from rclone shows that a large file moves; it ends by itself if nothing does
            patient = dataclasses.replace(self.store, stall_timeout=math.inf)
            for name, file in self.files.items():
                patient.put(file, f"{self.point}/{name}")
        with suppress(runs.BaseGone):  # nothing is taken over from it
            runs.check_base(self.store, self.task.folder, self.begun)
        header = self.header(self.engine.name, version, complete=not warnings)
        totals, digest = runs.write_point(self.store, self.task.folder, self.name, header, entries)
        runs.check_made(self.store, self.task.folder, self.begun, has_base=False)
        return EngineResult(
            Verdict.WARNINGS if warnings else Verdict.SUCCEEDED,
            size=totals.size,
            files=totals.files,
            added=totals.size,
            tables=self.tables,
            rows=self.rows,
            snapshot=self.name,
            manifest=digest,
            warnings=warnings,
        )

    def _discard(self) -> None:
        later = Later(self.stop, self.task.grace - self.task.program_grace)
        with suppress(StorageStopped, StorageFailed):  # the next run removes it
            store = dataclasses.replace(self.store, stop=later)
            # a remote may have it and fail to report it
            store.remove(layout.manifest_path(self.task.folder, self.name))
            _remove_dump(store, self.task.folder, self.name)
            runs.end(store, self.task.folder, self.name)

    def _entry(self, name: str, file: Path) -> Entry:
        digest = hashlib.sha256()
        with file.open("rb") as opened:
            while chunk := opened.read(DIGEST_BYTES):
                self.store.check_stop()
                digest.update(chunk)
            os.fsync(opened.fileno())  # not every program does
        found = file.stat()
        modified = datetime.fromtimestamp(found.st_mtime, UTC).isoformat()
        origin = "copy" if self.task.directory else "source"
        size, sha256 = found.st_size, digest.hexdigest()
        return Entry(name, size=size, modified=modified, digest=sha256, digest_from=origin, folder=self.name)


def judge(ended: ProgramEnd, program: str, message: str, meanings: Meanings) -> None:
    """Judge the exit of a program: its message decides, in the order of the table. Raises: RunEnded, unless it
    succeeded.
    """
    if ended.exit_code == 0:
        return
    for says, verdict, text in meanings:
        if says(message):
            raise RunEnded(verdict, f"{text} ({message})")
    if ended.exit_code < 0:
        raise RunEnded(Verdict.SOURCE_FAILED, f"{program} was ended by signal {-ended.exit_code} from outside")
    raise RunEnded(Verdict.SOURCE_FAILED, message or f"{program} ended with code {ended.exit_code}")


def message_of(ended: ProgramEnd, noise: re.Pattern[str]) -> str:
    """The last lines that a program printed, joined into one, without `noise`."""
    lines = [shown for line in ended.last_lines if (shown := noise.sub("", line).strip())]
    return without_advice("; ".join(lines[-MESSAGE_LINES:]))


def messages_of(ended: ProgramEnd, noise: re.Pattern[str], continued: re.Pattern[str]) -> tuple[str, ...]:
    """The messages that a program printed, one text each, without `noise`; `continued` matches a line that belongs to
    the one before it.
    """
    found = list[str]()
    for line in ended.last_lines:
        if shown := noise.sub("", line).strip():
            if found and continued.search(line):
                found[-1] += f"; {shown}"
            else:
                found.append(shown)
    return tuple(dict.fromkeys(map(without_advice, found)))


def _remove_dump(store: Store, folder: str, run: str) -> None:
    store.delete(f"{layout.files_path(folder)}/{run}")
