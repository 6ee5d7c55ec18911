"""Digests of the copies of files, read back while rclone brings the next ones.

rclone gives a file its name once it is whole, and nothing is written to it afterwards. So a file of the run's list that
has its name is read, and sent to the disk. Its digest counts if the file is still the same one when the point is made,
by its size, times and inode. Any other file is read then.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Thread
from time import monotonic

from external.processes.runner import POLL_SECONDS, StopSignal
from storage import layout
from storage.folders.beneath import READ
from storage.points.entries import Entry
from storage.points.files import digest_of, relative
from storage.points.sorted_items import SortedItems
from storage.points.store import StorageStopped

PAUSE_SECONDS = 0.2
"""The least seconds between two looks for files that have come."""
PAUSE_RATIO = 20
"""The ratio of a pause to the look before it, without the time for reading: a list may name files of very many folders,
and rclone may need hours for it.
"""
SIZE, LARGE = 2, 65_536
"""The place of the size among `Facts`, and the bytes of a file that is worth a separate write: the kernel would keep
gigabytes in memory until the end, and its disk would be idle in the meantime.
"""
Facts = tuple[int, int, int, int, int]
Folder = dict[bytes, str]
"""The files of a folder that are waited for: name on the disk → path."""


class EarlyDigests:
    """The digests of the files in the first folder of a run. `directory`: that of its assignment; None if the files are
    not on this host as they are, and none is read. `found` is filled.
    """

    def __init__(self, directory: Path | None, run: str, found: SortedItems[tuple[str, Facts, str]]) -> None:
        self._run, self._found = layout.folder_of(run), found
        self._top = os.fsencode(directory / layout.FILES / self._run) if directory else b""
        self._lists = SimpleQueue[str]()
        self._waiting: dict[bytes, Folder] = {}
        self._looked: dict[bytes, int] = {}
        self._ended = Event()
        self._reading = 0.0
        self._items: Iterator[tuple[str, Facts, str]] = iter(())
        self._next: tuple[str, Facts, str] | None = None

    @contextmanager
    def at_work(self, stop: StopSignal) -> Iterator[None]:
        """Read files in a thread as long as the block lasts. A stop does not wait for a disk that does not answer."""
        if not self._top:
            yield
            return
        thread = Thread(target=self._work, name="early-digests", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            while thread.is_alive() and not stop.is_set():
                thread.join(POLL_SECONDS)
        if not thread.is_alive():
            self._items = iter(self._found)
            self._next = next(self._items, None)

    def await_list(self, folder: str, file: str) -> None:
        """Wait for the files of a list that rclone brings into a folder of the run from now on."""
        if folder == self._run and self._top:
            self._lists.put(file)

    def of(self, entries: Iterable[Entry]) -> dict[str, str]:
        """Path → digest of the files among these that were read and have not changed since. The entries must come in
        the order of their paths.
        """
        digests = {}
        for each in entries:
            if each.folder != self._run or each.stored:
                continue
            while self._next is not None and self._next[0] < each.path:
                self._next = next(self._items, None)
            if self._next is not None and self._next[0] == each.path:
                _, facts, digest = self._next
                with suppress(OSError):
                    if _facts(os.path.join(self._top, relative(each.path))) == facts:
                        digests[each.path] = digest
        return digests

    def _work(self) -> None:
        while not self._ended.is_set():
            is_next = not self._lists.empty()  # the list before it is complete by now, as far as it will be
            began, self._reading = monotonic(), 0.0
            self._look()
            if is_next:
                # the rest is read when the point is made, since it would fill the memory
                self._waiting, self._looked = _by_folder(Path(self._lists.get()).read_bytes()), {}
            else:
                self._ended.wait(max(PAUSE_SECONDS, PAUSE_RATIO * (monotonic() - began - self._reading)))

    def _look(self) -> None:
        """Read the files that have come since the last look."""
        for folder in list(self._waiting):
            with suppress(OSError, StorageStopped):
                for path, file in self._come(folder):
                    began, facts = monotonic(), _facts(file)
                    self._found.add((path, facts, digest_of(file, self._check_not_ended)))
                    _begin_to_write(file, facts)
                    self._reading += monotonic() - began
            if not self._waiting[folder]:
                del self._waiting[folder]

    def _come(self, folder: bytes) -> Iterator[tuple[str, bytes]]:
        """The path of each file that has come into a folder since the last look, and its place on the disk. Raises:
        OSError, StorageStopped.
        """
        self._check_not_ended()
        at, names = os.path.join(self._top, folder), self._waiting[folder]
        changed = os.stat(at).st_mtime_ns
        if self._looked.get(folder) != changed:
            self._looked[folder] = changed
            for name in [each for each in os.listdir(at) if each in names]:
                self._check_not_ended()
                yield names.pop(name), os.path.join(at, name)

    def _check_not_ended(self) -> None:
        if self._ended.is_set():
            raise StorageStopped


def _begin_to_write(file: bytes, facts: Facts) -> None:
    """Have the kernel begin to write a file to its disk, and do not wait for that: the flush before the point does. A
    failed write is reported there, too. Small files are left to the flush, which writes many at once.
    """
    if facts[SIZE] >= LARGE and hasattr(os, "posix_fadvise"):
        with suppress(OSError), open(os.open(file, READ), "rb", buffering=0) as read:
            os.posix_fadvise(read.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _by_folder(listed: bytes) -> dict[bytes, Folder]:
    """The files of a list for rclone, by folder."""
    found: dict[bytes, Folder] = {}
    for path in listed.decode("utf-8", "surrogatepass").split("\0"):
        folder, _, name = relative(path).rpartition(b"/")
        if name:
            found.setdefault(folder, {})[name] = path
    return found


def _facts(file: bytes) -> Facts:
    """The facts that change with the content of a file. Raises: OSError."""
    found = os.stat(file, follow_symlinks=False)
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
