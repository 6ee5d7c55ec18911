"""Orders to processes that work in repositories and can be killed (`engines.repository_process`), so that a dead share
costs a bounded time: its silence ends them, and so does a stop (a cancel, the end of a lease, a shutdown).

A process that sleeps in the kernel survives even that. It is left behind, holds the lock of its destination, and ends
when the share is back; until then backups to that destination find it busy.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from django.conf import settings

from backups import locations
from engines import engine_for, repository_process
from engines.base import BackupTask, EngineProgress, EngineResult, Verdict
from engines.results import STOPPED, GuardedProgress, failure, without_secrets
from external.formatting import first_line
from external.processes import orders
from external.processes.orders import NoAnswer, Order
from external.processes.programs import ProgramMissing, rclone_version
from external.processes.runner import StopSignal
from external.processes.serving import Program
from jobs.database_errors import is_away
from sources.models import Repository
from storage.places import directory_process
from storage.places.identity import Identity
from storage.places.location import Location
from storage.points.store import StorageFailed, StorageStopped

log = logging.getLogger(__name__)

SILENT_SECONDS = 60.0
"""The longest silence of an order: a share whose disks spin up answers sooner."""
ANSWER_SECONDS = 20.0
"""The limit of a single question, which a user or an execution unit waits for."""

ENDED_FROM_OUTSIDE = "the process that looked there was ended before it had an answer; try again"


class RepositorySilent(Exception):
    """A repository gave no answer. The message is written for users."""


def back_up(
    task: BackupTask,
    *,
    on_progress: Callable[[EngineProgress], None],
    stop: StopSignal,
    ours: Identity | None = None,
    made: bool = False,
    newest: str = "",
    keep: Callable[[str, str], object] | None = None,
) -> EngineResult:
    """Run the engine of `task`. Blocks until it has ended, as `Engine.run` does. `ours`: the identity that the
    repository must name; None if any will do. `made`: an earlier backup has written it there; `newest`: the point of
    that backup; `keep`: keeps the digest of the new point."""
    try:
        whole = asdict(replace(task, engine_version=_version_of_engine(task), newest=newest))
        facts = {"task": whole, "ours": ours and asdict(ours), "made": made, "newest": newest}
        how: dict[str, Any] = {"silent_for": SILENT_SECONDS, "grace": task.grace, "keep": keep}
        answer = give(repository_process.PROGRAM, "back_up", facts, stop, take=progress_to(on_progress), **how)
    except OSError as error:
        return failure(Verdict.SOURCE_FAILED, f"no process can be started here: {error}")
    except NoAnswer as error:
        if error.is_stopped:
            return failure(Verdict.STOPPED, STOPPED)
        verdict = Verdict.REPOSITORY_FAILED if error.is_silent else Verdict.SOURCE_FAILED
        result = failure(verdict, why_unanswered(error, task.location.outside, SILENT_SECONDS))
        return without_secrets(result, task)
    values: dict[str, Any] = {"verdict": Verdict(answer["verdict"])}
    values |= {name: tuple(answer[name]) for name in ("warnings", "not_kept")}
    values |= {"room": tuple(room)} if (room := answer.get("room")) else {}
    return EngineResult(**(answer | values))


def _version_of_engine(task: BackupTask) -> str:
    """The version, if this process, which runs many backups, can look it up once for all of them. Raises: OSError."""
    with suppress(ProgramMissing):  # the engine reports it
        return rclone_version() if engine_for(task.source.kind, task.location.format).name == "rclone" else ""
    return ""


def work(
    do: str,
    repository: Repository,
    stop: StopSignal,
    *,
    grace: float,
    on_progress: Callable[[EngineProgress], None],
    keep: Callable[[str, str], object] | None = None,
    **facts: object,
) -> dict[str, Any]:
    """Let a process work in a repository: `do` is an order of `engines.repository_process`, such as *remove_points*.
    Blocks until the process has ended, and returns its answer. `keep`: keeps digests of manifests that it writes.
    Raises: StorageFailed, StorageStopped, Busy."""
    locations.check_tried(repository)
    try:
        location = locations.location_of(repository)
        program, whole = repository_process.PROGRAM, {"location": location.as_json()} | facts
        how: dict[str, Any] = {"silent_for": SILENT_SECONDS, "grace": grace, "keep": keep}
        return dict(give_at(location, program, do, whole, stop, take=progress_to(on_progress), **how))
    except ProgramMissing as error:
        raise StorageFailed(str(error)) from error
    except OSError as error:
        raise StorageFailed(f"no process can be started here: {error}") from error


def remove_folder(repository: Repository, stop: StopSignal, **facts: Any) -> dict[str, Any]:
    """Remove everything that an assignment has in a repository. Arguments, answer and exceptions are those of
    `work`."""
    return work("remove_folder", repository, stop, ours=asdict(locations.identity_of(repository)), **facts)


def reason_for(question: str, location: str | Location, stop: StopSignal | None = None, **facts: object) -> str | None:
    """Ask a question whose answer is a reason, such as *not_writable*, as `ask` does. None if there is no reason, or if
    `stop` came before that was known.
    """
    try:
        answer = ask(question, location, stop, **facts)
    except RepositorySilent as error:
        return str(error)
    except StorageStopped:
        return None
    return None if answer is None else str(answer)


def ask(question: str, location: str | Location, stop: StopSignal | None = None, **facts: object) -> Any:
    """Ask a question about a repository, or a directory by its path. Returns the answer. Raises: StorageStopped, which
    is not an answer, where there is a `stop`; RepositorySilent; StorageFailed, as the question may."""
    at = location if isinstance(location, Location) else None
    program = directory_process.PROGRAM if question in directory_process.PROGRAM.orders else repository_process.PROGRAM
    whole = {"location": at.as_json() if at else location} | facts
    how: dict[str, Any] = {"silent_for": ANSWER_SECONDS, "secrets": at.secrets if at else ()}
    try:
        return give(program, question, whole, stop or threading.Event(), **how)
    except NoAnswer as error:
        if not error.is_stopped:
            where = str(at.directory or at.outside) if at else str(location)
            raise RepositorySilent(why_unanswered(error, where, ANSWER_SECONDS)) from error
    except StorageStopped:
        pass
    if stop:
        raise StorageStopped
    raise RepositorySilent(ENDED_FROM_OUTSIDE)


def give(
    program: Program,
    do: str,
    facts: Mapping[str, Any],
    stop: StopSignal,
    *,
    silent_for: float,
    grace: float = 0.0,
    take: Callable[[dict[str, Any]], object] = lambda line: None,
    keep: Callable[[str, str], object] | None = None,
    secrets: Sequence[str] = (),
) -> Any:
    """Give an order to a process that can be killed, which abides by the settings. `take` gets its reports on the way,
    as JSON. `keep` keeps a point and its digest before the process continues, or raises. `secrets` stay out of the
    texts of a failure. Returns the answer. Raises: the errors of the process; NoAnswer; OSError.
    """
    terms: dict[str, Any] = {"umask": settings.UMASK, "memory": settings.ENGINE_MEMORY_MIB * 2**20}
    terms |= {"reserve_percent": settings.RESERVE_PERCENT, "loopback": settings.LOOPBACK}
    order = Order(program, do, facts, terms, take, secrets=secrets)
    return orders.give(order, stop, silent_for=silent_for, grace=grace, kept=keep and partial(_keep_or_log, keep))


def give_at(location: Location, program: Program, do: str, facts: Mapping[str, Any], *how: Any, **more: Any) -> Any:
    """Give an order at a repository; the arguments are those of `give`. Returns the answer. Raises: the errors of the
    process, or StorageFailed without an answer; StorageStopped; OSError.
    """
    try:
        return give(program, do, facts, *how, **{"secrets": location.secrets} | more)
    except NoAnswer as error:
        if error.is_stopped:
            raise StorageStopped from None
        raise StorageFailed(why_unanswered(error, location.outside, more["silent_for"])) from error


def progress_to(listener: Callable[[EngineProgress], None]) -> Callable[[dict[str, Any]], None]:
    """A function that takes the reports of a process on the way, and lets `listener` have its progress."""
    guarded = GuardedProgress(listener)

    def take(line: dict[str, Any]) -> None:
        if "progress" in line:
            guarded(EngineProgress(**line["progress"]))

    return take


def _keep_or_log(keep: Callable[[str, str], object], facts: dict[str, str]) -> bool:
    """Keep the digest of a point. Returns whether that succeeded; a failure is logged, and the work continues."""
    try:
        keep(facts["point"], facts["digest"])
    except Exception as error:
        text = "the digest of point %s could not be kept; the work continues: %s"
        log.warning(text, facts["point"], first_line(str(error)), exc_info=not is_away(error))
        return False
    return True


def why_unanswered(error: NoAnswer, location: str, silent_for: float) -> str:
    """The reason, as text, why a process that was not stopped gave no answer."""
    if error.is_silent:
        return silent(location, silent_for)
    if str(error).startswith("MemoryError"):
        return f"{location} lists more than fits in BACKUPSCHED_ENGINE_MEMORY"
    return f"the process that works there ended with code {error.ended.exit_code}: {error}"


def silent(location: str, seconds: float) -> str:
    """The sentence about a place that has not answered for that many seconds."""
    return f"{location} has not answered for {seconds:g} s; is its share dead?"
