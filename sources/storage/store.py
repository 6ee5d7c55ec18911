"""Reads and changes what lies in a repository, by rclone. Paths are relative to the folder of all assignments."""

import dataclasses
import json
import math
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sources.processes import runner
from sources.processes.programs import find_rclone
from sources.processes.runner import Command, Ended, Ending, StopSignal
from sources.storage.location import Location

QUIET = ("--config=", "--use-json-log", "--log-level=ERROR", "--retries=1", "--list-cutoff=1000000000000")
PARTIAL_SUFFIX = ".rclone-partial"
"""Ends the name of a file that is being fetched. Not more than 16 characters."""
STATS = '"stats":{'
AFTER_A_PROBLEM = "can't close account: file already closed"
"""Which rclone adds where it could not decrypt a file."""
DIGEST = re.compile(r"([0-9a-f]{64})  ")
UNREADABLE = re.compile(r"decrypt|crypt|corrupt|bad magic|unexpected EOF|hashes differ", re.IGNORECASE)
"""What rclone says of a file on a remote whose content is wrong; the rest may be the way there."""
NOT_FOUND = (3, 4)
"""rclone's exit codes for a directory and a file that is not there (https://rclone.org/docs/#exit-code)."""


class StorageFailed(Exception):
    """rclone could not do it. The message is for people, in one line."""


class Stopped(Exception):
    """It was stopped before it had ended. Whatever was begun can be begun again."""


