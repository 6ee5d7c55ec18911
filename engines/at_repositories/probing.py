"""Tests whether a repository can be used: a file is written, read and deleted there. Nothing of that stays, unless
these credentials may not delete: that is reported, and does not prevent backups.

restic makes a repository, backs up, reads back and forgets. If our files are stored next to it, this is tried in a
separate place, which is removed again. A REST server of restic stores no other files and removes no place: the
repository itself is made there, and a snapshot identifies its owner.
"""

import secrets
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from engines.rclone.verdicts import HOST_KEY, REFUSED, SILENT
from external.processes.programs import ProgramMissing
from external.processes.runner import StopSignal
from storage.places import identity
from storage.places.identity import Identity, RepositoryRefused
from storage.places.location import Location, joined
from storage.places.rclone import rows_to
from storage.points.store import StorageFailed, StorageStopped, Store
from storage.restic.program import Restic, ResticFailed
from storage.restic.snapshots import back_up_text, is_empty, repository_of
from storage.restic.verdicts import ResticTrouble

STEP_SECONDS = 60.0
"""Seconds for each step of the probe; a slow remote takes a few. restic itself waits forever for a server that falls
silent once it has accepted a request.
"""
IMPATIENT = {"RCLONE_LOW_LEVEL_RETRIES": "1", "RCLONE_CONTIMEOUT": "10s", "RCLONE_TIMEOUT": "20s"}
PROBE = "backupsched-probe-"
OF_SYSTEMS = frozenset({"lost+found", "System Volume Information"})
WRITTEN = "written by a probe\n"
NOT_AS_IT_WAS = "a file that was written there is not read back as it was; name another place"
APPEND_ONLY = (
    "these credentials may not delete there, so no rule removes a point: backups, checks, copies and restores work "
    "all the same; see docs/append-only.md"
)
ANOTHERS = (
    "it is the repository of another installation, which may still write there: name another place, or if that one is "
    "gone, take it over: `repositories add … --take-over`"
)

FOREIGN = (
    "it is a restic repository with snapshots that this scheduler has not made: name another one, or to add backups to "
    "it, take it over: `repositories add … --take-over`"
)
SILENT_TOO_LONG = "it has not answered in time, and was not tried to the end; look at it, and try again"


def probe(location: Location, ours: Identity, stop: StopSignal, *, take_over: bool = False) -> dict[str, Any]:
    """Try a repository. Returns {"field": …, "problem": …}, or {"id": …, "is_new": …, "notices": […], "holds": […]}.
    `is_new`: True if the place has no identity; `holds`: the names that are stored there in that case. Raises:
    StorageStopped.
    """
    try:
        if not location.keeps_files:
            whose = _probe_server(Restic(location, stop, STEP_SECONDS), ours, take_over)
            return {"id": whose, "is_new": False, "notices": [], "holds": []}
        outside = _impatient(location.bare, stop)
        found = identity.read(outside)
        if found:
            identity.check(found, ours, take_over=take_over)
        held = [] if found else held_by_others(outside)
        notices = [] if _probe_place(location, outside, found) else [APPEND_ONLY]
        facts = {"notices": notices, "holds": held}
        return {"id": (found or ours).id, "is_new": found is None, **facts}
    except RepositoryRefused as error:
        return {"field": "key" if "key" in str(error).split()[:2] else "location", "problem": str(error)}
    except ResticFailed as error:
        field = "key" if error.trouble is ResticTrouble.WRONG_KEY else "location"
        return {"field": field, "problem": f"it cannot be used: {error}"}
    except ProgramMissing as error:
        return {"field": "format", "problem": str(error)}
    except StorageFailed as error:
        return problem_of(str(error), is_remote=location.directory is None)


def held_by_others(outside: Store) -> list[str]:
    """The names in a place without an identity, except for those that file systems and probes leave there."""
    found: list[str] = []
    outside.run("lsf", "--max-depth=1", outside.location.root, missing_ok=True, on_line=found.append)
    return of_others(each.rstrip("/") for each in found)


def of_others(names: Iterable[str]) -> list[str]:
    """The names without those that file systems and probes leave in a folder."""
    return [each for each in names if each not in OF_SYSTEMS and not each.startswith((".", "$", "@", "#", PROBE))]


