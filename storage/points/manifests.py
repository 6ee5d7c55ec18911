"""The manifest of a point: its contents, file by file, and their origin.

A gzip file of JSON lines: the header; an entry for each file, link and folder, sorted by path, and for each one that
could not be read, with the reason; the trailer, whose digest shows that nothing is missing. Paths are as rclone shows
them (characters that a file system cannot hold, and line breaks, in rclone's special form). Times are ISO 8601 in UTC.
A million files take some 60 MB.
"""

import contextlib
import dataclasses
import gzip
import hashlib
import io
import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, TypeVar, cast

from storage.points.bounds import OutOfBounds, lines_of
from storage.points.entries import ENCODER, LARGEST, Entry, entry_of

__all__ = [
    "Entry",
    "Header",
    "ManifestDamaged",
    "Totals",
    "find",
    "read",
    "side_by_side",
    "write",
]

FORMAT = 2
NO_TEXTS = ("format", "complete", "users", "groups", "not_kept")
DECODER = json.JSONDecoder()
BEGINS = b'{"path":"'
BUFFERED, TOGETHER = 2**16, 500
"""Bytes of a buffer, and lines that are written at once: a call of gzip for a single line takes longer than the line's
compression."""


class ManifestDamaged(Exception):
    """A manifest that cannot be read whole. The message names the wrong file, and its fault."""


Line = tuple[str, bytes, str, int]
"""The path of an entry, its line of a manifest, its kind and size, for a path that has its file, link or folder
(`Entry.is_kept`). A plain tuple, since most of a run's entries are such lines, written and read several times.
"""
Pair = tuple[Entry | None, Entry | None]
Left = TypeVar("Left", bound=tuple[Any, ...])
Right = TypeVar("Right", bound=tuple[Any, ...])


@dataclass(frozen=True)
class Header:
    """The origin of a point. `started_at`, `ended_at`: ISO 8601. `complete`: True if nothing was left out; otherwise
    see its entries with a reason, and the warnings of its backup. `source_kind`: such as `sftp`; `engine_version`: as
    its program reports it.

    `base`: the point whose entries it took over, empty if none. `users`, `groups`: number → name, as on its host.
    `not_kept`: features of the source that no backup of its kind keeps, in sentences. `boot`: in a mark, the start of
    the host that writes it (`runs.py`).
    """

    source: str
    source_kind: str
    policy: str
    engine: str
    engine_version: str
    started_at: str
    ended_at: str
    complete: bool = True
    format: int = FORMAT
    base: str = ""
    users: dict[str, str] = field(default_factory=dict)
    groups: dict[str, str] = field(default_factory=dict)
    not_kept: list[str] = field(default_factory=list)
    boot: str = ""


@dataclass(frozen=True)
class Totals:
    """The totals of a manifest: files and links, their bytes, and folders. `exceptions`: entries with a reason;
    `missing`: those among them that the point does not have.
    """

    files: int = 0
    size: int = 0
    folders: int = 0
    exceptions: int = 0
    missing: int = 0


def write(file: Path, header: Header, entries: Iterable[Entry | Line]) -> Totals:
    """Write a manifest of entries that are sorted by path. Raises: OSError; ValueError for entries out of order."""
    digest = hashlib.sha256()
    count = _EntryCounts()
    before = ""
    with gzip.open(file, "wb", compresslevel=3) as packed:

        def put(lines: list[bytes]) -> None:
            joined = b"".join(lines)
            digest.update(joined)
            packed.write(joined)

        waiting = [_line(ENCODER.encode(_said(header)))]
        for entry in entries:
            if entry[0] <= before:
                raise ValueError(f"{entry[0]!r} comes after {before!r}")
            if isinstance(entry, Entry):
                before = entry.path
                waiting.append(_line(entry.line))
                count.add(entry)
            else:
                before, line, kind, size = entry
                waiting.append(line)
                count.add_kept(kind, size)
            if len(waiting) >= TOGETHER:
                put(waiting)
                waiting.clear()
        put(waiting)
        totals = count.totals
        packed.write(_line(ENCODER.encode(dataclasses.asdict(totals) | {"sha256": digest.hexdigest()})))
    return totals


def _said(header: Header) -> dict[str, Any]:
    """The header's fields, without `not_kept` if that is empty, since older readers refuse fields that they do not
    know."""
    fields = dataclasses.asdict(header)
    return fields if header.not_kept else {name: value for name, value in fields.items() if name != "not_kept"}


