"""The manifest of a point: what it holds, file by file, and where that came from.

A gzip file of JSON lines: the header; an entry for each file, link and folder, sorted by path; the trailer, whose
digest shows that nothing is missing. Paths are those that rclone shows (characters that a file system cannot hold, and
line breaks, in rclone's own form). Times are ISO 8601 in UTC. A million files take some 30 MB.
"""

import contextlib
import dataclasses
import gzip
import hashlib
import io
import json
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from storage.points.bounds import LONGEST_PATH, OutOfBounds, is_nameable, lines_of

FORMAT = 1
KINDS = frozenset({"file", "folder", "link"})
NO_TEXTS = ("format", "complete")
LARGEST, MODES = 2**63, 0o7777
LEADS_ELSEWHERE = re.compile(r"(?:^|/)\.{0,2}(?:/|$)|\0")
# characters as they are: `RECOVER.txt` reads paths out of it with sed
ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)
DECODER = json.JSONDecoder()
BUFFERED = 2**16
"""Bytes. gzip's own handling of a single line takes longer than to compress it."""


class ManifestDamaged(Exception):
    """A manifest cannot be read whole. The message says what is wrong with which file."""


class Entry(NamedTuple):
    """A file, link or folder. `kind`: file, link or folder; `size` in bytes; `modified`: ISO 8601, or empty; `mode`:
    permission bits, None where they are not known; `target`: of a link. A tuple is made in half of a dataclass's time.

    `digest`: SHA-256 in hex, or None; `digest_from`: *source* as the source's side told it, *copy* read back from the
    repository when it was made, *earlier* taken over from the manifest before, since the file had not changed, *check*
    read back later.
    """

    path: str
    kind: str = "file"
    size: int = 0
    modified: str = ""
    mode: int | None = None
    target: str = ""
    digest: str | None = None
    digest_from: str = ""

    def with_digest(self, digest: str, digest_from: str) -> "Entry":
        # a third of what `_replace` takes, for each file of a point
        return Entry(self.path, self.kind, self.size, self.modified, self.mode, self.target, digest, digest_from)

    @property
    def line(self) -> str:
        """JSON without what is not known, by hand: an encoder of dictionaries takes four times as long."""
        known = f'"path":{ENCODER.encode(self.path)},"kind":"{self.kind}","size":{self.size}'
        if self.modified:
            known += f',"modified":{ENCODER.encode(self.modified)}'
        if self.mode is not None:
            known += f',"mode":{self.mode}'
        if self.target:
            known += f',"target":{ENCODER.encode(self.target)}'
        if self.digest:
            known += f',"digest":{ENCODER.encode(self.digest)}'
        if self.digest_from:
            known += f',"digest_from":{ENCODER.encode(self.digest_from)}'
        return f"{{{known}}}"

    @property
    def stored_path(self) -> str:
        """Where it lies in `current` or `versions`: links as rclone writes them where there are none."""
        return f"{self.path}.rclonelink" if self.kind == "link" else self.path

    def is_same(self, other: "Entry") -> bool:
        """Whether both are known to be the same content: by digest, else by kind, size and time. A file without a time
        changed as its run copied it: two of them may be of one size, and differ."""
        if self.digest and other.digest:
            return self.digest == other.digest
        if self.kind == "file" and not self.modified:
            return False
        return (self.kind, self.size, self.modified, self.target) == (
            other.kind, other.size, other.modified, other.target,
        )  # fmt: skip


Pair = tuple[Entry | None, Entry | None]


@dataclass(frozen=True)
class Header:
    """Whose point it is. `started_at`, `ended_at`: ISO 8601. `complete`: nothing was left out; else see the warnings of
    its backup. `source_kind`: as `sftp`; `engine_version`: as its program says."""

    source: str
    source_kind: str
    policy: str
    engine: str
    engine_version: str
    started_at: str
    ended_at: str
    complete: bool = True
    format: int = FORMAT


@dataclass(frozen=True)
class Totals:
    """Of a manifest: files and links, their bytes, and folders."""

    files: int = 0
    size: int = 0
    folders: int = 0


@dataclass(frozen=True)
class Changes:
    """Files and links of a point beside the one before it, and the bytes of what is new or changed."""

    new: int = 0
    changed: int = 0
    unchanged: int = 0
    removed: int = 0
    added: int = 0


def write(file: Path, header: Header, entries: Iterable[Entry]) -> Totals:
    """Write a manifest of entries that are sorted by path. Raises: OSError; ValueError for entries out of order."""
    digest = hashlib.sha256()
    files = size = folders = 0
    before = None
    with gzip.open(file, "wb", compresslevel=3) as packed, io.BufferedWriter(packed, BUFFERED) as out:

        def put(text: str) -> None:
            line = text.encode("utf-8", "surrogatepass") + b"\n"
            digest.update(line)
            out.write(line)

        put(ENCODER.encode(dataclasses.asdict(header)))
        for entry in entries:
            if before is not None and entry.path <= before:
                raise ValueError(f"{entry.path!r} comes after {before!r}")
            before = entry.path
            put(entry.line)
            if entry.kind == "folder":
                folders += 1
            else:
                files, size = files + 1, size + entry.size
        totals = Totals(files, size, folders)
        put(ENCODER.encode(dataclasses.asdict(totals) | {"sha256": digest.hexdigest()}))
    return totals