@dataclass(frozen=True)
class Store:
    """A repository at work. Each call blocks, and may raise StorageFailed, Stopped, ProgramMissing and OSError.

    `stall_timeout` and `grace` in seconds, as `Command` has them. `inherited`: descriptors that rclone keeps open.
    """

    location: Location
    stop: StopSignal
    stall_timeout: float = 600.0
    grace: float = 4.0
    inherited: tuple[int, ...] = ()

    def names(self, path: str, *, folders: bool = False) -> list[str]:
        """Names of the files, or of the folders, right in a folder. Empty where it is missing."""
        if (here := self._here(path)) is not None:
            try:
                return [each.name for each in os.scandir(here) if each.is_dir(follow_symlinks=False) is folders]
            except FileNotFoundError:
                return []
        kind = "--dirs-only" if folders else "--files-only"
        rows: list[dict[str, Any]] = []
        self._list(path, rows.append, kind)
        return [row["Name"] for row in rows]

    def entries(self, path: str, *options: str) -> Iterator[dict[str, Any]]:
        """All that lies below a folder, as rclone's lsjson has it: Path, Size, ModTime, IsDir, … in no order."""
        rows: list[dict[str, Any]] = []
        self.walk(path, rows.append, *options)
        return iter(rows)

    def walk(self, path: str, take: Callable[[dict[str, Any]], object], *options: str) -> None:
        """The same, each handed over as it comes: a million of them take a gigabyte."""
        self._list(path, take, "--recursive", *options)

    def digests(self, path: str, paths: Collection[str]) -> dict[str, str]:
        """SHA-256 in hex of files in a folder, by path: of those that are there, where their remote can tell."""
        found: dict[str, str] = {}

        def take(row: dict[str, Any]) -> None:
            if digest := (row.get("Hashes") or {}).get("sha256"):
                found[row["Path"]] = digest

        # a large file is read for longer than any stall lasts
        patient = dataclasses.replace(self, stall_timeout=math.inf)
        patient.with_paths(
            paths,
            "lsjson", "--recursive", "--no-mimetype", "--no-modtime", "--hash", "--hash-type=sha256",
            self.location.at(path),
            on_line=_rows_to(take),
        )  # fmt: skip
        return found

    def read(self, path: str, paths: Collection[str]) -> tuple[dict[str, str], dict[str, str]]:
        """Read files in a folder whole. Returns SHA-256 in hex by path, and of others why they cannot be read, by path.
        What is in neither is not there. Raises: StorageFailed also for what may be well and was out of reach."""
        digests: dict[str, str] = {}
        problems: dict[str, str] = {}
        activity: tuple[int, ...] = ()

        def take(line: str) -> None:
            nonlocal activity
            if STATS in line:
                stats = json.loads(line)["stats"]
                activity = tuple(int(stats.get(each, 0)) for each in ("bytes", "checks", "transfers"))
            elif digest := DIGEST.match(line):
                digests[line[digest.end() :]] = digest[1]

        self.with_paths(
            paths, "hashsum", "sha256", "--download", "--stats=5s", "--stats-log-level=ERROR", self.location.at(path),
            on_line=take, sign_of_life=lambda: (activity, len(digests)), missing_ok=True, problems=problems,
        )  # fmt: skip
        for name, problem in problems.items():
            if not (self.location.directory or UNREADABLE.search(problem)):
                raise StorageFailed(f"{name}: {problem}")
        return digests, problems

    def touch(self, path: str, time: str) -> None:
        """Give a file another time, as 2000-01-01T00:00:00."""
        self.run("touch", "--no-create", f"--timestamp={time}", self.location.at(path))

    def sizes(self, path: str) -> dict[str, int]:
        """The files below a folder, and their sizes in bytes. Empty where it is missing."""
        found: dict[str, int] = {}
        self.walk(path, lambda row: found.update({row["Path"]: row["Size"]}), "--files-only", "--no-modtime")
        return found

    def fetch(self, path: str, file: Path) -> bool:
        """Copy a file out of the repository. Returns whether it was there."""
        if (here := self._here(path)) is not None:
            try:
                shutil.copyfile(here, file)
            except FileNotFoundError:
                return False
            return True
        # of a bucket, a file that is missing is copied like a folder that is empty: with success
        return self.run("copyto", self.location.at(path), str(file), missing_ok=True) and file.is_file()

    def put(self, file: Path, path: str) -> None:
        """Copy a file into the repository, where it is seen whole or not at all."""
        if (here := self._here(path)) is not None:
            here.parent.mkdir(parents=True, exist_ok=True)
            new = here.with_name(f".{here.name}.new")
            with file.open("rb") as read, new.open("wb") as written:
                shutil.copyfileobj(read, written)
                written.flush()
                os.fsync(written.fileno())
            new.replace(here)
            return
        # `file` may be a descriptor, which systems show as a link
        self.run("copyto", "--ignore-times", "--copy-links", str(file), self.location.at(path))

    def move(self, source: str, target: str, paths: Collection[str] | None = None) -> None:
        """Move files from a folder to another one, over what is there; `paths`: only these, as far as they exist."""
        self.with_paths(
            paths, "move", "--ignore-times", "--no-traverse", self.location.at(source), self.location.at(target)
        )

    def remove(self, path: str) -> None:
        """Delete a file that `put` made. Missing is fine."""
        if (here := self._here(path)) is not None:
            here.unlink(missing_ok=True)
        else:
            self.run("deletefile", self.location.at(path), missing_ok=True)

    def copy_out(
        self, path: str, target: str, paths: Collection[str], on_progress: Callable[[int, int], None], *options: str
    ) -> None:
        """Copy files out of a folder, as far as they exist, into `target`, an argument of rclone.

        `on_progress` gets how many files and bytes were copied, twice a second.
        """
        done: tuple[int, ...] = ()

        def take(line: str) -> None:
            nonlocal done
            if STATS in line:
                stats = json.loads(line)["stats"]
                done = tuple(int(stats.get(each, 0)) for each in ("transfers", "bytes", "checks", "listed"))
                on_progress(*done[:2])

        arguments = ("copy", "--no-traverse", "--stats=500ms", "--stats-log-level=ERROR", *options)
        self.with_paths(paths, *arguments, self.location.at(path), target, on_line=take, sign_of_life=lambda: done)

    def delete(self, path: str, paths: Collection[str] | None = None) -> None:
        """Delete files in a folder; `paths`: only these, else the folder with all that it holds. Missing is fine."""
        if paths is None:
            at = self.location.at(path)
            # a purge of a folder that is not there is an error like any other
            if self.run("lsf", at, missing_ok=True):
                self.run("purge", at, missing_ok=True)
        else:
            self.with_paths(paths, "delete", self.location.at(path), missing_ok=True)

    def remove_empty_folders(self, path: str, *, leave_root: bool = True) -> None:
        """Below a folder: a file does not go where a folder is. `leave_root`: the folder itself stays."""
        self.run("rmdirs", *(("--leave-root",) if leave_root else ()), self.location.at(path), missing_ok=True)

    def _here(self, path: str) -> Path | None:
        """The same on this host, for files whose names this program chose: too small to start a program for."""
        return Path(self.location.at(path)) if self.location.is_plain else None

    def run(
        self,
        *arguments: str,
        given: bytes = b"",
        missing_ok: bool = False,
        on_line: Callable[[str], None] = lambda line: None,
        sign_of_life: Callable[[], object] | None = None,
        problems: dict[str, str] | None = None,
    ) -> bool:
        """Run rclone. Returns False when what it was to read is missing and that is fine.

        `on_line`, `sign_of_life`: as `runner.run` has them; errors of rclone are no lines. `problems`: takes errors
        about single files, by path, which are no failure then.
        """
        errors: list[str] = []

        def take(line: str) -> None:
            if line.startswith('{"time"') and STATS not in line:
                message, path = _message(line)
                if problems is not None and path:
                    problems[path] = message
                elif message != AFTER_A_PROBLEM:
                    errors.append(message)
            else:
                on_line(line)

        command = Command(
            (find_rclone(), *arguments, *QUIET),
            environment=self.location.environment,
            stall_timeout=self.stall_timeout,
            grace=self.grace,
            given=given,
            inherited=self.inherited,
        )
        ended = runner.run(command, stop=self.stop, on_line=take, sign_of_life=sign_of_life)
        if problems and not errors and ended.ending is Ending.EXITED:
            return True
        return _judge(ended, arguments[0], errors, missing_ok)

    def _list(self, path: str, take: Callable[[dict[str, Any]], object], *options: str) -> None:
        at = self.location.at(path)
        self.run("lsjson", "--no-mimetype", *options, at, missing_ok=True, on_line=_rows_to(take))

    def with_paths(self, paths: Collection[str] | None, *arguments: str, **watched: Any) -> None:
        if paths is None:
            self.run(*arguments, **watched)
        elif paths:
            with path_list(paths) as file:
                self.run(*arguments, f"--files-from0={file}", **watched)


