"""Makes the point of an rclone run that ended well: what `current` holds now, beside the point before it."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from engines.base import BackupTask
from engines.engine import Run
from engines.rclone.earlier import Earlier
from engines.rclone.log import PIECE
from external.processes.programs import rclone_version
from storage import layout
from storage.points import manifests, runs
from storage.points.bounds import LONGEST_PATH, is_nameable
from storage.points.digests import digests_of_copy
from storage.points.files import digest_of, nanoseconds, path_in
from storage.points.manifests import Changes, Entry, Totals
from storage.points.runs import Begun
from storage.points.store import Stopped, StorageFailed, Store

LINK = ".rclonelink"
NEVER = "1970-01-01T00:00:00"
NOT_UTF_8 = "its name is not UTF-8, so it cannot be restored by that and stands in no point: rename it"
TOO_DEEP = "its path has more than 4,096 bytes or 255 names, so it stands in no point: move it up, or shorten names"
LIKE_A_PIECE = "its name ends like those of files that rclone is fetching, so it stands in no point: rename it"


def make_point(
    run: Run, begun: Begun, before: Earlier, times: Mapping[str, str], pieces: list[str], *, complete: bool
) -> tuple[Totals, str, Changes, list[str]]:
    """`times`: of files by path, as their source says, where the copy does not. `pieces`: that were removed.

    Returns what the point holds, the digest of its manifest, what changed since the one before, and warnings.
    """
    task, store = run.task, run.store
    entries, odd = _entries(task, store, begun.name, times, pieces)
    how = _digests(run, entries, odd)
    (entries, changes), warnings = before.use(lambda earlier: runs.with_digests(entries, earlier, *how))
    version = task.engine_version or rclone_version()
    try:
        totals, digest = run.write_point(begun.name, "rclone", version, entries, complete=complete)
    except OSError:
        if task.location.directory:
            _have_compared(run, before, entries)
        raise
    runs.end(store, task.folder, begun.name)
    return totals, digest, changes, warnings + odd


def _have_compared(run: Run, before: Earlier, entries: list[Entry]) -> None:
    """Give the files that are new another time, and have the kernel forget them: what the disk did not take is as it
    should be in memory alone, and the next run would take it for copied. It fetches what differs, and where they are
    encrypted, all of them."""

    def new(earlier: Iterator[Entry]) -> list[str]:
        pairs = manifests.side_by_side(earlier, entries)
        return [
            now.stored_path for old, now in pairs if now and now.kind != "folder" and not (old and old.is_same(now))
        ]

    with suppress(OSError, StorageFailed, Stopped):
        paths, _ = before.use(new)
        if not (directory := run.task.directory):
            run.store.touch(f"{run.task.folder}/{layout.CURRENT}", paths, NEVER)
            return
        for path in paths:
            file = path_in(directory / layout.CURRENT, path)
            with suppress(OSError), open(file, "rb") as opened:
                os.utime(file, (0, 0))
                if hasattr(os, "posix_fadvise"):
                    os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _digests(run: Run, entries: list[Entry], warnings: list[str]) -> tuple[Callable[[list[str]], dict[str, str]], str]:
    """How the digests of new files are found, and where they are from then. What cannot be read makes a warning."""
    directory = run.task.directory

    def of_copy(paths: list[str]) -> dict[str, str]:
        digests, unread = digests_of_copy(Path(directory or "") / layout.CURRENT, paths, run.stop)
        warnings.extend(f"{path}: its copy cannot be read back: {error.strerror}" for path, error in unread)
        return digests

    def of_source(paths: list[str]) -> dict[str, str]:
        """Of files that are as they were when they were copied."""
        found, known = dict[str, str](), {entry.path: entry for entry in entries}
        for path in paths:
            entry, file = known[path], path_in(Path(run.task.source.path), path)
            with suppress(OSError, ValueError):
                digest, now = digest_of(file, run.store.go_on), os.lstat(file)
                if (now.st_size, now.st_mtime_ns) == (entry.size, nanoseconds(entry.modified)):
                    found[path] = digest
        return found

    if directory:
        return of_copy, "copy"
    return (of_source, "source") if run.task.source.kind == "local" else (lambda paths: {}, "")


def _entries(
    task: BackupTask, store: Store, run: str, times: Mapping[str, str], removed: list[str]
) -> tuple[list[Entry], list[str]]:
    """What `current` holds, sorted by path, and warnings. Pieces of files that a run left are removed."""
    current = f"{layout.CURRENT}/"
    found: dict[str, Entry] = {}
    source = Path(task.source.path)
    pieces: list[str] = []

    def take(row: dict[str, Any]) -> None:
        path: str = row["Path"]
        if PIECE.search(path) and not row["IsDir"]:
            pieces.append(path)
        elif path.startswith(current):
            path = path.removeprefix(current)
            entry = _entry(path, source, row | {"ModTime": times.get(path, row.get("ModTime", ""))}, task)
            found[entry.path] = entry

    store.walk(task.folder, take, among=(layout.CURRENT, f"{layout.VERSIONS}/{run}"))
    if pieces:
        store.delete(task.folder, pieces)
    odd = [path for path in found if "\ufffd" in path and not _is_there(task, path)]
    deep = [path for path in found if not is_nameable(path)]
    entries = [found[path] for path in sorted(found.keys() - {*odd, *deep})]
    alike = [*removed, *(path.removeprefix(current) for path in pieces if path.startswith(current))]
    if task.source.kind == "local":
        alike = [path for path in alike if os.path.lexists(path_in(source, path))]
    why = [*((each, NOT_UTF_8) for each in odd), *((each, TOO_DEEP) for each in deep)]
    return entries, [f"{path:.500}: {reason}" for path, reason in (*why, *((each, LIKE_A_PIECE) for each in alike))]


def _is_there(task: BackupTask, path: str) -> bool:
    """Whether the copy has a file of just that name: for rclone, each name that is not UTF-8 has U+FFFD in it."""
    return task.directory is not None and os.path.lexists(task.directory / layout.CURRENT / path)


def _entry(path: str, source: Path, row: dict[str, Any], task: BackupTask) -> Entry:
    """A folder of this host, and it alone, tells modes and has links."""
    kind, mode, target = "folder" if row["IsDir"] else "file", None, ""
    if task.source.kind == "local":
        if kind == "file" and path.endswith(LINK) and row["Size"] <= LONGEST_PATH:
            target = _target(path, task)
            path, kind = path.removesuffix(LINK), "link"
        with suppress(OSError, ValueError):  # it is gone since, or its name is not what this host calls it
            mode = os.lstat(path_in(source, path)).st_mode & 0o7777
    return Entry(path, kind, 0 if kind == "folder" else row["Size"], row["ModTime"], mode, target)


def _target(path: str, task: BackupTask) -> str:
    with suppress(OSError, ValueError):
        if task.directory:
            file = path_in(task.directory / layout.CURRENT, path)
            return Path(os.fsdecode(file)).read_text(errors="surrogateescape")
        return os.fsdecode(os.readlink(path_in(Path(task.source.path), path.removesuffix(LINK))))
    return ""
