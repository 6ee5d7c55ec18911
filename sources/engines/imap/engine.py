"""Engine imap: brings a Maildir copy of a mailbox up to date (`fetching.py`), and copies that with rclone.

What speaks with the server is a program of its own (`child.py`): it can be killed, and has no more memory than an
engine may. The copy lies in a directory of this assignment, kept between runs, so that a run fetches what is new only.
"""

import dataclasses
import json
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sources.engines.base import BackupTask, EngineProgress, EngineResult, RunEnded, Verdict
from sources.engines.limits import LeastRate, Space
from sources.engines.rclone.arguments import IDLE_SECONDS
from sources.engines.rclone.engine import RcloneEngine
from sources.engines.rclone.options import check_options
from sources.engines.results import GuardedProgress, judge_ending, result_of
from sources.engines.staging import staged
from sources.processes import runner
from sources.processes.runner import Command, Ending, StopSignal

ROOT = Path(__file__).parents[3]
MAIN = "import sys; sys.path.insert(0, sys.argv[1]); from sources.engines.imap.child import main; main()"


@dataclass(frozen=True)
class Fetched:
    """What a run brought: bytes of new messages, and a warning for each message or folder that could not be read."""

    size: int
    warnings: tuple[str, ...]


class ImapEngine:
    """Copies a source of kind imap. Takes the options of rclone, which copies what was fetched."""

    name = "imap"

    def check_options(self, options: dict[str, Any]) -> None:
        """Raises: ValueError naming an option that rclone is not given, or a bad value."""
        check_options(options)

    def run(self, task: BackupTask, *, on_progress: Callable[[EngineProgress], None], stop: StopSignal) -> EngineResult:
        """Fetch what is new, then make a point of the copy. See `Engine.run`. `read`: bytes of new messages."""

        def copy() -> EngineResult:
            with staged(task) as directory:
                fetched = fetch(task, directory, GuardedProgress(on_progress), stop)
                of_copy = dataclasses.replace(
                    task,
                    source=dataclasses.replace(task.source, kind="local", path=str(directory), options={}, secret=None),
                    source_kind=task.source.kind,
                    left_out=fetched.warnings,
                )
                result = RcloneEngine().run(of_copy, on_progress=on_progress, stop=stop)
                return dataclasses.replace(result, read=fetched.size)

        return result_of(task, copy)


def fetch(
    task: BackupTask, directory: Path, on_progress: Callable[[EngineProgress], None], stop: StopSignal
) -> Fetched:
    """Let `directory` hold a Maildir copy of the source. Raises: RunEnded, OSError."""
    space, least_rate = Space(directory, task.reserve), LeastRate(task.least_rate)
    received = messages = 0

    def sign_of_life() -> tuple[int, int]:
        space.check(received, f"the mail of {task.source.name}")
        least_rate.check(received, is_fetching=True)
        return received, messages

    def take(found: dict[str, Any]) -> None:
        nonlocal received, messages
        received, messages = found["received"], found["messages"]
        on_progress(EngineProgress(received, 0, messages))

    found = ask(task, str(directory), stop, take, sign_of_life)
    return Fetched(found["size"], tuple(found["warnings"]))


def ask(
    task: BackupTask,
    directory: str,
    stop: StopSignal,
    take: Callable[[dict[str, Any]], object] = lambda found: None,
    sign_of_life: Callable[[], object] | None = None,
) -> dict[str, Any]:
    """Let a process of its own speak with the server: bring `directory` up to date, or, where that is empty, see
    whether there are folders. `take` gets how far it is. Returns what it found. Raises: RunEnded, OSError."""
    order = {
        "source": asdict(task.source),
        "directory": directory,
        "connect": task.connect_timeout,
        "idle": min(IDLE_SECONDS, task.stall_timeout),
    }
    answers: list[dict[str, Any]] = []

    def on_line(line: str) -> None:
        with suppress(ValueError):  # of a traceback
            found = json.loads(line)
            (take if "received" in found else answers.append)(found)

    command = Command(
        (sys.executable, "-I", "-c", MAIN, str(ROOT)),
        stall_timeout=task.stall_timeout,
        grace=task.program_grace,
        given=json.dumps(order).encode(),
    )
    ended = runner.run(command, stop=stop, on_line=on_line, sign_of_life=sign_of_life)
    if ended.ending is not Ending.EXITED:
        raise RunEnded(*judge_ending(ended.ending, task))
    if not answers:
        text = " ".join(ended.last_lines[-1:])
        if "MemoryError" in text:
            text = "more comes at once than fits in BACKUPSCHED_ENGINE_MEMORY: raise that"
        raise RunEnded(Verdict.SOURCE_FAILED, f"what speaks with the server ended with code {ended.exit_code}: {text}")
    if "error" in answers[-1]:
        raise RunEnded(Verdict(answers[-1]["verdict"]), answers[-1]["error"])
    return answers[-1]