def read_header(file: Path) -> Header:
    """Whose point a manifest is of. Raises: ManifestDamaged, OSError."""
    with _opened(file) as lines:
        return _header(next(lines, b""), file)


def read(file: Path) -> Iterator[Entry]:
    """The entries, sorted by path. Raises: ManifestDamaged at the latest after the last one; OSError."""
    digest = hashlib.sha256()
    files = size = folders = 0
    with _opened(file) as lines:
        line = next(lines, b"")
        _header(line, file)
        digest.update(line)
        before = ""
        for line in lines:
            row = _parsed(line, file)
            if "sha256" in row:
                expected = dataclasses.asdict(Totals(files, size, folders)) | {"sha256": digest.hexdigest()}
                if row != expected or next(lines, b""):
                    raise ManifestDamaged(f"manifest {file.name} does not match its own digest")
                return
            digest.update(line)
            entry = _entry(row, file)
            if entry.path <= before:
                raise ManifestDamaged(f"manifest {file.name} names {entry.path!r:.200} after {before!r:.200}")
            before = entry.path
            if entry.kind == "folder":
                folders += 1
            else:
                files, size = files + 1, size + entry.size
            yield entry
    raise ManifestDamaged(f"manifest {file.name} ends too early")


def find(file: Path, path: str) -> Entry | None:
    """One entry, without a look at what comes after it; None: there is none. Raises: ManifestDamaged, OSError."""
    begins = f'{{"path":{ENCODER.encode(path)}'.encode("utf-8", "surrogatepass")
    with _opened(file) as lines:
        for line in lines:
            if line.startswith(begins) and line[len(begins) : len(begins) + 1] in (b",", b"}"):
                return _entry(_parsed(line, file), file)
    return None


def compare(pairs: Iterable[Pair]) -> Changes:
    """What changed from one point to the next, of whose entries these are `side_by_side`."""
    new = changed = unchanged = removed = added = 0
    for pair in pairs:
        old, entry = (None if each is None or each.kind == "folder" else each for each in pair)
        if entry is None:
            removed += old is not None
        elif old is None:
            new, added = new + 1, added + entry.size
        elif old.is_same(entry):
            unchanged += 1
        else:
            changed, added = changed + 1, added + entry.size
    return Changes(new, changed, unchanged, removed, added)


def side_by_side(left: Iterable[Entry], right: Iterable[Entry]) -> Iterator[Pair]:
    """Entries of both by path, None where one of them has none. Both are sorted by path."""
    lefts, rights = iter(left), iter(right)
    one, other = next(lefts, None), next(rights, None)
    while one is not None or other is not None:
        if other is None or (one is not None and one.path < other.path):
            yield one, None
            one = next(lefts, None)
        elif one is None or other.path < one.path:
            yield None, other
            other = next(rights, None)
        else:
            yield one, other
            one, other = next(lefts, None), next(rights, None)


@contextlib.contextmanager
def _opened(file: Path) -> Iterator[Iterator[bytes]]:
    """The lines of a manifest. What gzip finds wrong is raised as ManifestDamaged."""
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
        raise ManifestDamaged(f"manifest {file.name} holds a line that is no entry: {line[:200]!r}")
    return row


def _entry(row: dict[str, Any], file: Path) -> Entry:
    """Of what each reader may trust: types, numbers that databases take, a path that stays in its folder."""
    try:
        entry = Entry(**row)
        is_right = is_sound(entry)
    except TypeError:
        is_right = False
    if not is_right:
        raise ManifestDamaged(f"manifest {file.name} holds an entry that is none: {row!r:.200}")
    return entry


def is_sound(entry: Entry) -> bool:
    """Whether readers take an entry; so nothing else may be written."""
    return (
        str is type(entry.path) is type(entry.modified) is type(entry.target) is type(entry.digest_from)
        and (entry.digest is None or type(entry.digest) is str)
        and entry.kind in KINDS
        and type(entry.size) is int
        and abs(entry.size) < LARGEST
        and (entry.mode is None or (type(entry.mode) is int and 0 <= entry.mode <= MODES))
        and is_nameable(entry.path)
        and len(entry.target) <= LONGEST_PATH
        and not LEADS_ELSEWHERE.search(entry.path)
    )


def _header(line: bytes, file: Path) -> Header:
    row = _parsed(line, file)
    if row.get("format") != FORMAT:
        raise ManifestDamaged(
            f"manifest {file.name} has format {row.get('format')!r}, and {FORMAT} is read here: use the version of "
            "the scheduler that wrote it, or a newer one"
        )
    try:
        header = Header(**row)
        if all(type(value) is str for name, value in row.items() if name not in NO_TEXTS):
            return header
        raise TypeError
    except TypeError:
        raise ManifestDamaged(f"manifest {file.name} has no header that can be read") from None