def problem_of(text: str, *, is_remote: bool) -> dict[str, Any]:
    """The field that a message of rclone about a repository concerns, and what to do about it."""
    for pattern, field, what in (
        (HOST_KEY, "remote", "THE HOST KEY IS NOT THE PINNED ONE: correct host_keys only if the host was reinstalled"),
        (REFUSED, "secrets", "it refuses the credentials: check its user and keys, and their rights there"),
        (SILENT, "remote", "it does not answer: check its address, and that it can be reached from here"),
    ):
        if is_remote and pattern.search(text):
            return {"field": field, "problem": f"{what} ({text})"}
    return {"field": "location", "problem": f"it cannot be used: {text}"}


def not_writable(location: Location, stop: StopSignal) -> str | None:
    """The reason why nothing can be written to a remote, or why a REST server does not give its repository; None if it
    can be used. The file that is tried is deleted again, where that is allowed.
    """
    try:
        if location.keeps_files:
            store, name = _impatient(location, stop), f"{PROBE}{secrets.token_hex(8)}"
            with tempfile.NamedTemporaryFile() as empty:
                store.put(Path(empty.name), name)
            with suppress(StorageFailed):
                store.delete("", [name])
        else:
            Restic(location, stop, STEP_SECONDS).run("cat", "config")
    except StorageFailed as error:
        return str(problem_of(str(error), is_remote=True)["problem"]) if location.keeps_files else str(error)
    return None


def _impatient(location: Location, stop: StopSignal) -> Store:
    return Store(replace(location, environment={**location.environment, **IMPATIENT}), stop, STEP_SECONDS)


def _probe_place(location: Location, outside: Store, found: Identity | None) -> bool:
    """True if files that are written there can be deleted. Raises: RepositoryRefused, StorageFailed, StorageStopped."""
    directory = location.directory
    if directory and not location.is_encrypted:  # writing there has been tried already, and nothing is made yet
        return True
    missing = [each for each in (directory, *directory.parents) if not each.exists()] if directory else []
    was_there = found or outside.run("lsf", outside.location.root, missing_ok=True)
    name = f"{PROBE}{secrets.token_hex(8)}"
    try:
        if location.is_restic:
            return _try_restic(location, outside, name, found)
        return _write_and_delete(_impatient(location, outside.stop), name)
    finally:
        with suppress(StorageFailed, StorageStopped, OSError):
            if not was_there:
                outside.run("rmdirs", outside.location.root, missing_ok=True)
        for each in missing:
            with suppress(OSError):
                each.rmdir()


def _write_and_delete(store: Store, name: str) -> bool:
    """Write a file, read it back and delete it. Returns True if it could be deleted. Raises: RepositoryRefused,
    StorageFailed.
    """
    try:
        with tempfile.TemporaryDirectory() as scratch:
            file, copy = Path(scratch) / "written", Path(scratch) / "read"
            file.write_text(WRITTEN)
            store.put(file, name)
            if not store.fetch(name, copy) or copy.read_text() != WRITTEN:
                raise RepositoryRefused(NOT_AS_IT_WAS)
    finally:
        with suppress(StorageFailed, StorageStopped):
            store.delete("", [name])
    return not _listed(store, name)


def _listed(store: Store, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    listing = ("lsjson", "--files-only", f"--include=/{name}", store.location.root)
    store.run(*listing, missing_ok=True, on_line=rows_to(rows.append))
    return rows


def _try_restic(location: Location, outside: Store, name: str, found: Identity | None) -> bool:
    if found:
        Restic(location, outside.stop, STEP_SECONDS).run("cat", "config")
    at = joined(location.outside, name)
    repository = at if location.directory else f"rclone:{at}"
    there = replace(location, environment={**location.environment, "RESTIC_REPOSITORY": repository})
    try:
        restic = Restic(there, outside.stop, STEP_SECONDS)
        restic.run("init")
        _write_and_read(restic)
    finally:
        with suppress(StorageFailed, StorageStopped, OSError):
            outside.delete(name)
    return True


def _probe_server(restic: Restic, ours: Identity, take_over: bool) -> str:
    try:
        restic.run("cat", "config")
    except ResticFailed as error:
        if error.trouble is not ResticTrouble.NO_REPOSITORY:
            raise
        restic.run("init")
    whose = repository_of(restic)
    if whose is None and not take_over and not is_empty(restic):
        raise RepositoryRefused(FOREIGN)
    if whose not in (None, ours.id) and not take_over:
        raise RepositoryRefused(ANOTHERS)
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
        raise RepositoryRefused(NOT_AS_IT_WAS)
    restic.run("forget", snapshot)
