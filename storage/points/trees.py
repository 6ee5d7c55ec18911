"""What a point holds, to be browsed: its manifest as an SQLite file in a cache, which may be deleted at any time.

Made at the first look (a million files: some seconds), then any folder is listed in milliseconds. The cache is bounded:
what was not looked at for longest goes first. For the versions of one file, manifests that are in no cache are searched
as they come.
"""

import contextlib
import difflib
import hashlib
import os
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

from storage import layout
from storage.places.location import Location
from storage.points import manifests
from storage.points.known import Known
from storage.points.manifests import Entry, Header
from storage.points.moving import check_room
from storage.points.store import Store

CACHE_BYTES = 2 * 2**30
BATCH = 20_000
NEAR_AMONG = 20_000
COLUMNS = tuple(Entry._fields[1:])

SCHEMA = """
CREATE TABLE header (name TEXT, value);
CREATE TABLE folders (
    id INTEGER PRIMARY KEY, parent INTEGER, name TEXT, files INTEGER, size INTEGER, UNIQUE (parent, name)
);
CREATE TABLE entries (
    folder INTEGER, name TEXT, kind TEXT, size INTEGER, modified TEXT, mode INTEGER, target TEXT, digest TEXT,
    digest_from TEXT, PRIMARY KEY (folder, name)
) WITHOUT ROWID;
"""
VALUES = ", ".join(f"entries.{each}" for each in COLUMNS)
TOP = 1
"""The id of the topmost folder. Folders name their parents by ids: their paths would grow with the square of the
depth."""
VERSION = "2"
"""Of such a file."""


class NotThere(ValueError):
    """What was asked for is in no point, or not in this one. The message is for people, with what there is instead."""


@dataclass(frozen=True)
class Listed:
    """A row of a folder. Of a folder, `files` and `size` are those of all that lies below it."""

    name: str
    entry: Entry
    files: int = 1


