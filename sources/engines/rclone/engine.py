"""Engine rclone: copies SFTP hosts, S3 buckets, WebDAV shares and local folders into a directory.

`current` in the destination mirrors the source; what a run replaces or deletes goes to `versions` (`versions.py`).
rclone needs no configuration file: the remote is made of environment variables, and passwords are obscured through
its standard input. A file is fetched under a partial name and renamed when whole.

Not copied: symbolic links (those of a local folder are counted in a warning), sockets, pipes, devices; owners and
permissions. A file that changes, vanishes or is not readable while it is copied makes a warning, not a failure, as
long as anything else was copied; nothing is deleted from `current` in such a run.

A source that is silent is unavailable. A source without its directory, or an S3 prefix that holds nothing, has failed:
taken for an empty source it would push everything out of `current`.
"""

import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from delivery.redaction import redacted
from sources.engines.base import BackupTask, EngineProgress, EngineResult, RunEnded, Verdict
from sources.engines.limits import LeastRate, Space
from sources.engines.rclone.gate import gate_to
from sources.engines.rclone.log import RcloneLog
from sources.engines.rclone.options import check_options, option_arguments, option_environment
from sources.engines.rclone.remotes import (
    SourceIncomplete,
    known_hosts_lines,
    remote_environment,
    remote_path,
    remote_settings,
    servers_of,
)
from sources.engines.rclone.verdicts import Judgement, judge
from sources.engines.results import GuardedProgress, failure, judge_ending, result_of
from sources.engines.versions import PARTIAL_SUFFIX, Copy, StoppedHere, locked
from sources.processes import runner
from sources.processes.programs import find_rclone
from sources.processes.runner import Command, Ended, Ending, StopSignal

IDLE_SECONDS = 300.0
OBSCURE_SECONDS = 30.0


class RcloneEngine:
    """Copies a source of kind sftp, s3, webdav or local. Options: `options.py`."""

    name = "rclone"

    def check_options(self, options: dict[str, Any]) -> None:
        """Raises: ValueError naming an option that rclone is not given, or a bad value."""
        check_options(options)

    def run(self, task: BackupTask, *, on_progress: Callable[[EngineProgress], None], stop: StopSignal) -> EngineResult:
        """Mirror the source into `<destination>/current`, keeping what that replaces. See `Engine.run`.

        `size` and `files` are those of the whole copy, `read` and `added` what this run fetched, `snapshot` the path of
        the copy.
        """

        def copy() -> EngineResult:
            _check_folder(task)
            program = find_rclone()
            with (
                locked(task.destination) as lock,
                tempfile.TemporaryFile() as known_hosts,
                gate_to(servers_of(task.source), task.connect_timeout) as gate,
            ):
                return _Run(task, program, lock, known_hosts, gate, GuardedProgress(on_progress), stop).copy_source()

        return result_of(task, copy)