@contextmanager
def path_list(paths: Iterable[str]) -> Iterator[str]:
    """A file that names these paths, for rclone's --files-from0, as long as the block lasts."""
    with tempfile.NamedTemporaryFile() as listed:
        listed.write(b"".join(path.encode() + b"\0" for path in paths))
        listed.flush()
        yield listed.name


def _rows_to(take: Callable[[dict[str, Any]], object]) -> Callable[[str], None]:
    def on_line(line: str) -> None:
        if line.startswith('{"Path"'):
            take(json.loads(line.rstrip(",")))

    return on_line


def _judge(ended: Ended, verb: str, errors: list[str], missing_ok: bool) -> bool:
    if ended.ending is Ending.STOPPED:
        raise Stopped
    if ended.ending is Ending.STALLED:
        raise StorageFailed(f"rclone {verb} made no progress and was ended")
    if ended.exit_code in NOT_FOUND and missing_ok:
        return False
    if ended.exit_code != 0:
        raise StorageFailed(errors[-1] if errors else f"rclone {verb} ended with code {ended.exit_code}")
    return True


def _message(line: str) -> tuple[str, str]:
    """An error of rclone, and the path of the file that it is about; empty: none."""
    try:
        row = json.loads(line)
        return str(row.get("msg", "")).strip(), str(row.get("object", ""))
    except ValueError:
        return line.strip(), ""
