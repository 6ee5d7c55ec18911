"""The contents of a snapshot as a manifest: read out of `restic ls`. A million files take half a minute, and 370 MB in
this process.

restic compares the data that it reads back with the SHA-256 of each of its blobs, so a manifest made from it has no
digests of files. Names that are not UTF-8 have U+FFFD in place of each invalid byte, as restic lists them: if two names
are then the same, the manifest has the first one, or the folder among them, and says that it is incomplete. It does the
same for paths that are too deep for any manifest, and names the first of them. Control characters are as rclone shows
them (`files.path_in`). Pipes, devices and sockets are in the snapshot and in no manifest.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from external.processes.rows import number, row_of, text
from storage.places.location import RESTIC
from storage.points import manifests
from storage.points.bounds import LONGEST_PATH, TOO_DEEP, is_nameable, shortened
from storage.points.entries import is_sound
from storage.points.manifests import Entry, Header
from storage.restic.program import Restic, ResticFailed
from storage.restic.snapshots import Snapshot
from storage.restic.verdicts import ResticTrouble

KINDS = {"file": "file", "dir": "folder", "symlink": "link"}
CONTROL = re.compile("[\x01-\x1f\x7f]|[\u201b\u2400-\u241f\u2421]")
LINK = re.compile(r"L[rwxstST-]{9} +\d+ +\d+ +\d+ \S+ \S+ /(.*)", re.DOTALL)
ARROW = " -> "
LOCAL = "local"
"""The kind of a source that restic itself reads."""
WRITTEN = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.ASCII)
PERMISSIONS = 0o777
SET_BITS = ((1 << 23, 0o4000), (1 << 22, 0o2000), (1 << 20, 0o1000))
"""Go's bits of a mode → those of a file system."""


def write_manifest(restic: Restic, snapshot: Snapshot, file: Path) -> None:
    """Write the manifest of a snapshot. Raises: the errors of `Restic.run`; ResticFailed for an unsound listing."""
    found: dict[str, Entry] = {}
    is_whole, is_of_host = True, snapshot.tags.get("kind") == LOCAL

    def take(line: str) -> None:
        nonlocal is_whole
        if not line.startswith('{"name"'):
            return
        row = row_of(line)
        if row and not is_nameable(path := shown(text(row, "path").removeprefix("/"))):
            is_whole = False
            found.setdefault(short := shortened(path), Entry(short, why=TOO_DEEP))
        elif entry := _entry(row, snapshot.point, is_of_host=is_of_host):
            first = found.setdefault(entry.path, entry)
            is_whole &= first is entry or first.kind == entry.kind == "folder"
            if entry.kind == "folder":
                found[entry.path] = first if first.kind == "folder" else entry

    restic.run("ls", "--json", snapshot.id, on_line=take)
    if links := {path for path, entry in found.items() if entry.kind == "link"}:
        for path, target in _targets(restic, snapshot, links):
            if len(target) > LONGEST_PATH:  # no file system has such a target
                continue
            size = len(target.encode(errors="replace"))
            found[path] = found[path]._replace(size=size, target=target)
    header = header_of(snapshot)
    header = replace(header, complete=header.complete and is_whole)
    manifests.write(file, header, (found[path] for path in sorted(found)))


def header_of(snapshot: Snapshot) -> Header:
    tags, at = snapshot.tags, _utc(snapshot.time)
    return Header(
        source=tags.get("source", ""),
        source_kind=tags.get("kind", ""),
        policy=tags.get("policy", ""),
        engine=tags.get("engine", RESTIC),
        engine_version="",
        started_at=at,
        ended_at=at,
        complete=not snapshot.marks,
    )


def shown(path: str) -> str:
    """A path of restic in the form of manifests."""
    return path if path.isascii() and path.isprintable() else CONTROL.sub(_shown, path)


def _shown(found: re.Match[str]) -> str:
    character = found[0]
    if character >= "\u201b":
        return f"\u201b{character}"
    return "\u2421" if character == "\x7f" else chr(ord(character) + 0x2400)


def _entry(row: dict[str, Any] | None, point: str, *, is_of_host: bool) -> Entry | None:
    """The entry of a row. None for a kind that no manifest has, such as a pipe. Raises: ResticFailed for a row that
    restic would not list.
    """
    if row and (sort := text(row, "type")):
        if sort not in KINDS:
            return None
        kind, mode = KINDS[sort], number(row, "mode")
        bits = (mode & PERMISSIONS) | sum(bit for go, bit in SET_BITS if mode & go)
        size = number(row, "size") if kind == "file" else 0
        entry = Entry(shown(text(row, "path").removeprefix("/")), kind, size, _utc(text(row, "mtime")), bits)
        if kind == "file":
            entry = entry._replace(folder=point)
        if is_of_host:
            entry = entry._replace(uid=row.get("uid"), gid=row.get("gid"))
        if is_sound(entry):
            return entry
    raise ResticFailed(ResticTrouble.OTHER, f"its list of a snapshot has a line that is not an entry: {row!r:.200}")


def _targets(restic: Restic, snapshot: Snapshot, links: set[str]) -> Iterator[tuple[str, str]]:
    """The targets of links, which only the long listing shows: for links whose names and targets hold no line break."""
    lines: list[str] = []
    restic.run("ls", "--long", snapshot.id, on_line=lambda line: lines.append(line) if line[:1] == "L" else None)
    for line in lines:
        if found := LINK.fullmatch(line):
            parts = found[1].split(ARROW)
            for number in range(1, len(parts)):
                if (path := shown(ARROW.join(parts[:number]))) in links:
                    yield path, ARROW.join(parts[number:])
                    break


def _utc(written: str) -> str:
    """A time with its nanoseconds, in UTC, in the form of manifests. Empty if it is not a time."""
    if not (found := WRITTEN.fullmatch(written)):
        return ""
    whole, fraction, zone = found.groups()
    if zone == "Z":
        return written
    try:
        return f"{datetime.fromisoformat(whole + zone).astimezone(UTC):%Y-%m-%dT%H:%M:%S}{fraction or ''}Z"
    except (ValueError, OverflowError):
        return ""
