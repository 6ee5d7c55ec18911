"""Engine rclone: copies SFTP hosts, S3 buckets, WebDAV shares and local folders into a repository.

`current` in the assignment's folder mirrors the source; what a run replaces or deletes goes to `versions`
(`storage.layout`); a manifest makes the point (`point.py`). rclone needs no configuration file: remotes are
made of environment variables, and passwords are obscured through its standard input. A file is fetched under a partial
name and renamed when whole.

Kept of a local folder: symbolic links, and modes, in the manifest. Not copied: links of other sources, sockets, pipes,
devices; owners. A file that changes, vanishes or is not readable while it is copied makes a warning, not a failure, as
long as anything else was copied; nothing is deleted from `current` in such a run.

A source that is silent is unavailable. A source without its directory, or an S3 prefix that holds nothing, has failed:
taken for an empty source it would push everything out of `current`.
"""

import dataclasses
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from engines.base import BackupTask, EngineResult, RunEnded, Stalled, Verdict
from engines.engine import Engine, OnProgress, Run
from engines.limits import Later
from engines.rclone.earlier import Earlier, changed, earlier, in_the_way
from engines.rclone.log import RcloneLog
from engines.rclone.options import (
    check_options,
    common_arguments,
    option_arguments,
    option_environment,
    sync_arguments,
)
from engines.rclone.point import make_point
from engines.rclone.presence import check_folder, check_marker
from engines.rclone.remotes import is_bucket, remote_path, way_to
from engines.rclone.verdicts import Judgement, judge
from engines.results import failure
from external.processes.programs import find_rclone
from external.processes.runner import StopSignal
from external.redaction import redacted
from storage import layout
from storage.places.locks import locked
from storage.places.rclone import ROW, command_line, line_by_line
from storage.points import runs
from storage.points.runs import Begun
from storage.points.store import Stopped, StorageFailed, path_list


class RcloneEngine(Engine):
    """Copies a source of kind sftp, s3, webdav, local or rclone. Options: `options.py`."""

    name = "rclone"

    def find_programs(self) -> None:
        find_rclone()

    def check_options(self, options: dict[str, Any]) -> None:
        check_options(options)

    def look(self, task: BackupTask, stop: StopSignal) -> str:
        with way_to(task.source, task.location, task.connect_timeout) as way:
            run = _Run(task, stop, way=way)
            try:
                check_marker(task.source, run.ask)
                entries = run.count_top()
            except RunEnded as error:
                if error.verdict is not Verdict.STOPPED and not isinstance(error, Stalled):
                    raise
                text = f"its topmost folder was not listed in time ({run.entries:,} entries so far)"
                raise RunEnded(Verdict.UNAVAILABLE, text) from None
        return f"{entries:,} entr{'ies lie' if entries != 1 else 'y lies'} in its topmost folder"

    def copy(self, task: BackupTask, stop: StopSignal, on_progress: OnProgress) -> EngineResult:
        """Mirror the source into `current`, keeping what that replaces, and make a point.

        `size` and `files` are those of the whole point, `read` what this run fetched, `snapshot` names the point.
        """
        check_folder(task)
        # how the two streams are compared, and a change under way is noticed; MD5 would take most of the time
        quick = {"hashes": "xxh3"} if task.source.kind == "local" and task.location.is_plain else {}
        self.find_programs()
        with (
            locked(task.location, task.folder) as lock,
            way_to(task.source, task.location, task.connect_timeout, **quick) as way,
        ):
            return _Run(task, stop, on_progress, lock, way=way).copy_source()


