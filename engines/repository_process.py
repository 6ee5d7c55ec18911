"""The process in which a worker touches a repository (`external.processes.orders`): it can be ended.

An operation on a file of a dead share never returns, and only the end of its process ends the wait. Between any two
operations the process reports that it is alive, after a look at the repository. It loads neither Django nor what other
orders need: each backup starts such a process, and loading everything takes a quarter of its start.
"""

import gc
import os
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from engines import engine_for
from engines.at_repositories.confinement import confine, explained
from engines.at_repositories.work import FAILURES, Stop, say_progress
from engines.base import BackupTask, EngineResult, SourceSpec, Verdict
from engines.limits import room_of
from engines.results import ERROR_LENGTH, failure, result_of
from external.processes.serving import Program, serve
from storage.places.directories import missing
from storage.places.identity import Identity
from storage.places.location import Location
from storage.recover import instructions
from storage.stores import store_of

SELDOM = 50_000, 20, 50
"""The thresholds of `gc.set_threshold`."""


def back_up(task: dict[str, Any], ours: dict[str, Any] | None, made: bool = False, newest: str = "") -> dict[str, Any]:
    """Run the engine of a task (`BackupTask` as a dictionary). Returns its `EngineResult` as a dictionary. `ours`: the
    `Identity` that the repository must have; None if any will do. `made`, `newest`: see `instructions.keep_current`.
    """
    location = Location.of_json(task.pop("location"))
    if location.directory and (reason := missing(str(location.directory))):
        return asdict(failure(Verdict.REPOSITORY_FAILED, reason))
    source, started_at = SourceSpec(**task.pop("source")), datetime.fromisoformat(task.pop("started_at"))
    damaged = frozenset(task.pop("damaged"))
    whole = BackupTask(source=source, started_at=started_at, location=location, damaged=damaged, **task)
    stop = Stop(location.directory)

    def run() -> EngineResult:
        store, whose = store_of(location, stop), Identity(**ours) if ours else None
        if not made:
            store.make(whose)
        instructions.keep_current(store, whose, made=made, folder=whole.folder, newest=newest)
        return engine_for(source.kind, location.format).run(whole, on_progress=say_progress, stop=stop)

    result = result_of(whole, run)
    if result.verdict is Verdict.REPOSITORY_FAILED:
        result = replace(result, error=explained(result.error, location)[:ERROR_LENGTH])
    return asdict(result) | {"room": room_of(location.directory)}


_KEEPING, _QUESTIONS = "engines.at_repositories.point_upkeep", "engines.at_repositories.questions"
PROGRAM = Program(
    __name__,
    {
        "back_up": __name__,
        **dict.fromkeys(
            ("remove_points", "prune", "remove_folder", "check_files", "foreign_points", "copy_points"), _KEEPING
        ),
        **dict.fromkeys(("not_writable", "make_repository", "probe", "try_source"), _QUESTIONS),
        "look_for": "engines.at_repositories.sightings",
    },
    FAILURES,
)


def main() -> None:
    # a run makes millions of tuples, none in a cycle: with Python's defaults garbage collection takes 7 % of its time
    gc.freeze()
    gc.set_threshold(*SELDOM)
    Stop.listen()
    serve(PROGRAM, prepare=confine)
    os._exit(0)  # Python would give back its memory piece by piece first, while the worker waits
