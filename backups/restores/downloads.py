"""Files of a backup as a stream: one file, or a tar archive of several, with modes, times and links.

They are restored in batches into scratch space, and each is removed when it is sent. So the room that a download takes
on this host's disk is bounded by the largest file.
"""

import os
import tarfile
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from threading import BoundedSemaphore, Event
from typing import IO

from django.conf import settings

from backups.restores import process
from sources.models import Repository
from storage.folders.beneath import NOT_A_NAME
from storage.folders.scratch import scratch_in
from storage.points.batches import batches
from storage.points.exception_texts import exceptions_of
from storage.points.files import PERMISSIONS, nanoseconds, path_in, raw
from storage.points.manifests import Entry
from storage.points.store import StorageFailed
from storage.points.trees import Tree
from storage.restoring.base import Report, Wish

LARGEST = 20 * 2**30
"""The most bytes of a download; more is restored into a folder."""
BATCH_FILES, BATCH_BYTES = 500, 256 * 2**20
CHUNK = 2**20
BLOCK = tarfile.BLOCKSIZE
NOT_RESTORED = "NOT-RESTORED.txt"


AT_ONCE = 4
"""Downloads of a process of the website: each occupies one of its threads, and scratch space."""
FULL = f"{AT_ONCE} downloads are under way here already: look again in a few minutes, or restore into a folder"
_places = BoundedSemaphore(AT_ONCE)


class TooManyDownloads(Exception):
    """No further download begins now. The message names what to do."""


class Download:
    """A stream that has one of the places for downloads until it is closed. Raises: TooManyDownloads."""

    def __init__(self, chunks: Generator[bytes]) -> None:
        if not _places.acquire(blocking=False):
            raise TooManyDownloads(FULL)
        self._chunks, self._has_place = chunks, True

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        return next(self._chunks)

    def close(self) -> None:
        if self._has_place:
            self._has_place = False
            _places.release()
            self._chunks.close()


def file(repository: Repository, assignment: str, point: str, entry: Entry) -> Generator[bytes]:
    """The bytes of one file. Raises, before the first: RestoreRefused, StorageFailed."""
    with _scratch() as scratch:
        report = _fetch(repository, Wish(assignment, point, scratch / "files", (entry.path,)))
        if report.failed:
            raise StorageFailed(process.added(report.failed[0], report.elsewhere))
        with _opened(path_in(Path(report.target), entry.path)) as content:
            yield from _chunks(content)


def archive(repository: Repository, assignment: str, point: str, tree: Tree, path: str) -> Generator[bytes]:
    """A tar of a folder, with paths below it. One of its files names the paths that could not be restored, those that
    the point lacks, and those that it has as of an earlier point.
    """
    failed, way_out = list[str](), ""
    kept = (each for each in tree.below(path) if each.is_kept)
    lacking, above = exceptions_of(tree.exceptions(), [path]), len(path.rpartition("/")[0]) + 1 if "/" in path else 0
    for batch in batches(kept, BATCH_FILES, BATCH_BYTES, lambda each: each.size):
        with _scratch() as scratch:
            files = tuple(each.path for each in batch if each.kind == "file")
            into = scratch / "files"
            if files:
                report = _fetch(repository, Wish(assignment, point, into, files))
                failed += report.failed
                way_out = way_out or report.elsewhere
            for entry in batch:
                name, content = raw(entry.path[above:]), path_in(into, entry.path)
                if entry.kind != "file":
                    yield _header(entry, name, 0)
                    continue
                with suppress(FileNotFoundError), _opened(content) as opened:
                    yield _header(entry, name, entry.size)
                    yield from _chunks(opened)
                    yield b"\0" * (-entry.size % BLOCK)
    failed += [f"not in this point: {each}" for each in lacking.missing] + lacking.old
    if failed:
        text = "".join(f"{each}\n" for each in (*failed, way_out) if each).encode(errors="replace")
        yield _header(Entry(NOT_RESTORED, size=len(text)), NOT_RESTORED, len(text))
        yield text + b"\0" * (-len(text) % BLOCK)
    yield b"\0" * 2 * BLOCK


def _header(entry: Entry, name: str, size: int) -> bytes:
    kinds = {"folder": tarfile.DIRTYPE, "link": tarfile.SYMTYPE, "file": tarfile.REGTYPE}
    usual = 0o755 if entry.kind == "folder" else 0o644
    info = tarfile.TarInfo(name)
    info.type, info.size, info.linkname = kinds[entry.kind], size, entry.target
    info.mode = usual if entry.mode is None else entry.mode & PERMISSIONS
    info.mtime = 0
    with suppress(ValueError, OverflowError):
        info.mtime = nanoseconds(entry.modified) / 10**9
    return info.tobuf(tarfile.PAX_FORMAT, errors="surrogateescape")


@contextmanager
def _opened(path: bytes) -> Iterator[IO[bytes]]:
    """A restored file, opened. Raises: OSError for a link, which would lead to a file on this host."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise FileNotFoundError(*error.args) if error.errno in NOT_A_NAME else error from None
    with open(descriptor, "rb", buffering=0) as content:
        yield content


def _chunks(content: IO[bytes]) -> Iterator[bytes]:
    while chunk := content.read(CHUNK):
        yield chunk


def _fetch(repository: Repository, wish: Wish) -> Report:
    return process.restore(repository, wish, Event(), do="fetch")


def _scratch() -> AbstractContextManager[Path]:
    return scratch_in(Path(settings.VAR_DIR))
