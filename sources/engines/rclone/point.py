"""Makes the point of an rclone run that ended well: what `current` holds now, beside the point before it."""

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from sources.engines.base import BackupTask
from sources.processes import runner
from sources.processes.programs import find_rclone
from sources.storage import layout, manifests, runs
from sources.storage.manifests import Changes, Entry, Header, ManifestDamaged, Totals
from sources.storage.runs import Begun
from sources.storage.store import PARTIAL_SUFFIX, Store

PARTIAL = re.compile(rf"\.[0-9a-f]{{8}}{re.escape(PARTIAL_SUFFIX)}$")
LINK = ".rclonelink"
VERSION_SECONDS = 30.0


def make_point(task: BackupTask, store: Store, begun: Begun, *, complete: bool) -> tuple[Totals, Changes, list[str]]:
    """Returns what the point holds, what changed since the one before, and warnings."""
    with tempfile.TemporaryDirectory() as scratch:
        before, warnings = _fetch(store, task.folder, begun.newest, Path(scratch))
        entries = _entries(task, store, begun.name)
        entries = runs.with_digests(entries, _read(before), partial(_read_back, task, store), digest_from="copy")
        changes = manifests.compare(_read(before), entries)
        header = Header(
            source=task.source.name,
            source_kind=task.source.kind,
            policy=task.policy,
            engine="rclone",
            engine_version=_version(),
            started_at=task.started_at.astimezone(UTC).isoformat(),
            ended_at=datetime.now(UTC).isoformat(timespec="seconds"),
            complete=complete,
        )
        totals = runs.write_point(store, task.folder, begun.name, header, entries)
        runs.end(store, task.folder, begun.name)
    return totals, changes, warnings


def _read_back(task: BackupTask, store: Store, paths: list[str]) -> dict[str, str]:
    """Digests of what was copied, where that costs no way through a network: a check reads the rest."""
    return store.digests(f"{task.folder}/{layout.CURRENT}", paths) if task.location.is_plain else {}


def _fetch(store: Store, folder: str, point: str | None, scratch: Path) -> tuple[Path | None, list[str]]:
    """The manifest of the point before, read through once: what it says of digests is taken over."""
    if point is None:
        return None, []
    file = scratch / point
    try:
        if store.fetch(layout.manifest_path(folder, point), file):
            for _ in manifests.read(file):
                pass
            return file, []
    except ManifestDamaged as error:
        return None, [f"{error}: its point cannot be restored whole, and all files are read again for their digests"]
    return None, []


def _read(before: Path | None) -> Iterator[Entry]:
    return manifests.read(before) if before else iter(())


def _entries(task: BackupTask, store: Store, run: str) -> list[Entry]:
    """What `current` holds, sorted by path. Pieces of files that an earlier run left behind are removed."""
    current, version = f"{layout.CURRENT}/", f"{layout.VERSIONS}/{run}/"
    found: list[Entry] = []
    pieces: list[str] = []

    def take(row: dict[str, Any]) -> None:
        path: str = row["Path"]
        if PARTIAL.search(path) and not row["IsDir"]:
            pieces.append(path)
        elif path.startswith(current):
            found.append(_entry(path.removeprefix(current), row, task))

    filters = (f"--filter=+ /{current}**", f"--filter=+ /{version}**", "--filter=- **")
    store.walk(task.folder, take, *filters)
    if pieces:
        store.delete(task.folder, pieces)
    return sorted(found, key=lambda entry: entry.path)


def _entry(path: str, row: dict[str, Any], task: BackupTask) -> Entry:
    """A folder of this host, and it alone, tells modes and has links."""
    kind, mode, target = "folder" if row["IsDir"] else "file", None, ""
    if task.source.kind == "local":
        if kind == "file" and path.endswith(LINK):
            target = _target(path, task)
            path, kind = path.removesuffix(LINK), "link"
        with suppress(OSError, ValueError):  # it is gone since, or its name is not what this host calls it
            mode = os.lstat(os.path.join(task.source.path, path)).st_mode & 0o7777
    return Entry(path, kind, 0 if kind == "folder" else row["Size"], row.get("ModTime", ""), mode, target)


def _target(path: str, task: BackupTask) -> str:
    with suppress(OSError, ValueError):
        if task.directory:
            return (task.directory / layout.CURRENT / path).read_text(errors="surrogateescape")
        return os.readlink(os.path.join(task.source.path, path.removesuffix(LINK)))
    return ""


def _version() -> str:
    """As `v1.75.2`."""
    try:
        ended = subprocess.run(
            (find_rclone(), "version", "--config="),
            env=runner.program_environment({}),
            capture_output=True,
            timeout=VERSION_SECONDS,
            check=True,
            text=True,
        )
    except subprocess.SubprocessError:
        return ""
    return ended.stdout.partition("\n")[0].removeprefix("rclone ").strip()
