"""Whether a restic repository can be used: restic makes one, backs up, reads back, forgets, and nothing of that stays.

Beside files of ours that is tried in a place of its own, which is removed again. A REST server of restic keeps no other
files and removes no place: the repository itself is made there, and a snapshot says whose it is.
"""

import secrets
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from sources.processes.runner import StopSignal
from sources.storage import identity
from sources.storage.identity import Identity, Refused
from sources.storage.location import Location, joined
from sources.storage.restic.program import Restic, ResticFailed
from sources.storage.restic.snapshots import back_up_text, repository_of
from sources.storage.restic.verdicts import Trouble
from sources.storage.store import Stopped, StorageFailed, Store

PROBE = "backupsched-probe-"
SILENT_SECONDS = 60.0
"""restic itself waits for ever for a server that takes a request and says nothing."""
WRITTEN = "written by a probe\n"
FOUND: dict[str, Any] = {"sees_changes": True, "notices": []}


def probe(location: Location, ours: Identity, stop: StopSignal, *, take_over: bool) -> dict[str, Any]:
    """As `sources.engines.probing.probe`. Raises: Refused, StorageFailed, Stopped, ProgramMissing."""
    if not location.keeps_files:
        return {"id": _probe_server(location, ours, stop, take_over), "is_new": False} | FOUND
    outside = Store(location.bare, stop)
    found = identity.read(outside)
    if found:
        identity.check(found, ours, take_over=take_over)
        Restic(location, stop, SILENT_SECONDS).run("cat", "config")
    name = f"{PROBE}{secrets.token_hex(8)}"
    at = joined(location.outside, name)
    repository = at if location.directory else f"rclone:{at}"
    there = replace(location, environment={**location.environment, "RESTIC_REPOSITORY": repository})
    missing = [each for each in _ways(location) if not each.exists()]
    try:
        restic = Restic(there, stop, SILENT_SECONDS)
        restic.run("init")
        _write_and_read(restic)
    finally:
        with suppress(StorageFailed, Stopped, OSError):
            outside.delete(name)
        with suppress(OSError):
            for each in missing:
                each.rmdir()
    return {"id": (found or ours).id, "is_new": found is None} | FOUND


def not_readable(location: Location, stop: StopSignal) -> str | None:
    """Why a REST server does not give its repository; None: it does."""
    try:
        Restic(location, stop, SILENT_SECONDS).run("cat", "config")
    except StorageFailed as error:
        return str(error)
    return None


def _ways(location: Location) -> tuple[Path, ...]:
    return (location.directory, *location.directory.parents) if location.directory else ()


def _probe_server(location: Location, ours: Identity, stop: StopSignal, take_over: bool) -> str:
    restic = Restic(location, stop, SILENT_SECONDS)
    try:
        restic.run("cat", "config")
    except ResticFailed as error:
        if error.trouble is not Trouble.NO_REPOSITORY:
            raise
        restic.run("init")
    whose = repository_of(restic)
    if whose not in (None, ours.id) and not take_over:
        raise Refused(
            "it is the repository of another installation, which may still write there: name another place, or if that "
            "one is gone, take it over: `repositories add … --take-over`"
        )
    _write_and_read(restic)
    if whose is None:
        back_up_text(restic, "repository", repository=ours.id)
    return whose or ours.id


def _write_and_read(restic: Restic) -> None:
    tag = secrets.token_hex(8)
    snapshot = back_up_text(restic, WRITTEN, probe=tag)
    read: list[str] = []
    restic.run("dump", snapshot, "/written", on_line=read.append)
    if WRITTEN.strip() not in read:
        raise Refused("what is written there is not read back as it was; name another place")
    restic.run("forget", snapshot)