class _Run(Run):
    """One run of the engine. `way`: the environment of an rclone that reaches the source."""

    def __init__(self, *run: Any, way: dict[str, str]) -> None:
        super().__init__(*run)
        self.log, self.read, self.entries = self._new_log(), 0, 0
        self.times, self.doubtful, self.unseen = dict[str, str](), set[str](), list[str]()
        self.failed, self.names_all = set[str](), True
        self.pieces: list[str] = []
        self.environment = option_environment(self.task.options, self.task.zone) | way

    def copy_source(self) -> EngineResult:
        self._refuse_empty_prefix()
        check_marker(self.task.source, self.ask)
        if self.space.lack():  # what a killed run left may be what fills the disk
            runs.remove_pieces(self.store, self.task.folder)
        self.space.check_before()
        self.begun = self._begin()
        with earlier(self.store, self.task.folder, self.begun.newest) as before:
            return self._make(before)

    def ask(self, arguments: tuple[str, ...], on_line: Callable[[str], None]) -> Judgement:
        """Let rclone list something of the source. Raises: RunEnded, when it was ended."""
        return self._run(arguments, on_line=lambda line: self._take(line) if line.startswith("{") else on_line(line))

    def count_top(self) -> int:
        """The entries of the topmost folder. Raises: RunEnded."""
        self.entries = 0

        def take(line: str) -> None:
            if line.startswith("{"):
                self._take(line)
            else:
                self.entries += 1

        judgement = self._run(("lsf", remote_path(self.task.source), "--max-depth=1"), on_line=take)
        if judgement.verdict is not Verdict.SUCCEEDED:
            raise RunEnded(judgement.verdict, judgement.text)
        return self.entries

    def _begin(self) -> Begun:
        return runs.begin(self.store, self.task.folder, self.task.started_at, runs.heal)

    def _make(self, before: Earlier) -> EngineResult:
        judgement = Judgement(Verdict.STOPPED)
        try:
            judgement = self._sync(before)
        except RunEnded as error:
            judgement = Judgement(error.verdict, str(error))
        finally:
            if judgement.verdict is not Verdict.SUCCEEDED:
                self._heal(ends=judgement.verdict is not Verdict.WARNINGS)
        if judgement.verdict not in (Verdict.SUCCEEDED, Verdict.WARNINGS):
            self._blame_the_repository(judgement)
            return failure(judgement.verdict, judgement.text)
        # what was not copied: the next run is to see that it differs
        self.times |= dict.fromkeys(self.doubtful & self.failed if self.names_all else self.doubtful, "")
        complete = not judgement.warnings and not self.task.left_out
        totals, digest, changes, more = make_point(self, self.begun, before, self.times, self.pieces, complete=complete)
        warnings = (*self.task.left_out, *judgement.warnings, *more)
        return EngineResult(
            Verdict.WARNINGS if warnings else Verdict.SUCCEEDED,
            size=totals.size,
            files=totals.files,
            **dataclasses.asdict(changes),
            read=self.read,
            snapshot=self.begun.name,
            manifest=digest,
            warnings=warnings,
        )

    def _sync(self, before: Earlier) -> Judgement:
        """In each run a file leaves `current` once: a second one, of a file that changed again meanwhile, would be
        moved over what an earlier point holds."""
        judgement = self._mirror(before)
        if judgement.verdict is not Verdict.SUCCEEDED and self.log.clashes:
            # a file is a folder now, or a folder a file: the old one has to go first, which takes a second listing
            self.begun = self._begin()
            judgement = self._mirror(before, "--delete-before")
        if not self._is_listed or judgement.verdict not in (Verdict.SUCCEEDED, Verdict.WARNINGS):
            return judgement
        moved = self._moved()
        # as it was listed, it is what the last point says: it has changed before the sync, at an unknown time
        self.times |= dict.fromkeys(moved - self.doubtful, "")
        unseen = [] if self.task.location.sees_changes else [each for each in self.unseen if each not in moved]
        copied = self._copy_unseen(unseen)
        if copied.verdict is Verdict.SUCCEEDED:
            return judgement
        return dataclasses.replace(copied, warnings=(*judgement.warnings, *copied.warnings))

    def _mirror(self, before: Earlier, *how: str) -> Judgement:
        if self._is_listed:
            listed = self._align(before)
            if listed.verdict is not Verdict.SUCCEEDED:
                return listed
        return self._copy((*sync_arguments(self.task, "sync", self.begun.name), *how))

    @property
    def _is_listed(self) -> bool:
        """Whether the source is listed before it is copied."""
        return self.task.location.directory is None or not self.task.location.sees_changes

    def _moved(self) -> set[str]:
        """What this run has replaced or deleted, by path."""
        moved, versions = set[str](), f"{self.task.folder}/{layout.VERSIONS}/{self.begun.name}"
        self.store.walk(versions, lambda row: moved.add(row["Path"]), files_only=True)
        return moved

    def _copy_unseen(self, paths: list[str]) -> Judgement:
        """What has changed and has its size still, where a sync goes by that."""
        if not paths:
            return Judgement(Verdict.SUCCEEDED)
        with path_list(paths) as file:
            copy_these = sync_arguments(self.task, "copy", self.begun.name)
            return self._copy((*copy_these, "--ignore-times", "--no-traverse", f"--files-from0={file}"))

    def _copy(self, arguments: tuple[str, ...]) -> Judgement:
        judgement = self._run(arguments)
        self.read += self.log.transferred
        if judgement.verdict is not Verdict.SUCCEEDED:
            self.failed |= {problem.path for problem in self.log.problems}
            self.names_all &= "" not in self.failed and self.log.problem_count == len(self.log.problems)
        return judgement

    def _align(self, before: Earlier) -> Judgement:
        """What a sync to this repository would not do, or not well (`earlier.py`)."""
        task, sizes, copy = self.task, dict[str, int](), list[str]()
        self.times.clear()  # a pass before this one listed what may be gone, and come back as something else

        def take(line: str) -> None:
            if line.startswith(ROW):
                row = json.loads(line.rstrip(","))
                self.times[row["Path"]] = row.get("ModTime", "")
                if not row["IsDir"]:
                    sizes[row["Path"]] = row["Size"]
            else:
                self._take(line)

        arguments = ("lsjson", remote_path(task.source), "--recursive", "--no-mimetype")
        listed = self._run((*arguments, *option_arguments(task.options)), on_line=line_by_line(take))
        if listed.verdict is Verdict.UNAVAILABLE:
            return listed  # of all else the sync says what it is
        current = f"{task.folder}/{layout.CURRENT}"
        self.store.walk(current, lambda row: copy.append(row["Path"]), files_only=True)
        if paths := in_the_way(self.times, sizes, copy):
            self.store.move(current, f"{task.folder}/{layout.VERSIONS}/{self.begun.name}", paths)
            self.store.remove_empty_folders(current)
            gone = set(paths)
            copy = [each for each in copy if each not in gone]
        self.unseen, _ = before.use(lambda point: changed(self.times, sizes, copy, point))
        self.doubtful = {*self.unseen, *self.times.keys() - copy}
        return Judgement(Verdict.SUCCEEDED)

    def _blame_the_repository(self, judgement: Judgement) -> None:
        """A remote says the same as a source: it is asked. Raises: StorageFailed, when it does not answer."""
        if self.task.location.directory is None and judgement.verdict is not Verdict.STOPPED:
            self.store.run("lsf", self.task.location.root, "--max-depth=1", "--low-level-retries=1", missing_ok=True)

    def _heal(self, *, ends: bool) -> None:
        """One that was stopped is healed all the same, as far as that goes in half of what is left of the grace.

        `ends`: it makes no point.
        """
        stop = Later(self.stop, (self.task.grace - self.task.program_grace) / 2)
        store = dataclasses.replace(self.store, stop=stop)
        with suppress(Stopped, StorageFailed):
            self.pieces = runs.heal(store, self.task.folder, self.begun.name)
            if ends:
                runs.end(store, self.task.folder, self.begun.name)

    def _refuse_empty_prefix(self) -> None:
        """S3 knows no directories: a prefix that does not exist lists like an empty one. Raises: RunEnded."""
        source = self.task.source
        if is_bucket(source) and "/" in source.path.strip("/") and not self.count_top():
            text = f"there is nothing under {source.path}: check the path of {source.name!r}"
            raise RunEnded(Verdict.SOURCE_FAILED, text)

    def _run(self, arguments: tuple[str, ...], on_line: Callable[[str], None] | None = None) -> Judgement:
        """What an rclone comes to that talks to the source. Raises: RunEnded, when it was ended."""
        self.log = self._new_log()
        argv = command_line(*arguments, *common_arguments(self.task))
        ended = self.start(argv, self.environment, on_line=on_line or self._take, sign_of_life=self._sign_of_life)
        return judge(ended.exit_code, self.log, self.task.location.at(self.task.folder))

    def _new_log(self) -> RcloneLog:
        return RcloneLog(lambda text: redacted(text, [*self.task.source.hidden, *self.task.location.secrets]))

    def _sign_of_life(self) -> tuple[int, ...]:
        self.check(self.log.transferred, self.log.growing)
        return self.log.activity

    def _take(self, line: str) -> None:
        if progress := self.log.take(line):
            self.on_progress(progress)
