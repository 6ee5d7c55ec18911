"""Orders to processes that work in repositories and can be killed (`engines.apart`), so that a dead share
costs a bounded time: its silence ends them, and so does a stop, be it a cancel, the end of a lease or a shutdown.

A process that sleeps in the kernel survives even that. It is left behind, holds the lock of its destination, and ends
when the share is back; until then backups to that destination find it busy.
"""

import json
import logging
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any

from django.conf import settings

from backups import locations
from engines import engine_for
from engines.base import BackupTask, EngineProgress, EngineResult, Verdict
from engines.results import STOPPED, GuardedProgress, failure, without_secrets
from external.processes import orders, runner
from external.processes.programs import ProgramMissing, rclone_version
from external.processes.rows import row_of
from external.processes.runner import Command, Ended, Ending, StopSignal
from sources.models import Repository
from storage.places import directories
from storage.places.identity import Identity
from storage.places.location import Location
from storage.places.locks import Busy
from storage.points.places import Refused, TargetFailed
from storage.points.store import Stopped, StorageFailed

log = logging.getLogger(__name__)

SILENT_SECONDS = 60.0
"""A share whose disks spin up answers sooner."""
ANSWER_SECONDS = 20.0
"""The limit of a single question, which a user or an execution unit waits for."""

FAILURES: Mapping[str, type[Exception]] = {
    "failed": StorageFailed, "failed here": TargetFailed, "refused": Refused, "busy": Busy,
}  # fmt: skip
"""The answers of an order that was not done, each with a text, and the exceptions that they become here."""


class Unanswered(Exception):
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
        order = {"do": "back_up", "task": whole, "ours": ours and asdict(ours), "made": made, "newest": newest}
        ended, answers = _engine(order, stop, SILENT_SECONDS, task.grace, GuardedProgress(on_progress), keep)
    except OSError as error:
        return failure(Verdict.SOURCE_FAILED, f"no process can be started here: {error}")
    for answer in answers:
        facts: dict[str, Any] = {"verdict": Verdict(answer["verdict"])}
        facts |= {name: tuple(answer[name]) for name in ("warnings", "not_kept")}
        facts |= {"room": tuple(room)} if (room := answer.get("room")) else {}
        return EngineResult(**(answer | facts))
    if ended.ending is Ending.STOPPED:
        return failure(Verdict.STOPPED, STOPPED)
    verdict = Verdict.REPOSITORY_FAILED if ended.ending is Ending.STALLED else Verdict.SOURCE_FAILED
    result = failure(verdict, why_unanswered(ended, task.location.outside, SILENT_SECONDS))
    return without_secrets(result, task)


def _version_of_engine(task: BackupTask) -> str:
    """The version, if this process, which runs many backups, can ask once for all of them. Raises: OSError."""
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
    """Let a process work in a repository: `do` is an order of `engines.apart`, such as *remove_points*. Blocks until
    the process has ended, and returns its answer. `keep`: keeps digests of manifests that it writes. Raises:
    StorageFailed, Stopped, Busy."""
    try:
        location = locations.location_of(repository)
        order = {"do": do, "location": location.as_json()} | facts
        answered = _engine(order, stop, SILENT_SECONDS, grace, GuardedProgress(on_progress), keep)
    except ProgramMissing as error:
        raise StorageFailed(str(error)) from error
    except OSError as error:
        raise StorageFailed(f"no process can be started here: {error}") from error
    return dict(answer_of(answered, location, SILENT_SECONDS))


def remove_folder(repository: Repository, stop: StopSignal, **facts: Any) -> dict[str, Any]:
    """Remove all that an assignment has in a repository. Arguments, answer and exceptions are those of `work`."""
    return work("remove_folder", repository, stop, ours=asdict(locations.identity_of(repository)), **facts)


def why(question: str, location: str | Location, stop: StopSignal | None = None, **facts: object) -> str | None:
    """Ask a question of `engines.apart` whose answer is a reason, such as *not_writable*. None if there is no reason,
    or the question was stopped before that was known."""
    try:
        answer = ask(question, location, stop, **facts)
    except Unanswered as error:
        return str(error)
    return None if answer is None else str(answer)


