"""Questions about a repository or a source, as orders of `repository_process.py`."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from engines import engine_for
from engines.at_repositories import probing
from engines.at_repositories.work import Stop
from engines.base import BackupTask, RunEnded, SourceSpec
from engines.limits import InTime, Space
from engines.results import ERROR_LENGTH
from engines.whereabouts import unmoved
from external.processes.programs import ProgramMissing
from external.processes.runner import StopSignal
from external.redaction import redacted
from storage.folders.flushing import why_untold
from storage.folders.writing import not_written
from storage.places.directories import not_made, not_usable
from storage.places.identity import Identity
from storage.places.location import Location, of_directory
from storage.places.locks import Busy
from storage.points.store import StorageFailed, StorageStopped
from storage.recover import instructions
from storage.stores import store_of

NO_ROOM = "no backup goes there until there is more room"
UNTOLD = "data that its disk accepts and then fails to write is noticed by checks, not by backups"
PROBE_SECONDS = 60.0
"""Seconds for all steps of a probe, for which a user waits."""
NO_FOLDER = "\0"
"""A folder that no message contains, so that no message is taken for one about a repository."""


def not_writable(location: dict[str, Any], reserve: float, made: bool = False) -> str | None:
    """The reason why no backup can be written there; None if one can. The file that is tried leaves nothing behind.

    `reserve`: percent of a directory's file system that must be free. `made`: True if a directory says whose it is.
    """
    where = Location.of_json(location)
    return (
        not_written(str(where.directory), reserve, made) if where.directory else probing.not_writable(where, Stop(None))
    )


def probe(location: dict[str, Any], ours: dict[str, Any], take_over: bool, reserve: float = 0) -> dict[str, Any]:
    """Try a repository (`probing.probe`). Nothing stays there. `reserve`: as in `not_writable`; too little room is a
    notice, since room can still be made. Raises: StorageStopped, which is not a verdict on it.
    """
    where = Location.of_json(location)
    if where.directory and (problem := not_usable(str(where.directory))):
        return {"field": "location", "problem": problem}
    in_time = InTime(Stop(where.directory), PROBE_SECONDS)
    try:
        found = probing.probe(where, Identity(**ours), in_time, take_over=take_over)
    except StorageStopped:
        if in_time.is_stopped:
            raise
        return {"field": "location", "problem": probing.SILENT_TOO_LONG}
    if where.directory and "problem" not in found:
        existing = next(each for each in (where.directory, *where.directory.parents) if each.exists())
        found["notices"] += [f"{NO_ROOM}: {lack}" for lack in [Space(existing, reserve).lack()] if lack]
        if not where.is_restic and (why := why_untold()):  # restic flushes each of its files
            found["notices"].append(f"{UNTOLD} ({why})")
    return found


def try_source(location: str, source: dict[str, Any], seconds: float) -> dict[str, str]:
    """Test whether an engine reaches a source and may read there (`Engine.look`), for at most `seconds`.
    `location`: the name of the source.
    """
    specification = SourceSpec(**source)
    try:
        return {"text": look(specification, seconds, InTime(Stop(None), seconds))}
    except (RunEnded, ProgramMissing, ValueError, OSError) as error:
        return {"problem": redacted(str(error), specification.hidden)[:ERROR_LENGTH]}


def look(source: SourceSpec, seconds: float, stop: StopSignal) -> str:
    """Describe what was found, in a sentence without a full stop. Raises: RunEnded, ProgramMissing,
    ValueError, OSError.
    """
    task = BackupTask(
        unmoved(source),
        of_directory(Path("/")),
        NO_FOLDER,
        datetime.now(UTC),
        connect_timeout=seconds,
        stall_timeout=seconds,
        grace=2.0,
    )
    return engine_for(source.kind).look(task, stop)


def make_repository(
    location: dict[str, Any], ours: dict[str, Any], like: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Make the parts that a restic repository must have before its first backup; `like`: see `ResticStore.make`.
    Returns `failed`: why that is not possible; or `made`: True if it was made now, and `unlike`: why it differs from
    the other one. Raises: StorageStopped.
    """
    where, whose = Location.of_json(location), Identity(**ours)
    if where.directory and (reason := not_made(str(where.directory))):
        return {"failed": reason}
    try:
        store = store_of(where, Stop(where.directory))
        unlike = store.make(whose, Location.of_json(like) if like else None)
        instructions.keep_current(store, whose)
    except (StorageFailed, Busy, ProgramMissing, OSError) as error:
        return {"failed": str(error)}
    return {"made": unlike is not None, "unlike": unlike or ""}
