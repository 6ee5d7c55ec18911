"""The point before a run: fetched once, and begun to be read, while rclone is at work; and what it tells that a sync
does not see.

A remote may take a file that is written where a folder is for an order to delete the folder (WebDAV does, with all
that it holds), and one without times of files shows no change of a file whose size stays. So what is in the way goes
first, and the manifest of the last point says what has changed.
"""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import TypeVar

from storage.places.servers import DAMAGED_OR_FOREIGN
from storage.points import manifests
from storage.points.manifests import Entry, ManifestDamaged
from storage.points.store import StorageFailed, Store

AHEAD = 20_000
"""Entries. All of a million would need as much memory again as the new ones."""

Found = TypeVar("Found")
Begun = tuple[list[Entry], Iterator[Entry]]


@contextmanager
def earlier(store: Store, folder: str, point: str | None) -> Iterator["Earlier"]:
    """The entries of a point, for as long as the block lasts; without a point, none."""
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(1) as thread:
        yield Earlier(store, folder, point, Path(scratch) / "manifest", thread)


class Earlier:
    def __init__(self, store: Store, folder: str, point: str | None, file: Path, thread: ThreadPoolExecutor) -> None:
        self._file = file
        self._is_there = thread.submit(lambda: point is not None and store.manifest(folder, point, file))
        self._ahead: Future[Begun] | None = thread.submit(self._begin)

    def use(self, use: Callable[[Iterator[Entry]], Found]) -> tuple[Found, list[str]]:
        """What `use` makes of all entries, of none where the manifest is damaged; and warnings. Raises what stores
        do."""
        ahead, self._ahead = self._ahead, None
        try:
            first, others = ahead.result() if ahead else self._begin()
            return use(chain(first, others)), []
        except (ManifestDamaged, StorageFailed) as error:
            if isinstance(error, StorageFailed) and DAMAGED_OR_FOREIGN not in str(error):
                raise
            problem = f"{error}: its point cannot be restored whole, and all files are read again for their digests"
            return use(iter(())), [problem]

    def _begin(self) -> Begun:
        entries = manifests.read(self._file) if self._is_there.result() else iter(())
        return list(islice(entries, AHEAD)), entries


def in_the_way(times: Mapping[str, str], sizes: Mapping[str, int], copy: Iterable[str]) -> list[str]:
    """Those files of the copy that lie where the source has a folder, or below what is a file there. `times` of all
    that the source has, by path, and `sizes` of its files."""
    return [
        path for path in copy if (path in times and path not in sizes) or any(each in sizes for each in _above(path))
    ]


def changed(
    times: Mapping[str, str], sizes: Mapping[str, int], copy: Iterable[str], point: Iterable[Entry]
) -> list[str]:
    """Those files of the copy that the source has otherwise than the last point says, or that it does not name."""
    paths = ((each, each.stored_path) for each in point)
    same = {path for each, path in paths if (each.size, each.modified) == (sizes.get(path), times.get(path))}
    return [path for path in copy if path in sizes and path not in same]


def _above(path: str) -> Iterable[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path
