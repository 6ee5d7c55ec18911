"""Runs restores in processes that can be killed (`apart.py`), and reads what repositories hold."""

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.conf import settings

from sources.backups import repositories
from sources.models import Repository
from sources.processes import runner
from sources.processes.runner import Command, Ending, StopSignal
from sources.storage.restoring import Refused, Report, Step, Wish
from sources.storage.store import Stopped, StorageFailed, Store

SILENT_SECONDS = 60.0
ANSWER_SECONDS = 20.0
"""For a look at what is there, which a person waits for."""
ROOT = Path(__file__).parents[2]
PROGRAM = "import sys; sys.path.insert(0, sys.argv[1]); from sources.restores.apart import main; main()"


def cache() -> Path:
    """Where the manifests that were looked at are kept for the next look."""
    return Path(settings.VAR_DIR) / "trees"


def store_of(repository: Repository, stop: StopSignal) -> Store:
    """A repository to look into, for as long as a person waits."""
    return Store(repositories.location_of(repository), stop, stall_timeout=ANSWER_SECONDS)


def restore(
    repository: Repository,
    wish: Wish,
    stop: StopSignal,
    on_step: Callable[[Step], None] = lambda step: None,
    grace: float = 8.0,
) -> Report:
    """Restore into a folder of this host; block until done.

    Raises: Refused before anything is written; StorageFailed, Stopped, after which the same restore goes on.
    """
    answers: list[dict[str, Any]] = []

    def take(line: str) -> None:
        try:
            found = json.loads(line)
        except ValueError:  # a warning, or the end of a traceback
            return
        if "answer" in found:
            answers.append(found["answer"])
        elif "step" in found:
            on_step(Step(**found["step"]))

    order = {"location": repository.location, "wish": asdict(wish), "cache": cache()}
    order |= {"umask": settings.UMASK, "memory": settings.ENGINE_MEMORY_MIB * 2**20}
    command = Command(
        (sys.executable, "-I", "-c", PROGRAM, str(ROOT)),
        stall_timeout=SILENT_SECONDS,
        grace=grace,
        given=json.dumps(order, default=str).encode(),
    )
    ended = runner.run(command, stop=stop, on_line=take)
    for answer in answers:
        if "report" in answer:
            return Report(**answer["report"])
        if "refused" in answer:
            raise Refused(answer["refused"])
        if "failed" in answer:
            raise StorageFailed(answer["failed"])
    if answers or ended.ending is Ending.STOPPED:
        raise Stopped
    if ended.ending is Ending.STALLED:
        raise StorageFailed(
            f"nothing moved for {SILENT_SECONDS:g} s; is the share of {repository.location} or {wish.target} dead?"
        )
    last = " ".join(ended.last_lines[-1:])
    raise StorageFailed(f"the process that restores ended with code {ended.exit_code}: {last}")
