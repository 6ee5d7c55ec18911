"""The tree of a point, for browsing: its manifest as an SQLite file in a cache, which may be deleted at any time.

It is made at the first look (a million files: some seconds), then any folder is listed in milliseconds. The cache is
bounded: the least recently used files go first. For the versions of one file, manifests that are in no cache are
searched as they come.
"""

import contextlib
import difflib
import errno
import hashlib
import json
import os
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from storage import layout
from storage.places.location import Location
from storage.points import manifests
from storage.points.known import Known
from storage.points.manifest_index import COLUMNS, TOP, VERSION, index, stored
from storage.points.manifests import Entry, Header, ManifestDamaged
from storage.points.store import StorageFailed, Store

CACHE_BYTES = 2 * 2**30
NEAR_AMONG = 20_000
"""The most names among which one that is like a wrong name is looked for."""
LEFT_OUT = {name: "''" if default == "" else "NULL" for name, default in Entry._field_defaults.items()}
VALUES = ", ".join(f"entries.{each}" if each in COLUMNS else LEFT_OUT[each] for each in Entry._fields[1:])
ATTRIBUTES = Entry._fields.index("attributes") - 1


class NotThere(ValueError):
    """A path that is in no point, or not in this one, or a point that does not exist. The message is for users, and
    names existing ones.
    """


@dataclass(frozen=True)
class FolderRow:
    """A row of a folder. In the row of a folder, `files` and `size` count everything below it."""

    name: str
    entry: Entry
    files: int = 1


