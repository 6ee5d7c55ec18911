"""Entries sorted by path, any number of them in bounded memory: the rest is kept in files without names."""

import heapq
import marshal
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import chain, islice, pairwise
from operator import itemgetter
from typing import IO, Any, Generic, TypeVar

Item = TypeVar("Item", bound=tuple[object, ...])

MOST = 125_000
"""Items in memory, some 75 MB: those of a hundred thousand files and their folders."""
PIECE = 1_000
"""Items that are read at once."""
LENGTH = 8
"""The number of bytes before a piece that state its length."""


class SortedItems(Generic[Item]):
    """Plain tuples of types that `marshal` takes, sorted by their first field: `with SortedItems() as found`, then
    `add` them all, and iterate, any number of times. Raises: OSError if the disk of temporary files is full.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._items: list[Item] = []
        self._files: list[IO[bytes]] = []
        self._ends: list[tuple[Any, Any]] = []
        self._written = 0
        self._opened = ExitStack()

    @property
    def count(self) -> int:
        return self._written + len(self._items)

    def __enter__(self) -> "SortedItems[Item]":
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def add(self, item: Item) -> None:
        self._items.append(item)
        if len(self._items) >= self._most:
            self._items.sort(key=itemgetter(0))
            self._files.append(self._opened.enter_context(written(self._items)))
            self._ends.append((self._items[0][0], self._items[-1][0]))
            self._written += len(self._items)
            self._items = []

    def __iter__(self) -> Iterator[Item]:
        self._items.sort(key=itemgetter(0))
        if not self._files:
            return iter(self._items)
        parts = *map(read, self._files), self._items
        return chain.from_iterable(parts) if self._are_consecutive else heapq.merge(*parts, key=itemgetter(0))

    @property
    def _are_consecutive(self) -> bool:
        """True if each part begins after the one before it ends, as when items come sorted."""
        ends = [*self._ends, *([(self._items[0][0], self._items[-1][0])] if self._items else [])]
        return all(one[1] <= other[0] for one, other in pairwise(ends))


def written(items: Iterable[Item]) -> IO[bytes]:
    """A file without a name that holds these plain tuples, to be `read` as often as wanted, one reader at a time."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    try:
        waiting = iter(items)
        while piece := list(islice(waiting, PIECE)):
            packed = marshal.dumps(piece)
            file.write(len(packed).to_bytes(LENGTH) + packed)
    except BaseException:
        file.close()
        raise
    return file


def read(file: IO[bytes]) -> Iterator[Item]:
    """The tuples that `written` wrote. Only this program has ever written to the file, since it has no name."""
    file.seek(0)
    while length := file.read(LENGTH):
        # a piece at once: from a file, marshal reads each of its small values by a call
        yield from marshal.loads(file.read(int.from_bytes(length)))  # noqa: S302 - see above
