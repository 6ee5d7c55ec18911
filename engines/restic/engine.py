"""Engine restic: copies a source into a restic repository, as a snapshot that is a point (`storage.restic`).

A folder on this host is read by restic itself. Any other source is first copied into the staging directory of its
assignment by the engine of its kind, which fetches only changes again, and restic reads that: one more copy on this
host's disk, and nothing to install on the source. A dump is verified there and removed afterwards.

restic writes the snapshot last, in one file: a run that ends at any earlier moment leaves no snapshot, only data that
the next prune removes. A file that cannot be read causes a warning, and so does one that changes while it is read.
"""

import os
import shutil
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from engines.base import BackupTask, EngineProgress, EngineResult, RunEnded, Verdict
from engines.dumps import DUMP, DumpEngine
from engines.engine import Engine, EngineRun, OnProgress
from engines.rclone import exclude
from engines.rclone.engine import MIRROR
from engines.rclone.options import pattern_options
from engines.rclone.presence import check_folder
from engines.rclone.restore_folders import LEFT, left_below
from engines.restic.options import options_of
from engines.results import WARNINGS, without_secrets
from engines.staging import staged
from external.processes.programs import find_restic
from external.processes.rows import number, row_of
from external.processes.runner import StopSignal
from storage import layout
from storage.places.location import RCLONE, RESTIC
from storage.places.locks import Busy
from storage.points.counted_paths import CountedPaths
from storage.points.store import StorageFailed
from storage.restic.program import Restic, ResticFailed
from storage.restic.snapshots import note_incomplete, tag_arguments, time_argument
from storage.restic.verdicts import PARTIAL, ResticTrouble, problem_of

MARK_SECONDS = 60.0
NOTHING = "it has no file or folder that could be read, and restic makes no snapshot of nothing"
DONE = (Verdict.SUCCEEDED, Verdict.WARNINGS)
LOOK_EVERY_SECONDS = 0.5
"""Lines between two looks are not parsed: a line about a running backup may name many files."""
KEPT = 200
STATUS, SUMMARY = '{"message_type":"status"', '{"message_type":"summary"'


class ResticEngine(Engine):
    """An engine for sources of any kind. `first`: the engine of the source's kind, which stages any source that is not
    a folder on this host.
    """

    name = RESTIC

    def __init__(self, first: Engine) -> None:
        self.first = first

    def find_programs(self) -> None:
        find_restic()
        self.first.find_programs()

    def check_options(self, options: dict[str, Any]) -> None:
        """Check the options by the engine of the kind. Raises: ValueError."""
        self.first.check_options(options)

    def look(self, task: BackupTask, stop: StopSignal) -> str:
        return self.first.look(task, stop)

    def copy(self, task: BackupTask, stop: StopSignal, on_progress: OnProgress) -> EngineResult:
        """Make a snapshot. `snapshot` is the name of the point, and restic's id after a slash."""
        check_folder(task)
        run = EngineRun(task, stop, on_progress)
        if task.source.kind == "local":
            options = options_of(task.options, os.path.realpath(task.source.path))
            made = _marked(task, _snapshot(run, Path(task.source.path), options, self._writer))
            return _with_left(made, run, Path(task.source.path))
        with staged(task) as directory:
            made = _marked(task, self._stage_first(run, directory))
            return _with_left(made, run, directory / MIRROR) if self.first.name == RCLONE else made

    @property
    def _writer(self) -> str:
        """The engine's name in a manifest: a drill of a dump depends on the engine that wrote it."""
        return RESTIC if self.first.name == RCLONE else self.first.name

    def _stage_first(self, run: EngineRun, directory: Path) -> EngineResult:
        try:
            fetched, files = self.first.stage(run.task, directory, run.stop, run.on_progress)
        except (StorageFailed, OSError) as error:
            raise RunEnded(Verdict.SOURCE_FAILED, f"it cannot be staged on this host: {error}") from None
        if fetched.verdict not in DONE:
            # the repository of the kind's engine is the staging directory
            if fetched.verdict in (Verdict.REPOSITORY_FAILED, Verdict.FILLED):
                raise RunEnded(Verdict.SOURCE_FAILED, f"it cannot be staged on this host: {fetched.error}")
            return fetched
        try:
            made = _snapshot(run, files, (), self._writer)
        finally:
            if isinstance(self.first, DumpEngine):  # restic stores it; a mirror is kept for the next run
                shutil.rmtree(directory / DUMP, ignore_errors=True)
        warnings = (*fetched.warnings, *made.warnings)
        verdict = Verdict.WARNINGS if warnings else made.verdict
        of_source = {name: getattr(fetched, name) for name in ("read", "tables", "rows", "doubt")}
        return replace(made, verdict=verdict, warnings=warnings, **of_source)

    def stage(
        self, task: BackupTask, into: Path, stop: StopSignal, on_progress: OnProgress
    ) -> tuple[EngineResult, Path]:
        return self.first.stage(task, into, stop, on_progress)