class Tree:
    """The entries of a point. `with opened(…) as tree`."""

    def __init__(self, file: Path) -> None:
        self._rows = sqlite3.connect(f"file:{quote(str(file))}?mode=ro&immutable=1", uri=True)
        try:
            facts = self._rows.execute("SELECT name, value FROM header")
            self.header = Header(**{name: json.loads(value) for name, value in facts})
            hard_link = self._rows.execute("SELECT 1 FROM entries WHERE linked <> '' LIMIT 1").fetchone()
        except Exception:
            self._rows.close()
            raise
        self._has_hard_links = hard_link is not None

    def close(self) -> None:
        self._rows.close()

    def folder(self, path: str = "", *, after: str = "", limit: int = 1000) -> list[FolderRow]:
        """The rows directly in a folder, by name, beginning after the name `after`."""
        found = self._rows.execute(
            f"SELECT entries.name, {VALUES}, below.files, below.size FROM entries LEFT JOIN folders below "
            "ON kind = 'folder' AND below.parent = entries.parent AND below.name = entries.name "
            "WHERE entries.parent = ? AND entries.name > ? ORDER BY entries.name LIMIT ?",
            (self._id(path), after, limit),
        )
        rows = []
        for name, *values, files, size in found:
            entry = _entry(path, name, values)
            if entry.kind == "folder":
                entry = entry._replace(size=size or 0)
            rows.append(FolderRow(name, entry, files or 0 if entry.kind == "folder" else 1))
        return rows

    def entry(self, path: str) -> Entry | None:
        """The entry with this path; None if there is none. The top is a folder with an empty path."""
        if path == "":
            return Entry("", "folder")
        parent, _, name = path.rpartition("/")
        found = self._rows.execute(
            f"SELECT {VALUES} FROM entries WHERE parent = ? AND name = ?", (self._id(parent), name)
        ).fetchone()
        return _entry(parent, name, found) if found else None

    def below(self, path: str) -> Iterator[Entry]:
        """The entry of a path, and all entries below it: a folder before its contents."""
        if path and (entry := self.entry(path)):
            yield entry
        # one open query for each folder above: a folder may hold a million folders
        waiting = [iter([(path, self._id(path))])]
        while waiting:
            if (following := next(waiting[-1], None)) is None:
                waiting.pop()
                continue
            folder, number = following
            for name, *values in self._rows.execute(
                f"SELECT name, {VALUES} FROM entries WHERE parent = ? ORDER BY name", (number,)
            ):
                yield _entry(folder, name, values)
            waiting.append(self._folders_in(folder, number))

    def _folders_in(self, folder: str, number: int) -> Iterator[tuple[str, int]]:
        inner = self._rows.execute("SELECT name, id FROM folders WHERE parent = ? ORDER BY name", (number,))
        return ((f"{folder}/{name}" if folder else name, each) for name, each in inner)

    def exceptions(self) -> Iterator[Entry]:
        """The entries with a reason: files that the run could not bring."""
        for parent, name, *values in self._rows.execute(
            f"SELECT entries.parent, name, {VALUES} FROM entries WHERE why <> '' ORDER BY entries.parent, name"
        ):
            yield _entry(self._path(parent), name, values)

    def is_shared(self, entry: Entry) -> bool:
        """True if a file has several names (hard links)."""
        if entry.linked or not self._has_hard_links:
            return bool(entry.linked)
        shared = "SELECT 1 FROM entries WHERE folder = ? AND stored = ? AND linked <> '' LIMIT 1"
        return self._rows.execute(shared, (entry.folder, entry.stored or entry.path)).fetchone() is not None

    def total(self, path: str = "") -> tuple[int, int]:
        """Files and links at a path or below it, and their bytes."""
        found = self._rows.execute("SELECT files, size FROM folders WHERE id = ?", (self._id(path),)).fetchone()
        if found:
            return int(found[0]), int(found[1])
        entry = self.entry(path)
        return (1, entry.size) if entry and entry.kind != "folder" and entry.is_kept else (0, 0)

    def _path(self, number: int) -> str:
        """The path of the folder with that id."""
        names = list[str]()
        while number != TOP:
            found = self._rows.execute("SELECT parent, name FROM folders WHERE id = ?", (number,)).fetchone()
            if found is None:
                raise sqlite3.DatabaseError("a folder is missing")
            number, name = found
            names.append(name)
        return "/".join(reversed(names))

    def _id(self, path: str) -> int:
        """The id of the folder with that path. 0 if it is empty or does not exist."""
        number = TOP
        for name in path.split("/") if path else ():
            found = self._rows.execute(
                "SELECT id FROM folders WHERE parent = ? AND name = ?", (number, name)
            ).fetchone()
            if found is None:
                return 0
            number = found[0]
        return number

    def check(self, path: str) -> None:
        """Raises: NotThere for a path that this point does not have, naming similar ones."""
        if self.entry(path) is not None:
            return
        folder = path
        while True:
            folder, _, _ = folder.rpartition("/")
            if self.entry(folder) is not None:
                break
        wrong = path[len(folder) + 1 if folder else 0 :].partition("/")[0]
        names = [each.name for each in self.folder(folder, limit=NEAR_AMONG)]
        near = difflib.get_close_matches(wrong, names, n=3) or names[:10]
        shown = ", ".join(repr(f"{folder}/{name}".lstrip("/")) for name in near) or "nothing"
        where = f"folder {folder!r}" if folder else "it"
        raise NotThere(
            f"there is no {path!r} in this point; {where} has {shown}{', …' if len(names) > len(near) else ''}"
        )


@contextlib.contextmanager
def opened(store: Store, assignment: str, point: str, cache: Path) -> Iterator[Tree]:
    """The tree of a point, read from its manifest unless it is in `cache`, a folder that is made if it is missing.

    Raises: NotThere; ManifestDamaged; OSError; and the errors of the store.
    """
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = _file_of(store.location, assignment, point, cache, store.known)
    if not file.exists():
        _make(file, store, assignment, point)
        _bound(cache, file)
    try:
        tree = Tree(file)
    # a damaged cache loses nothing: it is made again
    except (sqlite3.DatabaseError, TypeError, ValueError):
        file.unlink(missing_ok=True)
        _make(file, store, assignment, point)
        tree = Tree(file)
    os.utime(file)
    try:
        yield tree
    except sqlite3.DatabaseError as error:
        file.unlink(missing_ok=True)
        raise StorageFailed(
            f"this host's copy of the manifest of point {point} is damaged ({error}): it was deleted, and is read "
            "again from the repository at the next try"
        ) from error
    finally:
        tree.close()