def _line(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass") + b"\n"


def read_header(file: Path) -> Header:
    """The header of a manifest. Raises: ManifestDamaged, OSError."""
    with _opened(file) as lines:
        return _header(next(lines, b""), file)


def read(file: Path) -> Iterator[Entry]:
    """The entries, sorted by path. Raises: ManifestDamaged at the latest after the last one; OSError."""
    digest = hashlib.sha256()
    count = _EntryCounts()
    with _opened(file) as lines:
        line = next(lines, b"")
        _header(line, file)
        digest.update(line)
        before = ""
        for line in lines:
            row = _parsed(line, file)
            if "sha256" in row:
                expected = dataclasses.asdict(count.totals) | {"sha256": digest.hexdigest()}
                if row != expected or next(lines, b""):
                    raise ManifestDamaged(f"manifest {file.name} does not match its own digest")
                return
            digest.update(line)
            entry = _entry(row, file)
            if entry.path <= before:
                raise ManifestDamaged(f"manifest {file.name} names {entry.path!r:.200} after {before!r:.200}")
            before = entry.path
            count.add(entry)
            if count.size >= LARGEST:
                raise ManifestDamaged(f"manifest {file.name} names more bytes than any disk holds")
            yield entry
    raise ManifestDamaged(f"manifest {file.name} ends too early")


def lines(file: Path) -> Iterator[tuple[str, bytes]]:
    """The path and line of each entry, for a manifest that was read once, or is known to be the scheduler's: it takes a
    third of the time of `read`. `parsed` makes entries from lines. Raises: ManifestDamaged, OSError.
    """
    with _opened(file) as found:
        _header(next(found, b""), file)
        for line in found:
            end = line.find(b'","kind":')
            if not line.startswith(BEGINS) or b"\\" in line[:end]:
                row = _parsed(line, file)
                if "sha256" in row:
                    return
                yield str(row.get("path")), line
            else:
                yield line[len(BEGINS) : end].decode("utf-8", "surrogatepass"), line
    raise ManifestDamaged(f"manifest {file.name} ends too early")


def parsed(line: bytes, file: Path) -> Entry:
    """The entry of a line. Raises: ManifestDamaged."""
    return _entry(_parsed(line, file), file)


def find(file: Path, path: str) -> Entry | None:
    """One entry, without reading the entries after it; None if there is none. Raises: ManifestDamaged, OSError."""
    begins = f'{{"path":{ENCODER.encode(path)}'.encode("utf-8", "surrogatepass")
    with _opened(file) as lines:
        for line in lines:
            if line.startswith(begins) and line[len(begins) : len(begins) + 1] in (b",", b"}"):
                return _entry(_parsed(line, file), file)
    return None


def side_by_side(left: Iterable[Left], right: Iterable[Right]) -> Iterator[tuple[Left | None, Right | None]]:
    """Pairs from both by path, the first item of each, with None where one side lacks it. Both are sorted by path."""
    lefts, rights = iter(left), iter(right)
    one, other = next(lefts, None), next(rights, None)
    while one is not None or other is not None:
        if other is None or (one is not None and one[0] < other[0]):
            yield one, None
            one = next(lefts, None)
        elif one is None or other[0] < one[0]:
            yield None, other
            other = next(rights, None)
        else:
            yield one, other
            one, other = next(lefts, None), next(rights, None)


@contextlib.contextmanager
def _opened(file: Path) -> Iterator[Iterator[bytes]]:
    """The lines of a manifest. Errors of gzip are raised as ManifestDamaged."""
    with gzip.open(file, "rb") as packed, io.BufferedReader(packed, BUFFERED) as unpacked:
        try:
            yield lines_of(cast(IO[bytes], unpacked), file.stat().st_size)
        except (EOFError, zlib.error, gzip.BadGzipFile, OutOfBounds) as error:
            raise ManifestDamaged(f"manifest {file.name} is damaged: {error}") from None


def _parsed(line: bytes, file: Path) -> dict[str, Any]:
    try:
        row = DECODER.decode(line.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict):
        raise ManifestDamaged(f"manifest {file.name} holds a line that is not an entry: {line[:200]!r}")
    return row


def _entry(row: dict[str, Any], file: Path) -> Entry:
    if (entry := entry_of(row)) is None:
        raise ManifestDamaged(f"manifest {file.name} has a line that is not an entry: {row!r:.200}")
    return entry


class _EntryCounts:
    """Counts entries as they come: five numbers, by hand, since a manifest may have a million."""

    def __init__(self) -> None:
        self.files = self.size = self.folders = self.exceptions = self.missing = 0

    def add(self, entry: Entry) -> None:
        if entry.why:
            self.exceptions += 1
            if not entry.is_kept:
                self.missing += 1
                return
        self.add_kept(entry.kind, entry.size)

    def add_kept(self, kind: str, size: int) -> None:
        if kind == "folder":
            self.folders += 1
        else:
            self.files, self.size = self.files + 1, self.size + size

    @property
    def totals(self) -> Totals:
        return Totals(self.files, self.size, self.folders, self.exceptions, self.missing)


def _header(line: bytes, file: Path) -> Header:
    row = _parsed(line, file)
    if row.get("format") != FORMAT:
        raise ManifestDamaged(
            f"manifest {file.name} has format {row.get('format')!r}, and {FORMAT} is read here: use the version of "
            "the scheduler that wrote it, or a newer one"
        )
    try:
        header = Header(**row)
        texts = [value for name, value in row.items() if name not in NO_TEXTS]
        texts += [each for names in (header.users, header.groups) for pair in names.items() for each in pair]
        texts += header.not_kept
        if type(header.not_kept) is list and all(type(each) is str for each in texts):
            return header
        raise TypeError
    except (TypeError, AttributeError):
        raise ManifestDamaged(f"manifest {file.name} has no header that can be read") from None
