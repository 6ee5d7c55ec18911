"""Writes the entries of a manifest as an SQLite file, by folders, for `trees`."""

import contextlib
import json
import sqlite3
from dataclasses import asdict, dataclass
from itertools import count
from operator import attrgetter
from pathlib import Path
from typing import Any

from storage.points import manifests
from storage.points.manifests import Entry
from storage.points.moving import check_room
from storage.points.store import Store

VERSION = "4"
"""The version of such a file: no other version is read."""
BATCH = 20_000
COLUMNS = tuple(each for each in Entry._fields if each not in ("path", "changed", "inode", "told"))
INSERT = f"INTO entries (parent, name, {', '.join(COLUMNS)}) VALUES ({', '.join('?' * (len(COLUMNS) + 2))})"
_known = attrgetter(*COLUMNS)
MOST_ID = 2**32 - 1
"""The highest id of users and groups: no system has any above it."""

SCHEMA = """
CREATE TABLE header (name TEXT, value);
CREATE TABLE folders (
    id INTEGER PRIMARY KEY, parent INTEGER, name TEXT, files INTEGER, size INTEGER, UNIQUE (parent, name)
);
CREATE TABLE entries (
    parent INTEGER, name TEXT, kind TEXT, size INTEGER, modified TEXT, mode INTEGER, target TEXT, digest TEXT,
    digest_from TEXT, folder TEXT, stored TEXT, as_of TEXT, why TEXT, doubtful INTEGER, uid INTEGER, gid INTEGER,
    linked TEXT, attributes TEXT, PRIMARY KEY (parent, name)
) WITHOUT ROWID;
CREATE INDEX excepted ON entries (parent, name) WHERE why <> '';
CREATE INDEX hard_links ON entries (folder, stored) WHERE linked <> '';
"""
TOP = 1
"""The id of the topmost folder. Folders name their parents by ids: with paths instead, the size would grow with the
square of the depth.
"""


def index(manifest: Path, file: Path, store: Store) -> None:
    """Write the entries of a manifest as a database, including folders that only their contents name. All entries in
    one folder, however deep, follow one another in a manifest: so only the folders above an entry are in memory.
    """
    rows = sqlite3.connect(file)
    with contextlib.closing(rows):
        rows.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;" + SCHEMA)
        header = asdict(manifests.read_header(manifest))
        facts = [(name, json.dumps(each)) for name, each in header.items()]
        rows.executemany("INSERT INTO header VALUES (?, ?)", facts)
        named: list[tuple[object, ...]] = []
        implied: list[tuple[object, ...]] = []
        ended: list[tuple[object, ...]] = []
        implied_columns = _values(Entry("", "folder"))
        above = [_IndexedFolder(TOP, -1, "", "")]
        numbers = count(TOP + 1)

        def flush() -> None:
            try:
                rows.executemany(f"INSERT {INSERT}", named)
            except UnicodeEncodeError:  # of a link whose target is not UTF-8
                rows.executemany(f"INSERT OR REPLACE {INSERT}", (tuple(map(storable, each)) for each in named))
            rows.executemany(f"INSERT OR IGNORE {INSERT}", implied)
            rows.executemany("INSERT INTO folders VALUES (?, ?, ?, ?, ?)", ended)
            for each in (named, implied, ended):
                each.clear()
            store.check_stop()
            check_room(file.parent, file.stat().st_size)

        def end_folders(path: str) -> None:
            """End the folders that have no entries left, now that the entry with this path has come."""
            while above[1:] and not path.startswith(above[-1].path + "/"):
                last = above.pop()
                ended.append(last.row)
                above[-1].files, above[-1].size = above[-1].files + last.files, above[-1].size + last.size

        for entry in manifests.read(manifest):
            end_folders(entry.path)
            *folders, name = entry.path[len(above[-1].path) :].lstrip("/").split("/")
            for each in folders:
                upper = above[-1]
                implied.append((upper.number, each, *implied_columns))
                above.append(_IndexedFolder(next(numbers), upper.number, each, f"{upper.path}/{each}".lstrip("/")))
            named.append((above[-1].number, name, *_values(entry)))
            if entry.kind != "folder" and entry.is_kept:
                above[-1].files, above[-1].size = above[-1].files + 1, above[-1].size + entry.size
            if len(named) + len(implied) >= BATCH:
                flush()
        end_folders("/")
        ended.append(above[0].row)
        flush()
        rows.commit()


@dataclass
class _IndexedFolder:
    """A folder that holds entries, with its files so far."""

    number: int
    parent: int
    name: str
    path: str
    files: int = 0
    size: int = 0

    @property
    def row(self) -> tuple[object, ...]:
        return self.number, self.parent, self.name, self.files, self.size


def storable(value: Any) -> Any:
    """The value as SQLite takes it: a text that is not UTF-8 as its bytes."""
    if isinstance(value, str) and any("\ud800" <= each <= "\udfff" for each in value):
        return value.encode("utf-8", "surrogatepass")
    return value


def stored(value: Any) -> Any:
    """The inverse of `storable`."""
    return value.decode("utf-8", "surrogatepass") if isinstance(value, bytes) else value


def _values(entry: Entry) -> tuple[object, ...]:
    """The values of COLUMNS."""
    if entry.uid is not None or entry.gid is not None or entry.attributes:
        uid, gid = (None if each is None or not 0 <= each < MOST_ID else each for each in (entry.uid, entry.gid))
        facts = entry._asdict() | {"uid": uid, "gid": gid}
        facts["attributes"] = json.dumps(entry.attributes) if entry.attributes else None
        return tuple(facts[each] for each in COLUMNS)
    return _known(entry)
