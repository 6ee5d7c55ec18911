"""Looks at repositories from processes that can be killed (`sources.engines.apart`), so that a share that has died
costs a bounded time: its silence ends them, and so does a stop, be it a cancel, the end of a lease or a shutdown.

What sleeps in the kernel survives even that. It is left behind, holds the lock of its destination, and ends when the
share is back; until then backups to that destination find it busy.
"""

import json
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings

from sources.engines.base import BackupTask, EngineProgress, EngineResult, Verdict
from sources.engines.results import STOPPED, GuardedProgress, failure, without_secret
from sources.processes import runner
from sources.processes.runner import Command, Ended, Ending, StopSignal
from sources.storage.location import Location, of_directory

if TYPE_CHECKING:
    from sources.models import Repository

SILENT_SECONDS = 60.0
"""A share whose disks spin up answers sooner."""
ANSWER_SECONDS = 20.0
"""For a single question, which a person or an execution unit waits for."""
ROOT = Path(__file__).parents[2]
PROGRAM = "import sys; sys.path.insert(0, sys.argv[1]); from sources.engines.apart import main; main()"


def back_up(task: BackupTask, *, on_progress: Callable[[EngineProgress], None], stop: StopSignal) -> EngineResult:
    """Run the engine of `task`. Blocks until it has ended, as `Engine.run` does."""
    order = {"do": "back_up", "task": asdict(task)}
    try:
        ended, answers = _run(order, stop, SILENT_SECONDS, task.grace, GuardedProgress(on_progress))
    except OSError as error:
        return failure(Verdict.SOURCE_FAILED, f"no process can be started here: {error}")
    for answer in answers:
        facts = {"verdict": Verdict(answer["verdict"]), "warnings": tuple(answer["warnings"])}
        return EngineResult(**(answer | facts))
    if ended.ending is Ending.STOPPED:
        return failure(Verdict.STOPPED, STOPPED)
    if ended.ending is Ending.STALLED:
        return failure(Verdict.REPOSITORY_FAILED, _silent(task.location.outside, SILENT_SECONDS))
    return without_secret(failure(Verdict.SOURCE_FAILED, _died(ended)), task.source.secret)


def location_of(repository: "Repository") -> Location:
    """Where it is, with its secrets fetched."""
    return of_directory(Path(repository.location))


def why(question: str, location: str, stop: StopSignal | None = None, **facts: object) -> str | None:
    """Ask a question of `sources.engines.apart`, as *not_writable*. Returns the reason; None: there is none, or it was
    stopped before that was known."""
    order = {"do": question, "location": location} | facts
    ended, answers = _run(order, stop or threading.Event(), ANSWER_SECONDS, 0.0, lambda progress: None)
    for answer in answers:
        return None if answer is None else str(answer)
    if ended.ending is Ending.STOPPED:
        return None
    return _silent(location, ANSWER_SECONDS) if ended.ending is Ending.STALLED else _died(ended)


def _run(
    order: dict[str, Any],
    stop: StopSignal,
    silent_for: float,
    grace: float,
    on_progress: Callable[[EngineProgress], None],
) -> tuple[Ended, list[Any]]:
    """Returns the answer as a list, which is empty when the process ended without one. Raises: OSError."""
    answers = []

    def take(line: str) -> None:
        try:
            found = json.loads(line)
        except ValueError:  # a warning, or the end of a traceback
            return
        if "answer" in found:
            answers.append(found["answer"])
        elif "progress" in found:
            on_progress(EngineProgress(**found["progress"]))

    order |= {"umask": settings.UMASK, "memory": settings.ENGINE_MEMORY_MIB * 2**20}
    command = Command(
        (sys.executable, "-I", "-c", PROGRAM, str(ROOT)),
        stall_timeout=silent_for,
        grace=grace,
        given=json.dumps(order, default=str).encode(),
    )
    return runner.run(command, stop=stop, on_line=take), answers


def _silent(location: str, seconds: float) -> str:
    return f"{location} has not answered for {seconds:g} s; is its share dead?"


def _died(ended: Ended) -> str:
    return f"the process that works there ended with code {ended.exit_code}: {' '.join(ended.last_lines[-1:])}"