def _make(file: Path, store: Store, assignment: str, point: str) -> None:
    """Make the file of a tree, which is whole or not there, also after a power cut."""
    with tempfile.TemporaryDirectory(dir=file.parent) as scratch:
        manifest, made = Path(scratch) / f"{point}{layout.MANIFEST_ENDING}", Path(scratch) / "made"
        if not store.manifest(assignment, point, manifest):
            raise NotThere(f"there is no point {point} of {assignment} any more: retention may have removed it")
        try:
            index(manifest, made, store)
        except sqlite3.OperationalError as error:
            number = errno.ENOSPC if error.sqlite_errorcode == sqlite3.SQLITE_FULL else errno.EIO
            raise OSError(number, os.strerror(number), str(file.parent)) from error
        with made.open("rb") as written:
            os.fsync(written.fileno())
        made.rename(file)


def is_cached(location: Location, assignment: str, point: str, cache: Path, known: Known | None) -> bool:
    """True if the next look at this point reads nothing from the repository."""
    return _file_of(location, assignment, point, cache, known).exists()


def versions_of(store: Store, assignment: str, points: Sequence[str], path: str, cache: Path) -> list[dict[str, Any]]:
    """Each version with those of `points`, the newest first, that hold it: `points`, `kind`, `size`, `modified`; or
    `why`, with the point alone, for one whose manifest is damaged. A manifest of a million files takes a second.
    """
    found: list[dict[str, Any]] = []
    before: Entry | None = None
    for point in points:
        store.check_stop()
        try:
            entry = _entry_at(store, assignment, point, path, cache)
        except ManifestDamaged as error:
            found.append({"points": [point], "why": str(error)})
            before = None
            continue
        if entry is not None and not entry.is_kept:
            continue
        if entry is not None and before is not None and entry.is_same(before):
            found[-1]["points"].append(point)
        elif entry is not None:
            facts = {"kind": entry.kind, "size": entry.size, "modified": entry.modified}
            found.append({"points": [point], **facts})
        before = entry
    return found


def _entry_at(store: Store, assignment: str, point: str, path: str, cache: Path) -> Entry | None:
    if store.location.is_restic or is_cached(store.location, assignment, point, cache, store.known):
        with opened(store, assignment, point, cache) as tree:
            return tree.entry(path)
    cache.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache.parent, suffix=f"-{point}") as scratch:
        file = Path(scratch) / point
        return manifests.find(file, path) if store.manifest(assignment, point, file) else None


def _file_of(location: Location, assignment: str, point: str, cache: Path, known: Known | None) -> Path:
    """The cached file of a point: entries of one manifest are not shown for another, such as that of a foreign point or
    one written again.
    """
    digests = "foreign" if known is None else " ".join(sorted(known.get(point, ())))
    key = f"{VERSION}\0{location.outside}\0{assignment}\0{point}\0{digests}"
    return cache / f"{hashlib.sha256(key.encode()).hexdigest()}.sqlite3"


def _entry(parent: str, name: str, values: list[Any] | tuple[Any, ...]) -> Entry:
    if bytes in map(type, values):
        values = [*map(stored, values)]
    entry = Entry(f"{parent}/{name}" if parent else name, *values)
    try:
        return entry._replace(attributes=json.loads(values[ATTRIBUTES])) if values[ATTRIBUTES] else entry
    except ValueError as error:
        raise sqlite3.DatabaseError(f"attributes of {entry.path!r:.200} are not JSON: {error}") from error


def _bound(cache: Path, kept: Path) -> None:
    files = sorted(cache.glob("*.sqlite3"), key=lambda each: each.stat().st_mtime, reverse=True)
    room = CACHE_BYTES
    for file in files:
        room -= file.stat().st_size
        if room < 0 and file != kept:
            file.unlink(missing_ok=True)
