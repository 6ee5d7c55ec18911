"""Whether a repository can be used: it is written, read, changed and deleted there, and nothing of that stays.

A file of a size that stays is written twice, as a backup would: where that is not seen, or its time is not kept, rclone
would take what changed for unchanged, or all for changed. Then the manifest says what has changed.
"""

import json
import os
import secrets
import tempfile
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from sources.engines.rclone.verdicts import HOST_KEY, REFUSED, SILENT
from sources.engines.restic import probing as restic_probing
from sources.processes.programs import ProgramMissing
from sources.processes.runner import StopSignal
from sources.storage import identity, layout
from sources.storage.identity import Identity, Refused
from sources.storage.location import Location
from sources.storage.restic.program import ResticFailed
from sources.storage.restic.verdicts import Trouble
from sources.storage.store import Stopped, StorageFailed, Store

STEP_SECONDS = 60.0
"""For each step of the probe, of which a slow remote takes seconds."""
IMPATIENT = {"RCLONE_LOW_LEVEL_RETRIES": "1", "RCLONE_CONTIMEOUT": "10s", "RCLONE_TIMEOUT": "20s"}
PROBE = "backupsched-probe-"
VERSIONS = ("first ", "second")
WRITTEN_AT = (1_000_000_000, 1_000_000_060)
"""Seconds since 1970: the times of the two versions, which no clock shows now."""
PRECISION_SECONDS = 2.0


def probe(location: Location, ours: Identity, stop: StopSignal, *, take_over: bool = False) -> dict[str, Any]:
    """Returns {"field": …, "problem": …}, or {"id": …, "is_new": …, "sees_changes": …, "notices": […]}. `is_new`: the
    place does not say whose it is."""
    try:
        if location.is_restic:
            return restic_probing.probe(location, ours, stop, take_over=take_over)
        if location.directory and not location.is_encrypted:
            return _probe_directory(location, ours, stop, take_over)
        return _Probe(location, stop).run(ours, take_over)
    except Refused as error:
        return {"field": "key" if "key" in str(error).split()[:2] else "location", "problem": str(error)}
    except ResticFailed as error:
        field = "key" if error.trouble is Trouble.WRONG_KEY else "location"
        return {"field": field, "problem": f"it cannot be used: {error}"}
    except ProgramMissing as error:
        return {"field": "format", "problem": str(error)}
    except StorageFailed as error:
        return problem_of(str(error), is_remote=location.directory is None)


def problem_of(text: str, *, is_remote: bool) -> dict[str, Any]:
    """What rclone said of a repository, as a field and what to do about it."""
    for pattern, field, what in (
        (HOST_KEY, "remote", "THE HOST KEY IS NOT THE PINNED ONE: correct host_keys only if the host was reinstalled"),
        (REFUSED, "secrets", "it refuses the credentials: check its user, keys and what they may do there"),
        (SILENT, "remote", "it does not answer: check its address, and that it can be reached from here"),
    ):
        if is_remote and pattern.search(text):
            return {"field": field, "problem": f"{what} ({text})"}
    return {"field": "location", "problem": f"it cannot be used: {text}"}


def not_writable(location: Location, stop: StopSignal) -> str | None:
    """Why nothing can be written to a remote; None: it can. What is tried is deleted again."""
    if not location.keeps_files:
        return restic_probing.not_readable(location, stop)
    store = Store(replace(location, environment={**location.environment, **IMPATIENT}), stop, STEP_SECONDS)
    name = f"{PROBE}{secrets.token_hex(8)}"
    try:
        with tempfile.NamedTemporaryFile() as empty:
            store.put(Path(empty.name), name)
        store.delete("", [name])
    except StorageFailed as error:
        return str(problem_of(str(error), is_remote=True)["problem"])
    return None


def _probe_directory(location: Location, ours: Identity, stop: StopSignal, take_over: bool) -> dict[str, Any]:
    """A plain directory, which can be written as is known already. Nothing is made yet."""
    directory = location.directory or Path(location.root)
    found = identity.read(Store(location, stop)) if (directory / layout.REPOSITORY).exists() else None
    if found:
        identity.check(found, ours, take_over=take_over)
    existing = next(each for each in (directory, *directory.parents) if each.exists())
    with tempfile.NamedTemporaryFile(dir=existing) as file:
        os.utime(file.name, (WRITTEN_AT[0], WRITTEN_AT[0]))
        keeps_times = abs(os.stat(file.name).st_mtime - WRITTEN_AT[0]) < PRECISION_SECONDS
    return _found(found, ours, keeps_times)


def _found(found: Identity | None, ours: Identity, sees_changes: bool) -> dict[str, Any]:
    notice = "it keeps no times of files, so the manifest of the last backup says what has changed"
    facts = {"id": (found or ours).id, "is_new": found is None}
    return facts | {"sees_changes": sees_changes, "notices": [] if sees_changes else [notice]}


class _Probe:
    def __init__(self, location: Location, stop: StopSignal) -> None:
        location = replace(location, environment={**location.environment, **IMPATIENT})
        self.inside = Store(location, stop, stall_timeout=STEP_SECONDS)
        self.outside = Store(location.bare, stop, stall_timeout=STEP_SECONDS)

    def run(self, ours: Identity, take_over: bool) -> dict[str, Any]:
        found = identity.read(self.outside)
        if found:
            identity.check(found, ours, take_over=take_over)
        directory = self.outside.location.directory
        missing = [each for each in (directory, *directory.parents) if not each.exists()] if directory else []
        was_there = found or self.outside.run("lsf", self.outside.location.root, missing_ok=True)
        self.name, self.is_left = f"{PROBE}{secrets.token_hex(8)}", True
        try:
            return _found(found, ours, self._write_twice())
        finally:
            with suppress(StorageFailed, Stopped):
                if self.is_left:
                    self.inside.delete("", [self.name])
            with suppress(StorageFailed, Stopped, OSError):
                if not was_there:
                    self.outside.run("rmdirs", self.outside.location.root)
                for each in missing:
                    each.rmdir()

    def _write_twice(self) -> bool:
        """Returns whether the second version was seen as one, with its time. Raises: Refused, StorageFailed."""
        with tempfile.TemporaryDirectory() as scratch:
            file, copy = Path(scratch) / "written", Path(scratch) / "read"
            for text, at in zip(VERSIONS, WRITTEN_AT, strict=True):
                file.write_text(text)
                os.utime(file, (at, at))
                self.inside.run("copyto", str(file), self.inside.location.at(self.name))
            read = copy.read_text() if self.inside.fetch(self.name, copy) else ""
        if read not in VERSIONS:
            raise Refused("what is written there is not read back as it was; name another place")
        [row] = self._listed() or [{}]
        self.inside.delete("", [self.name])
        if self._listed():
            raise Refused("what is deleted stays there: let this account delete, or name another place")
        self.is_left = False
        kept = datetime.fromisoformat(row["ModTime"]).timestamp() if row.get("ModTime") else 0.0
        return read == VERSIONS[1] and abs(kept - WRITTEN_AT[1]) < PRECISION_SECONDS

    def _listed(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        self.inside.run(
            "lsjson", "--files-only", f"--include=/{self.name}", self.inside.location.root, missing_ok=True,
            on_line=lambda line: rows.append(json.loads(line.rstrip(","))) if line.startswith('{"Path"') else None,
        )  # fmt: skip
        return rows