class Tree:
    """The entries of a point. `with opened(…) as tree`."""

    def __init__(self, file: Path) -> None:
        self._rows = sqlite3.connect(f"file:{quote(str(file))}?mode=ro&immutable=1", uri=True)
        facts = dict(self._rows.execute("SELECT name, value FROM header"))
        self.header = Header(**facts | {"complete": bool(facts["complete"])})  # SQLite has no truth of its own

    def close(self) -> None:
        self._rows.close()

    def folder(self, path: str = "", *, after: str = "", limit: int = 1000) -> list[Listed]:
        """What lies right in a folder, by name, from behind `after` on."""
        found = self._rows.execute(
            f"SELECT entries.name, {VALUES}, below.files, below.size FROM entries "
            "LEFT JOIN folders below ON below.parent = folder AND below.name = entries.name AND kind = 'folder' "
            "WHERE folder = ? AND entries.name > ? ORDER BY entries.name LIMIT ?",
            (self._id(path), after, limit),
        )
        rows = []
        for name, *values, files, size in found:
            entry = _entry(path, name, values)
            if entry.kind == "folder":
                entry = Entry(entry.path, "folder", size or 0, entry.modified, entry.mode)
            rows.append(Listed(name, entry, files or 0 if entry.kind == "folder" else 1))
        return rows

    def entry(self, path: str) -> Entry | None:
        """What has this path; None: nothing. The top is a folder of the empty path."""
        if path == "":
            return Entry("", "folder")
        parent, _, name = path.rpartition("/")
        found = self._rows.execute(
            f"SELECT {VALUES} FROM entries WHERE folder = ? AND name = ?", (self._id(parent), name)
        ).fetchone()
        return _entry(parent, name, found) if found else None

    def below(self, path: str) -> Iterator[Entry]:
        """The entry of a path, with all that lies below it: a folder before what is in it."""
        if path and (entry := self.entry(path)):
            yield entry
        waiting = [(path, self._id(path))]
        while waiting:
            folder, number = waiting.pop()
            for name, *values in self._rows.execute(
                f"SELECT name, {VALUES} FROM entries WHERE folder = ? ORDER BY name", (number,)
            ):
                yield _entry(folder, name, values)
            inner = self._rows.execute("SELECT name, id FROM folders WHERE parent = ? ORDER BY name DESC", (number,))
            waiting += [(f"{folder}/{name}" if folder else name, each) for name, each in inner]

    def total(self, path: str = "") -> tuple[int, int]:
        """Files and links at a path or below it, and their bytes."""
        found = self._rows.execute("SELECT files, size FROM folders WHERE id = ?", (self._id(path),)).fetchone()
        if found:
            return int(found[0]), int(found[1])
        entry = self.entry(path)
        return (1, entry.size) if entry and entry.kind != "folder" else (0, 0)

    def _id(self, path: str) -> int:
        """Of the folder of that path; 0: it holds nothing, or there is none."""
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

    Raises: NotThere; ManifestDamaged; OSError; and what the store does.
    """
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = _file_of(store.location, assignment, point, cache, store.known)
    if not file.exists():
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            manifest, made = Path(scratch) / f"{point}{layout.MANIFEST_ENDING}", Path(scratch) / "made"
            if not store.manifest(assignment, point, manifest):
                raise NotThere(f"there is no point {point} of {assignment} any more: retention may have removed it")
            _index(manifest, made, store)
            made.rename(file)
        _bound(cache, file)
    os.utime(file)
    tree = Tree(file)
    try:
        yield tree
    finally:
        tree.close()


def is_cached(location: Location, assignment: str, point: str, cache: Path, known: Known | None) -> bool:
    """Whether the next look at this point reads nothing of the repository."""
    return _file_of(location, assignment, point, cache, known).exists()


def versions_of(store: Store, assignment: str, points: Sequence[str], path: str, cache: Path) -> list[dict[str, Any]]:
    """Each version with those of `points`, the newest first, that hold it: `points`, `kind`, `size`, `modified`. A
    manifest of a million files takes a second."""
    found: list[dict[str, Any]] = []
    before: Entry | None = None
    for point in points:
        store.go_on()
        entry = _entry_at(store, assignment, point, path, cache)
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
    """What was read of a manifest is not shown for that of another one: of a foreign point, or one written again."""
    digests = "foreign" if known is None else " ".join(sorted(known.get(point, ())))
    key = f"{VERSION}\0{location.outside}\0{assignment}\0{point}\0{digests}"
    return cache / f"{hashlib.sha256(key.encode()).hexdigest()}.sqlite3"


def _entry(parent: str, name: str, values: list[object] | tuple[object, ...]) -> Entry:
    return Entry(f"{parent}/{name}" if parent else name, *values)


def _index(manifest: Path, file: Path, store: Store) -> None:
    """Write the entries of a manifest as a database, with folders that only their contents name. What lies in one
    folder, however deep, follows one another in a manifest: so only the folders above an entry are in memory."""
    rows = sqlite3.connect(file)
    with contextlib.closing(rows):
        rows.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;" + SCHEMA)
        rows.executemany("INSERT INTO header VALUES (?, ?)", asdict(manifests.read_header(manifest)).items())
        named: list[tuple[object, ...]] = []
        implied: list[tuple[object, ...]] = []
        ended: list[tuple[object, ...]] = []
        above = [_Folder(TOP, -1, "", "")]
        numbers = count(TOP + 1)

        def flush() -> None:
            rows.executemany(f"INSERT INTO entries VALUES ({', '.join('?' * 9)})", named)
            rows.executemany(
                "INSERT OR IGNORE INTO entries VALUES (?, ?, 'folder', 0, '', NULL, '', NULL, '')", implied
            )
            rows.executemany("INSERT INTO folders VALUES (?, ?, ?, ?, ?)", ended)
            for each in (named, implied, ended):
                each.clear()
            store.go_on()
            check_room(file.parent, file.stat().st_size)

        def end_folders(path: str) -> None:
            """Those of which nothing more comes before what has this path."""
            while above[1:] and not path.startswith(above[-1].path + "/"):
                last = above.pop()
                ended.append(last.row)
                above[-1].files, above[-1].size = above[-1].files + last.files, above[-1].size + last.size

        for entry in manifests.read(manifest):
            end_folders(entry.path)
            *folders, name = entry.path[len(above[-1].path) :].lstrip("/").split("/")
            for each in folders:
                upper = above[-1]
                implied.append((upper.number, each))
                above.append(_Folder(next(numbers), upper.number, each, f"{upper.path}/{each}".lstrip("/")))
            named.append((above[-1].number, name, *(getattr(entry, each) for each in COLUMNS)))
            if entry.kind != "folder":
                above[-1].files, above[-1].size = above[-1].files + 1, above[-1].size + entry.size
            if len(named) + len(implied) >= BATCH:
                flush()
        end_folders("/")
        ended.append(above[0].row)
        flush()
        rows.commit()


@dataclass
class _Folder:
    """One that entries lie in, with its files so far."""

    number: int
    parent: int
    name: str
    path: str
    files: int = 0
    size: int = 0

    @property
    def row(self) -> tuple[object, ...]:
        return self.number, self.parent, self.name, self.files, self.size


def _bound(cache: Path, kept: Path) -> None:
    files = sorted(cache.glob("*.sqlite3"), key=lambda each: each.stat().st_mtime, reverse=True)
    room = CACHE_BYTES
    for file in files:
        room -= file.stat().st_size
        if room < 0 and file != kept:
            file.unlink(missing_ok=True)
