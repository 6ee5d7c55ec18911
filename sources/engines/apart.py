"""Whatever touches a repository, in a process of its own: `sources.backups.repositories` starts it and can end it.

An operation on a file of a dead share never returns, and only the end of its process ends the wait. Its one order is a
JSON object on standard input. It prints a line of JSON for each progress, a line about once a second while it lives,
which it does between any two operations and after a look at the repository, and at its end one with the answer.
Without Django: each backup starts one of these.
"""

import json
import os
import re
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from sources.engines import engine_for, probing
from sources.engines.base import BackupTask, EngineProgress, EngineResult, SourceSpec, Verdict
from sources.engines.limits import Space
from sources.engines.results import failure, result_of
from sources.processes.programs import ProgramMissing
from sources.storage import checking, merging, recovery
from sources.storage.checking import Damage
from sources.storage.identity import Identity
from sources.storage.location import Location
from sources.storage.locks import Busy, locked
from sources.storage.manifests import ManifestDamaged
from sources.storage.store import Stopped, StorageFailed, Store

ALIVE_EVERY_SECONDS = 1.0
OF_A_SOURCE = re.compile(r"-\d+$")
TRIED_WITH = b"\0" * 65_536


class Stop:
    """Set by SIGTERM. A question whether it is shows that this process lives, and so does the repository's folder."""

    def __init__(self, repository: Path | None) -> None:
        self._repository = repository
        self._stopped = False
        self._say_at = float("-inf")
        signal.signal(signal.SIGTERM, self._set)

    def is_set(self) -> bool:
        if (now := time.monotonic()) >= self._say_at:
            self._say_at = now + ALIVE_EVERY_SECONDS
            if self._repository:
                with suppress(OSError):  # the engine will say so
                    os.stat(self._repository)
            say({})
        return self._stopped

    def _set(self, *_: object) -> None:
        self._stopped = True


def back_up(task: dict[str, Any], ours: dict[str, Any] | None) -> dict[str, Any]:
    """Run the engine of a task (`BackupTask` as a dictionary). Returns its `EngineResult` as one. `ours`: the
    `Identity` that the repository has to have; None: any."""
    location = Location.of_json(task.pop("location"))
    if location.directory and (reason := missing(str(location.directory))):
        return asdict(failure(Verdict.REPOSITORY_FAILED, reason))
    source, started_at = SourceSpec(**task.pop("source")), datetime.fromisoformat(task.pop("started_at"))
    whole, stop = BackupTask(source=source, started_at=started_at, location=location, **task), Stop(location.directory)

    def run() -> EngineResult:
        recovery.keep_true(Store(location, stop), Identity(**ours) if ours else None)
        return engine_for(source.kind).run(whole, on_progress=_say_progress, stop=stop)

    return asdict(result_of(whole, run))


def remove_points(location: dict[str, Any], folder: str, points: list[str], stay: list[str]) -> dict[str, Any]:
    """Remove points of an assignment. Returns `merging.Removed` as a dictionary, or why it was not done."""

    def on_progress(files: int, freed: int) -> None:
        _say_progress(EngineProgress(freed, 0, files))

    return _at_work(
        location,
        folder,
        lambda store: asdict(merging.remove(store, folder, points, stay=stay, on_progress=on_progress)),
    )


def check_files(location: dict[str, Any], folder: str, known: list[dict[str, str]], **facts: Any) -> dict[str, Any]:
    """Read some of what an assignment has, and compare. Returns `checking.Checked` as a dictionary, or why not."""

    def on_progress(files: int, size: int) -> None:
        _say_progress(EngineProgress(size, 0, files))

    damage = [Damage(**each) for each in known]
    return _at_work(
        location,
        folder,
        lambda store: asdict(checking.check(store, folder, known=damage, on_progress=on_progress, **facts)),
    )


def _at_work(location: dict[str, Any], folder: str, work: Callable[[Store], dict[str, Any]]) -> dict[str, Any]:
    """Work in the folder of an assignment. Returns what `work` does, or `failed`, `busy` or `stopped`."""
    where = Location.of_json(location)
    if where.directory and (reason := missing(str(where.directory))):
        return {"failed": reason}
    try:
        with locked(where, folder) as lock:
            return work(Store(where, Stop(where.directory), inherited=lock))
    except Stopped:
        return {"stopped": True}
    except Busy as error:
        return {"busy": str(error)}
    except (StorageFailed, ManifestDamaged, ProgramMissing) as error:
        return {"failed": str(error)}
    except OSError as error:
        return {"failed": f"{error.filename or where.outside} cannot be written: {error.strerror or error}"}


