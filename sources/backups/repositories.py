"""Looks at repositories from processes that can be killed (`sources.engines.apart`), so that a share that has died
costs a bounded time: its silence ends them, and so does a stop, be it a cancel, the end of a lease or a shutdown.

What sleeps in the kernel survives even that. It is left behind, holds the lock of its destination, and ends when the
share is back; until then backups to that destination find it busy.
"""

import json
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings

from sources.engines import engine_for
from sources.engines.base import BackupTask, EngineProgress, EngineResult, Verdict
from sources.engines.results import STOPPED, GuardedProgress, failure, without_secret
from sources.models import Repository
from sources.processes import runner
from sources.processes.programs import ProgramMissing, rclone_version
from sources.processes.runner import Command, Ended, Ending, StopSignal
from sources.secrets_by_reference import SecretNotFound, read_secret_in_time
from sources.storage import remotes
from sources.storage.identity import Identity, digest_of
from sources.storage.location import Location
from sources.storage.store import Stopped, StorageFailed

if TYPE_CHECKING:
    from sources.models import Repository

SILENT_SECONDS = 60.0
"""A share whose disks spin up answers sooner."""
ANSWER_SECONDS = 20.0
"""For a single question, which a person or an execution unit waits for."""
ROOT = Path(__file__).parents[2]
PROGRAM = "import sys; sys.path.insert(0, sys.argv[1]); from sources.engines.apart import main; main()"


class Unanswered(Exception):
    """There is no answer from a repository. The message is for people."""


def back_up(
    task: BackupTask,
    *,
    on_progress: Callable[[EngineProgress], None],
    stop: StopSignal,
    ours: Identity | None = None,
) -> EngineResult:
    """Run the engine of `task`. Blocks until it has ended, as `Engine.run` does. `ours`: what the repository has to say
    of itself; None: anything."""
    try:
        whole = asdict(replace(task, engine_version=_version_of_engine(task)))
        order = {"do": "back_up", "task": whole, "ours": ours and asdict(ours)}
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


def _version_of_engine(task: BackupTask) -> str:
    """As far as this process, which runs many backups, can ask once for all of them. Raises: OSError."""
    with suppress(ProgramMissing):  # the engine says so
        return rclone_version() if engine_for(task.source.kind).name == "rclone" else ""
    return ""


class Busy(Exception):
    """Another run works in that folder. The message is for people."""


def work(
    do: str,
    repository: Repository,
    stop: StopSignal,
    *,
    grace: float,
    on_progress: Callable[[EngineProgress], None],
    **facts: object,
) -> dict[str, Any]:
    """Let a process work on what lies in a repository, as *remove_points* of `sources.engines.apart`. Blocks until it
    has ended, and returns its answer. Raises: StorageFailed, Stopped, Busy."""
    try:
        location = location_of(repository)
        order = {"do": do, "location": location.as_json()} | facts
        ended, answers = _run(order, stop, SILENT_SECONDS, grace, GuardedProgress(on_progress))
    except (SecretNotFound, ValueError, ProgramMissing) as error:
        raise StorageFailed(str(error)) from error
    except OSError as error:
        raise StorageFailed(f"no process can be started here: {error}") from error
    for answer in answers:
        if "failed" in answer:
            raise StorageFailed(answer["failed"])
        if "busy" in answer:
            raise Busy(answer["busy"])
        if "stopped" in answer:
            raise Stopped
        return dict(answer)
    if ended.ending is Ending.STOPPED:
        raise Stopped
    raise StorageFailed(_silent(location.outside, SILENT_SECONDS) if ended.ending is Ending.STALLED else _died(ended))


def why(question: str, location: str | Location, stop: StopSignal | None = None, **facts: object) -> str | None:
    """Ask a question of `sources.engines.apart`, as *not_writable*. Returns the reason; None: there is none, or it was
    stopped before that was known."""
    try:
        answer = ask(question, location, stop, **facts)
    except Unanswered as error:
        return str(error)
    return None if answer is None else str(answer)


def ask(question: str, location: str | Location, stop: StopSignal | None = None, **facts: object) -> Any:
    """Ask it for more than a reason. Returns the answer; None also if it was stopped before. Raises: Unanswered."""
    place = location.as_json() if isinstance(location, Location) else location
    order = {"do": question, "location": place} | facts
    ended, answers = _run(order, stop or threading.Event(), ANSWER_SECONDS, 0.0, lambda progress: None)
    for answer in answers:
        return answer
    if ended.ending is Ending.STOPPED:
        return None
    where = (location.directory or location.outside) if isinstance(location, Location) else location
    raise Unanswered(_silent(str(where), ANSWER_SECONDS) if ended.ending is Ending.STALLED else _died(ended))


def location_of(repository: Repository, new_key: str | None = None) -> Location:
    """Where it is, with its secrets fetched. `new_key`: of one whose key is not kept yet. Raises: StorageFailed."""
    try:
        secrets = {name: read_secret_in_time(reference) or "" for name, reference in repository.secrets.items()}
        return remotes.location_of(
            repository.location,
            repository.remote,
            secrets,
            new_key or key_of(repository),
            remotes.obscure,
            sees_changes=repository.sees_changes,
        )
    except (ValueError, ProgramMissing) as error:  # SecretNotFound is one
        raise StorageFailed(f"repository {repository} cannot be reached: {error}") from error


def key_of(repository: Repository) -> str | None:
    """The key of an encrypted repository; None of another one. Raises: SecretNotFound."""
    return read_secret_in_time(repository.key) if repository.encrypted else None


def identity_of(repository: Repository, new_key: str | None = None) -> Identity:
    """Who a repository is, as it is to say itself. `new_key`: see `location_of`. Raises: SecretNotFound."""
    digest = digest_of(new_key or key_of(repository))
    return Identity(str(repository.identity), repository.name, repository.encrypted, digest)


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