def ask(question: str, location: str | Location, stop: StopSignal | None = None, **facts: object) -> Any:
    """Ask a question of `engines.apart`. Returns its answer; None also if it was stopped before. Raises: Unanswered."""
    place = location.as_json() if isinstance(location, Location) else location
    order = {"do": question, "location": place} | facts
    ended, answers = _engine(order, stop or threading.Event(), ANSWER_SECONDS, 0.0, lambda progress: None)
    for answer in answers:
        return answer
    if ended.ending is Ending.STOPPED:
        return None
    where = (location.directory or location.outside) if isinstance(location, Location) else location
    raise Unanswered(why_unanswered(ended, str(where), ANSWER_SECONDS))


def give_order(
    program: str,
    order: dict[str, Any],
    stop: StopSignal,
    silent_for: float,
    grace: float,
    take: Callable[[dict[str, Any]], object],
    keep: Callable[[str, str], object] | None = None,
) -> tuple[Ended, list[Any]]:
    """Give an order to a process that can be killed: the `main` of the module `program`. `take` gets each of its lines
    but the answer, as JSON. `keep` keeps a point and its digest before the process continues, or raises. Returns the
    answer in a list, which is empty if the process ended without one. Raises: OSError."""
    answers = []

    def on_line(line: str) -> None:
        if (found := row_of(line)) is None:  # a warning, or the end of a traceback
            return
        if "answer" in found:
            answers.append(found["answer"])
        elif "keep" in found:
            os.write(said, _kept(keep, found["keep"]))
        else:
            take(found)

    heard, said = os.pipe()
    order |= {"umask": settings.UMASK, "memory": settings.ENGINE_MEMORY_MIB * 2**20}
    order |= {"heard_at": heard, "reserve_percent": settings.RESERVE_PERCENT, "loopback": settings.LOOPBACK}
    command = Command(
        orders.argv_of(program),
        stall_timeout=silent_for,
        grace=grace,
        given=json.dumps(order, default=str).encode(),
        inherited=(heard,),
        longest_line=orders.LONGEST_ANSWER,
    )
    try:
        return runner.run(command, stop=stop, on_line=on_line), answers
    finally:
        os.close(heard)
        os.close(said)


def _kept(keep: Callable[[str, str], object] | None, facts: dict[str, str]) -> bytes:
    try:
        if keep:
            keep(facts["point"], facts["digest"])
            return orders.KEPT
    except Exception:
        log.warning("the digest of point %s could not be kept; the work goes on", facts["point"], exc_info=True)
    return orders.NOT_KEPT


def answer_of(answered: tuple[Ended, list[Any]], location: Location, silent_for: float) -> Any:
    """The answer of an order that was done. Raises: those of `FAILURES`; Stopped; StorageFailed without an answer."""
    ended, answers = answered
    for answer in answers:
        for name in FAILURES.keys() & answer.keys():
            raise FAILURES[name](answer[name])
        if "stopped" not in answer:
            return answer
    if answers or ended.ending is Ending.STOPPED:
        raise Stopped
    raise StorageFailed(why_unanswered(ended, location.outside, silent_for))


def why_unanswered(ended: Ended, location: str, silent_for: float) -> str:
    """The reason, in words, why a process that was not stopped gave no answer."""
    if ended.ending is Ending.STALLED:
        return f"{location} has not answered for {silent_for:g} s; is its share dead?"
    last = " ".join(ended.last_lines[-1:])
    if last.startswith("MemoryError"):
        return f"{location} lists more than fits in BACKUPSCHED_ENGINE_MEMORY"
    return f"the process that works there ended with code {ended.exit_code}: {last}"


def _engine(
    order: dict[str, Any],
    stop: StopSignal,
    silent_for: float,
    grace: float,
    on_progress: Callable[[EngineProgress], None],
    keep: Callable[[str, str], object] | None = None,
) -> tuple[Ended, list[Any]]:
    def take(found: dict[str, Any]) -> None:
        if "progress" in found:
            on_progress(EngineProgress(**found["progress"]))

    program = "storage.places.directories" if order["do"] in directories.ORDERS else "engines.apart"
    return give_order(program, order, stop, silent_for, grace, take, keep)