def missing(location: str) -> str | None:
    """Why there is no directory; None: there is one."""
    reason = f"{location} is no directory here; is it mounted?"
    try:
        return None if Path(location).is_dir() else reason
    except OSError as error:  # a stale handle, a disk that cannot be read
        return f"{reason} ({os.strerror(error.errno or 0)})"


def not_writable(location: dict[str, Any], reserve: float) -> str | None:
    """Why no backup can be written there; None: it can. What is tried there leaves nothing behind.

    `reserve`: percent of the file system of a directory that must be free.
    """
    where = Location.of_json(location)
    return (
        _directory_not_writable(where.directory, reserve)
        if where.directory
        else probing.not_writable(where, Stop(None))
    )


def _directory_not_writable(directory: Path, reserve: float) -> str | None:
    """The file that is tried has no name."""
    try:
        with tempfile.TemporaryFile(dir=directory) as file:
            file.write(TRIED_WITH)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return str(error.strerror)
    return Space(directory, reserve).lack() or None


def open_to_others(location: str) -> str | None:
    """Which directories of backups there are open to accounts that the umask of this process keeps out; None: none."""
    os.umask(closed := os.umask(0))
    open_ones: list[Path] = []
    with suppress(OSError):  # a backup says so
        if os.stat(location).st_mode & 0o055 & closed:
            copies = (each for each in Path(location).iterdir() if OF_A_SOURCE.search(each.name))
            open_ones = [each for each in copies if each.stat().st_mode & 0o055 & closed]
    if not open_ones:
        return None
    return f"{open_ones[0]}" + (f" and {len(open_ones) - 1} more at {location}" if open_ones[1:] else "")


def not_usable(location: str) -> str | None:
    """Why `location`, an absolute path, cannot become a repository; None: it can. Nothing stays."""
    existing = Path(location)
    try:
        while not os.path.lexists(existing):
            existing = existing.parent
        if not existing.is_dir():
            return f"{existing} is not a directory; name one"
        with tempfile.TemporaryFile(dir=existing):
            return None
    except OSError as error:
        what = "it" if existing == Path(location) else f"its nearest existing parent {existing}"
        return (
            f"{location} cannot be used: {what} is not writable ({error.strerror}); "
            "mount it, make it writable for this account, or name another directory"
        )


def probe(location: dict[str, Any], ours: dict[str, Any], take_over: bool) -> dict[str, Any]:
    """What comes of trying a repository (`probing.probe`). Nothing stays."""
    where = Location.of_json(location)
    if where.directory and (problem := not_usable(str(where.directory))):
        return {"field": "location", "problem": problem}
    return probing.probe(where, Identity(**ours), Stop(where.directory), take_over=take_over)


def not_made(location: str) -> str | None:
    """Make the directory with its parents, if it is missing. Returns why that is not possible; None: it is there."""
    try:
        Path(location).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return str(error.strerror)
    return None


ORDERS = {
    each.__name__: each
    for each in (
        back_up,
        remove_points,
        check_files,
        missing,
        not_writable,
        not_usable,
        not_made,
        open_to_others,
        probe,
    )
}


def say(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line, default=_plain) + "\n")
    sys.stdout.flush()


def _plain(value: object) -> str:
    return value.value if isinstance(value, Verdict) else str(value)


def _say_progress(progress: EngineProgress) -> None:
    say({"progress": asdict(progress)})


def bound_memory(size: int) -> None:
    """Let no program started here have more than `size` bytes. What a source lists ends up in its engine's memory."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (size if hard == resource.RLIM_INFINITY else min(size, hard), hard))
    os.environ["GOMEMLIMIT"] = str(size * 9 // 10)  # rclone would let twice as much pile up as it uses


def main() -> None:
    order = json.load(sys.stdin)
    os.umask(order.pop("umask"))
    if memory := order.pop("memory"):
        bound_memory(memory)
    say({"answer": ORDERS[order.pop("do")](**order)})