class ResticProgress:
    """The output of `restic backup --json` so far. `problems`: the first of `problem_count`, each a file that it could
    not read; `summary`: empty until its end.
    """

    def __init__(self, on_progress: OnProgress) -> None:
        self._on_progress = on_progress
        self._look_at = 0.0
        self.problems: list[str] = []
        self.problem_count = 0
        self.summary: dict[str, Any] = {}
        self.done = EngineProgress(0, 0, 0)
        self.growing = ""
        """A file that restic is reading; empty if none."""

    def take(self, line: str) -> None:
        if line.startswith(STATUS):
            if (now := time.monotonic()) >= self._look_at:
                self._look_at = now + LOOK_EVERY_SECONDS
                self._take_status(row_of(line) or {})
        elif line.startswith(SUMMARY):
            self.summary = row_of(line) or {}
        elif problem := problem_of(line):
            self.problem_count += 1
            if len(self.problems) < KEPT:
                self.problems.append(problem)

    def _take_status(self, row: dict[str, Any]) -> None:
        self.done = EngineProgress(*(number(row, name) for name in ("bytes_done", "total_bytes", "files_done")))
        files = row.get("current_files")
        self.growing = str(files[0]) if isinstance(files, list) and files else ""
        self._on_progress(self.done)


def _marked(task: BackupTask, made: EngineResult) -> EngineResult:
    """Note the missing parts of a point in the repository: `recover` does not know warnings."""
    if made.verdict is not Verdict.WARNINGS:
        return made
    restic = Restic(task.location, threading.Event(), MARK_SECONDS, task.program_grace)
    try:
        note_incomplete(restic, task.folder, layout.point_of(made.snapshot) or "", without_secrets(made, task).warnings)
    except (StorageFailed, Busy, OSError) as error:
        text = f"this point could not be marked as incomplete in the repository: {error}"
        return replace(made, warnings=(*made.warnings[: WARNINGS - 1], text))
    return made


def _with_left(made: EngineResult, run: EngineRun, folder: Path) -> EngineResult:
    """The result, naming the folders that restores have left in a folder on this host. Its point has them whole."""
    named, is_left_out = CountedPaths(), exclude.matcher(pattern_options(run.task.options))
    for path in left_below(str(folder), is_left_out, run.stop) if made.verdict in DONE else ():
        named.add(LEFT, path)
    if not named.sentences:
        return made
    return replace(made, verdict=Verdict.WARNINGS, warnings=(*named.sentences, *made.warnings))


def _snapshot(run: EngineRun, folder: Path, options: tuple[str, ...], writer: str) -> EngineResult:
    """Make the snapshot of a folder on this host; `writer`: the engine that wrote the folder. Raises: what `result_of`
    takes.
    """
    if not os.access(folder, os.R_OK | os.X_OK):
        raise RunEnded(Verdict.SOURCE_FAILED, f"{folder} cannot be read by the account of this worker")
    run.space.check_before()
    task = run.task
    last, last_id = layout.point_of(task.last_snapshot), task.last_snapshot.partition("/")[2]
    name = layout.name_of(task.started_at, [last] if last else [])
    parent: tuple[str, ...] = (f"--parent={last_id}",) if last_id else ()
    while True:
        seen = ResticProgress(run.on_progress)

        def sign_of_life(seen: ResticProgress = seen) -> object:
            run.check(seen.done.bytes_done, seen.growing)
            return seen.done

        try:
            code = Restic(task.location, run.stop, task.stall_timeout, task.program_grace).run(
                *_arguments(task, name, writer),
                *parent,
                *options,
                ".",
                on_line=seen.take,
                sign_of_life=sign_of_life,
                directory=str(folder),
                fine=(PARTIAL,),
            )
            return _result(task, name, seen, is_partial=code == PARTIAL)
        except ResticFailed as error:
            if error.trouble is ResticTrouble.NO_SNAPSHOT and parent:
                parent = ()  # it was removed: restic looks for one itself
                continue
            if error.trouble in (ResticTrouble.NO_SOURCE, ResticTrouble.NOTHING):
                why = NOTHING if error.trouble is ResticTrouble.NOTHING else str(error)
                text = "; ".join([why, *seen.problems[:3]])
                raise RunEnded(Verdict.SOURCE_FAILED, text) from None
            raise


def _arguments(task: BackupTask, name: str, writer: str) -> tuple[str, ...]:
    """The arguments of restic for the snapshot of the folder that it runs in."""
    tags = {"assignment": task.folder, "point": name, "source": task.source.name, "kind": task.source.kind}
    tags |= {"policy": task.policy, "record": task.record, "engine": writer}
    return (
        "backup",
        "--json",
        f"--host={task.source.name}",
        time_argument(layout.instant_of(name)),
        *tag_arguments(**{tag: value for tag, value in tags.items() if value}),
    )


def _result(task: BackupTask, name: str, seen: ResticProgress, *, is_partial: bool) -> EngineResult:
    found, warnings = seen.summary, tuple(seen.problems)
    if not found.get("snapshot_id"):
        raise RunEnded(Verdict.REPOSITORY_FAILED, "restic ended without naming its snapshot")
    if is_partial:
        count = max(1, seen.problem_count)
        warnings = (f"{count:,} {'file was' if count == 1 else 'files were'} not read whole", *warnings)
    unchanged, changed = number(found, "files_unmodified"), number(found, "files_changed")
    return EngineResult(
        Verdict.WARNINGS if warnings else Verdict.SUCCEEDED,
        size=number(found, "total_bytes_processed"),
        files=number(found, "total_files_processed"),
        new=number(found, "files_new"),
        changed=changed,
        unchanged=unchanged,
        removed=max(0, task.last_files - unchanged - changed) if task.last_files is not None else None,
        added=number(found, "data_added"),
        snapshot=f"{name}/{found['snapshot_id']}",
        warnings=warnings,
    )