class _Run:
    """One run of the engine. Raises what `result_of` turns into a result."""

    def __init__(
        self,
        task: BackupTask,
        program: str,
        lock: int,
        known_hosts: IO[bytes],
        gate: str,
        on_progress: Callable[[EngineProgress], None],
        stop: StopSignal,
    ) -> None:
        self.task, self.program, self.lock, self.known_hosts, self.gate = task, program, lock, known_hosts, gate
        self.on_progress, self.stop = on_progress, stop
        self.copy = Copy(task.destination.absolute())
        self.space = Space(self.copy.destination, task.reserve)
        self.least_rate = LeastRate(task.least_rate)
        self.log = self._new_log()
        self.environment = self._environment()

    def copy_source(self) -> EngineResult:
        self._refuse_empty_prefix()
        version = self.copy.begin(self.task.started_at, self.stop.is_set)
        judgement = Judgement(Verdict.STOPPED)
        try:
            self.space.check_before()
            ended = self._start(sync_arguments(self.task, self.copy, version), self._take)
            judgement = self._judge(ended)
        finally:
            # a copy that was stopped is healed all the same, as far as that goes in half of what is left of the grace
            until = time.monotonic() + (self.task.grace - self.task.program_grace) / 2
            self.copy.finish(
                version,
                complete=judgement.verdict is Verdict.SUCCEEDED,
                stopped=lambda: self.stop.is_set() and time.monotonic() >= until,
            )
        if judgement.verdict not in (Verdict.SUCCEEDED, Verdict.WARNINGS):
            return failure(judgement.verdict, judgement.text)
        return self._success(judgement)

    def _success(self, judgement: Judgement) -> EngineResult:
        files, size = self.copy.measure(self.stop.is_set)
        with suppress(StoppedHere):  # what is left is pruned after the next run
            self.copy.prune(self.task.keep_versions, self.stop.is_set)
        warnings = list(judgement.warnings)
        if self.log.skipped_links:
            links = self.log.skipped_links
            warnings.append(f"{links} symbolic link{'s were' if links > 1 else ' was'} not copied")
        return EngineResult(
            Verdict.WARNINGS if warnings else Verdict.SUCCEEDED,
            size=size,
            read=self.log.transferred,
            added=self.log.transferred,
            files=files,
            snapshot=str(self.copy.current),
            warnings=tuple(warnings),
        )

    def _refuse_empty_prefix(self) -> None:
        """S3 knows no directories: a prefix that does not exist lists like an empty one. Raises: RunEnded."""
        source = self.task.source
        if source.kind != "s3" or "/" not in source.path.strip("/"):
            return
        names: list[str] = []

        def take(line: str) -> None:
            if line.startswith("{"):
                self._take(line)
            elif not names:
                names.append(line)

        arguments = ("lsf", remote_path(source), "--max-depth=1", *common_arguments(self.task))
        judgement = self._judge(self._start(arguments, take))
        if judgement.verdict is not Verdict.SUCCEEDED:
            raise RunEnded(judgement.verdict, judgement.text)
        if not names:
            text = f"there is nothing under {source.path}: check the path of {source.name!r}"
            raise RunEnded(Verdict.SOURCE_FAILED, text)

    def _start(self, arguments: tuple[str, ...], on_line: Callable[[str], None]) -> Ended:
        command = Command(
            (self.program, *arguments),
            environment=self.environment,
            stall_timeout=self.task.stall_timeout,
            grace=self.task.program_grace,
            inherited=(self.lock, self.known_hosts.fileno()),
        )
        self.log = self._new_log()
        return runner.run(command, stop=self.stop, on_line=on_line, sign_of_life=self._sign_of_life)

    def _new_log(self) -> RcloneLog:
        return RcloneLog(lambda text: redacted(text, [self.task.source.secret or ""]))

    def _sign_of_life(self) -> tuple[int, ...]:
        self.space.check(self.log.transferred, self.log.growing or "many files")
        self.least_rate.check(self.log.transferred, is_fetching=bool(self.log.growing))
        return self.log.activity

    def _take(self, line: str) -> None:
        if progress := self.log.take(line):
            self.on_progress(progress)

    def _judge(self, ended: Ended) -> Judgement:
        if ended.ending is Ending.EXITED:
            return judge(ended.exit_code, self.log, self.copy.destination)
        verdict, text = judge_ending(ended.ending, self.task)
        return Judgement(verdict, text)

    def _environment(self) -> dict[str, str]:
        source = self.task.source
        if source.kind == "sftp":
            self.known_hosts.write(known_hosts_lines(source).encode())
            self.known_hosts.flush()
            self.known_hosts.seek(0)
        # a file without a name, which rclone inherits: a worker that is killed leaves nothing behind
        known_hosts = f"/dev/fd/{self.known_hosts.fileno()}"
        ways_out = dict.fromkeys(("RCLONE_HTTP_PROXY", "HTTP_PROXY", "HTTPS_PROXY"), self.gate)
        clock = option_environment(self.task.options, self.task.zone)
        return remote_environment(remote_settings(source, self._obscure, known_hosts)) | ways_out | clock

    def _obscure(self, password: str) -> str:
        """A password in rclone's form, which its environment wants. It goes in through a pipe, never argv."""
        if "\n" in password or "\0" in password:
            raise SourceIncomplete("the secret holds a line break, which no password may")
        try:
            ended = subprocess.run(
                (self.program, "obscure", "-", "--config="),
                input=password.encode(),
                env=runner.program_environment({}),
                capture_output=True,
                timeout=OBSCURE_SECONDS,
                check=True,
            )
        except subprocess.SubprocessError:
            raise SourceIncomplete("rclone does not take the secret as a password") from None
        return ended.stdout.decode().strip()


def sync_arguments(task: BackupTask, copy: Copy, version: Path) -> tuple[str, ...]:
    """The arguments that mirror the source into `copy.current`, with what that replaces moved to `version`. Pure.

    Raises: ValueError on a bad option.
    """
    return (
        "sync",
        remote_path(task.source),
        str(copy.current),
        f"--backup-dir={version}",
        f"--partial-suffix={PARTIAL_SUFFIX}",
        "--create-empty-src-dirs",
        "--delete-excluded",
        "--skip-specials",
        # a source that names a huge size would get all free space before its first byte
        "--local-no-preallocate",
        *common_arguments(task),
        *option_arguments(task.options),
    )


def common_arguments(task: BackupTask) -> tuple[str, ...]:
    """The arguments of every rclone that talks to a source: no configuration file, no retries of its own."""
    return (
        "--config=",
        "--use-json-log",
        "--stats=500ms",
        "--stats-log-level=NOTICE",
        "--retries=1",
        # rclone sorts longer listings in /var/tmp, whose space nothing bounds; its memory is bounded
        "--list-cutoff=1000000000000",
        "--low-level-retries=3",
        f"--contimeout={task.connect_timeout:g}s",
        f"--timeout={min(IDLE_SECONDS, task.stall_timeout):g}s",
    )


def _check_folder(task: BackupTask) -> None:
    """Raises: RunEnded for a local folder whose volume is absent, or that overlaps the repository."""
    source = task.source
    if source.kind != "local":
        return
    folder = Path(source.path)
    marker = source.options.get("marker")
    if marker and not (folder / str(marker)).exists():
        text = f"{folder} lacks its marker {marker}: its volume does not seem to be mounted"
        raise RunEnded(Verdict.UNAVAILABLE, text)
    if not folder.is_dir():
        raise RunEnded(Verdict.SOURCE_FAILED, f"there is no directory {folder} here")
    real_folder, real_destination = os.path.realpath(folder), os.path.realpath(task.destination)
    if os.path.commonpath([real_folder, real_destination]) in (real_folder, real_destination):
        raise RunEnded(
            Verdict.SOURCE_FAILED,
            f"{folder} and the repository's directory {task.destination} lie one in the other; a copy of the source "
            "would contain itself: move one of them",
        )
