"""The shared part of all engines: the beginning of a run, the reasons to end it before its program ends, and its
result.

An engine is a file or folder next to this file: a pure argv builder, an output parser, and a table of the meanings of
exit codes and messages. Exceptions that it raises become a result here.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from engines.base import BackupTask, EngineProgress, EngineResult, RunEnded, RunStalled, Verdict
from engines.limits import LeastRate, Space
from engines.results import STOPPED, GuardedProgress, result_of
from engines.whereabouts import unmoved
from external.processes import runner
from external.processes.runner import Command, EndReason, ProgramEnd, StopSignal
from storage.points.manifests import Header
from storage.points.store import Store

NOTHING: Mapping[str, str] = MappingProxyType({})
OnProgress = Callable[[EngineProgress], None]


class EngineRun:
    """One run of an engine. Its methods raise exceptions that `result_of` turns into a result. `lock`: descriptors that
    its programs keep open.
    """

    def __init__(
        self,
        task: BackupTask,
        stop: StopSignal,
        on_progress: OnProgress = lambda progress: None,
        lock: tuple[int, ...] = (),
    ) -> None:
        self.task, self.stop, self.on_progress, self.inherited = task, stop, on_progress, lock
        self.store = Store(task.location, stop, task.stall_timeout, task.program_grace, lock, known=task.known)
        self.space = Space(task.location.directory, task.reserve, Verdict.FILLED)
        self.least_rate = LeastRate(task.least_rate)

    def check(self, written: int, growing: str) -> None:
        """Check the limits; called often while a program is at work, with the bytes that it has written. `growing`: the
        thing that it fetches, empty if it fetches nothing now. Raises: RunEnded when there is too little room, or the
        bytes come too slowly.
        """
        self.space.check(written, growing)
        self.least_rate.check(written, is_fetching=bool(growing))

    def start(
        self,
        argv: tuple[str, ...],
        environment: Mapping[str, str] = NOTHING,
        *,
        sign_of_life: Callable[[], object] | None = None,
        stalls: bool = True,
        on_line: Callable[[str], None] = lambda line: None,
        given: bytes = b"",
        inherited: tuple[int, ...] = (),
    ) -> ProgramEnd:
        """Run a program until it exits. `stalls`: True if it is ended when it shows nothing new for as long as the task
        allows; the other parameters are those of `runner`. Raises: RunEnded when it was stopped; RunStalled; OSError.
        """
        command = Command(
            argv,
            environment,
            stall_timeout=self.task.stall_timeout if stalls else math.inf,
            grace=self.task.program_grace,
            given=given,
            inherited=(*self.inherited, *inherited),
        )
        ended = runner.run(command, stop=self.stop, on_line=on_line, sign_of_life=sign_of_life)
        if ended.ending is EndReason.STALLED:
            text = f"nothing moved for {self.task.stall_timeout:g} s; it was ended"
            raise RunStalled(Verdict.SOURCE_FAILED, text)
        if ended.ending is EndReason.STOPPED:
            raise RunEnded(Verdict.STOPPED, STOPPED)
        return ended

    def header(self, engine: str, version: str, *, complete: bool = True, boot: str = "") -> Header:
        """The header of the point's manifest. `engine`, `version`: the program that wrote its files; `complete`: True
        if no file was left out.
        """
        task = self.task
        return Header(
            source=task.source.name,
            source_kind=task.source_kind or task.source.kind,
            policy=task.policy,
            engine=engine,
            engine_version=version,
            started_at=task.started_at.astimezone(UTC).isoformat(),
            ended_at=datetime.now(UTC).isoformat(timespec="seconds"),
            complete=complete,
            boot=boot,
        )


class Engine(ABC):
    """The adapter that runs one backup program. `look` and `copy` raise exceptions that `result_of` turns into a
    result.
    """

    name: str

    @abstractmethod
    def find_programs(self) -> None:
        """Look for the engine's programs. Raises: ProgramMissing for the first one that is not installed here."""

    @abstractmethod
    def check_options(self, options: dict[str, Any]) -> None:
        """Check the options of a policy. Raises: ValueError naming an option that this engine does not know, or a bad
        value.
        """

    @abstractmethod
    def look(self, task: BackupTask, stop: StopSignal) -> str:
        """Name the parts of the source that may be read, in a sentence without a full stop. Nothing is copied."""

    @abstractmethod
    def copy(self, task: BackupTask, stop: StopSignal, on_progress: OnProgress) -> EngineResult:
        """Copy; block until done."""

    @abstractmethod
    def stage(
        self, task: BackupTask, into: Path, stop: StopSignal, on_progress: OnProgress
    ) -> tuple[EngineResult, Path]:
        """Bring the source into a folder on this host, for another engine to read. Returns the result, and the folder.
        Raises: exceptions that `result_of` turns into a result.
        """

    def run(self, task: BackupTask, *, on_progress: OnProgress, stop: StopSignal) -> EngineResult:
        """Copy; block until done. When `stop` is set, end the program and return Verdict.STOPPED.

        Never raises for anything that the program, the source or the repository does.
        """

        def copy() -> EngineResult:
            return self.copy(replace(task, source=unmoved(task.source)), stop, GuardedProgress(on_progress))

        return result_of(task, copy)
