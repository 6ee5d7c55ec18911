"""The staging folder of a restore: in its target, closed to all other accounts (`beneath`), and locked, so that another
restore into the same target at the same time has its own.
"""

import errno
import fcntl
import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from storage.folders import owners
from storage.folders.beneath import LIST, PASS, Beneath, empty, listed
from storage.folders.own_folders import OwnFolders

FILES, MAKING = b"files", b"making"
STAGING = re.compile(r"\.restore-.*\.[0-9a-f]{16}\.unfinished")


def title_of(assignment: str, point: str) -> str:
    """The beginning of the name of a staging folder. Two assignments may have points of the same second, with other
    files in the same places.
    """
    return f".restore-{point}.{hashlib.sha256(assignment.encode()).hexdigest()[:8]}"


class NotPlaced(PermissionError):
    """This account may not change the folder in which a file, link or folder has its place."""


class StagingFolder:
    """The staging folder of a restore in its target. `files`: the folder in it that a program may write to. `title`:
    the beginning of its name, which the next restore of the same files finds again if this one is interrupted.
    """

    def __init__(self, target: Beneath, title: str) -> None:
        self.target, self._lock = target, -1
        self.name = self._left_by_an_earlier(title) or self._made(title)
        self._folder = Beneath(os.open(self.name, PASS, dir_fd=target.descriptor), target.path / self.name)
        if not self._is_ours(self._folder.descriptor):
            raise PermissionError(1, "another process has changed the target", str(self._folder.path))
        with suppress(FileExistsError):
            os.mkdir(FILES, 0o700, dir_fd=self._folder.descriptor)
        self.files = OwnFolders(os.open(FILES, PASS, dir_fd=self._folder.descriptor), self._folder.path / "files")
        self.inherited = (self._folder.descriptor,)

    @property
    def outside(self) -> str:
        """`files`, for a program that inherits `inherited`."""
        return f"{self._folder.outside}/{os.fsdecode(FILES)}"

    def put(self, staged: bytes, home: bytes) -> None:
        """Move a file from `files` to its place in the target, over any existing file."""
        name, above = self.files.at(staged)
        to, folder = self.target.at(home)
        _rename(name, above, to, folder)

    def give(self, descriptor: int, home: bytes) -> None:
        """Give an open file to the owner that it should have at its place, where its file system knows owners."""
        if owner := self.target.owner(home.rpartition(b"/")[0]):
            owners.give(descriptor, owner)

    def link(self, staged: bytes, home: bytes) -> None:
        """Put a file in `files` at its place in the target as well, over any existing one: a hard link."""
        name, above = self.files.at(staged)
        self._clear()
        os.link(name, MAKING, src_dir_fd=above, dst_dir_fd=self._folder.descriptor, follow_symlinks=False)
        self._place(home)

    @contextmanager
    def copied(self, staged: bytes, home: bytes) -> Iterator[int]:
        """Open a copy of a file in `files`, which gets to its place in the target at the end."""
        self._clear()
        here = self._folder.descriptor
        with self.files.read(staged) as found, open(found, "rb", closefd=False) as content:
            descriptor = os.open(MAKING, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=here)
            with open(descriptor, "wb") as made:
                shutil.copyfileobj(content, made)
                made.flush()
                yield descriptor
        self._place(home)

    def make_folder(self, home: bytes, mode: int, owner: tuple[int, int] | None = None) -> None:
        """Make a folder in the target, where none exists. `owner`: its owner; if None, the parent folder's owner."""
        self._clear()
        os.mkdir(MAKING, mode, dir_fd=self._folder.descriptor)
        self._give_making(home, owner)
        self._place(home)

    def make_link(
        self,
        home: bytes,
        leads_to: bytes,
        time: int | None,
        owner: tuple[int, int] | None = None,
        finish: Callable[[str], object] = lambda made: None,
    ) -> None:
        """Make a link in the target, over any existing file. `time`: in nanoseconds since 1970; `owner`: as for a
        folder; `finish` gets the path of the link before the link is in its place.
        """
        self._clear()
        here = self._folder.descriptor
        os.symlink(leads_to, MAKING, dir_fd=here)
        self._give_making(home, owner)
        finish(f"{self._folder.outside}/{os.fsdecode(MAKING)}")
        if time is not None:
            with suppress(OSError, OverflowError, NotImplementedError):
                os.utime(MAKING, ns=(time, time), dir_fd=here, follow_symlinks=False)
        self._place(home)

    def close(self, *, remove: bool) -> None:
        """`remove`: with all its contents; otherwise the next restore of this point continues with them."""
        if remove:
            empty(self._folder.descriptor)
        self.files.close()
        self._folder.close()
        if remove:
            with suppress(OSError):  # another process has renamed it in the meantime
                os.rmdir(self.name, dir_fd=self.target.descriptor)
        if self._lock >= 0:
            os.close(self._lock)

    def _give_making(self, home: bytes, owner: tuple[int, int] | None) -> None:
        if owner := owner or self.target.owner(home.rpartition(b"/")[0]):
            owners.give(MAKING, owner, dir_fd=self._folder.descriptor, follow_symlinks=False)

    def _place(self, home: bytes) -> None:
        to, folder = self.target.at(home)
        try:
            _rename(MAKING, self._folder.descriptor, to, folder)
        except OSError as error:
            with suppress(OSError):
                self._clear()
            if error.errno == errno.ENOTEMPTY:
                raise FileExistsError(errno.EEXIST, error.strerror, os.fsdecode(to)) from None
            raise

    def _clear(self) -> None:
        """Remove the file, link or folder that a killed restore was making."""
        with suppress(FileNotFoundError):
            try:
                os.unlink(MAKING, dir_fd=self._folder.descriptor)
            except (IsADirectoryError, PermissionError):
                os.rmdir(MAKING, dir_fd=self._folder.descriptor)

    def _made(self, title: str) -> str:
        while True:
            name = f"{title}{secrets.token_hex(4)}.unfinished"
            os.mkdir(name, 0o700, dir_fd=self.target.descriptor)
            if self._is_locked_now(name):  # else another restore has just taken it for one that was left
                return name

    def _left_by_an_earlier(self, title: str) -> str:
        for name in self.target.names():
            if name.startswith(title) and STAGING.fullmatch(name):
                with suppress(OSError):
                    descriptor = os.open(name, PASS, dir_fd=self.target.descriptor)
                    try:
                        if self._is_ours(descriptor) and self._is_locked_now(name):
                            return name
                    finally:
                        os.close(descriptor)
        return ""

    def _is_locked_now(self, name: str) -> bool:
        """Lock a folder until this one is closed. Returns False if another process works in it."""
        lock = os.open(name, LIST, dir_fd=self.target.descriptor)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return False
        except OSError:  # a file system without locks
            os.close(lock)
            return True
        self._lock = lock
        return True

    def _is_ours(self, descriptor: int) -> bool:
        """True if it is closed to all other accounts, as far as its file system can do that, and holds nothing but the
        contents that a restore puts there: root may own other folders in a folder of another account, and that account
        could give them this name.
        """
        with listed(descriptor) as opened:
            if not {*os.listdir(opened)} <= {os.fsdecode(FILES), os.fsdecode(MAKING)}:
                return False
        return owners.is_closed(os.fstat(descriptor)) or owners.are_not_kept(descriptor, MAKING)


def _rename(name: bytes, above: int, to: bytes, folder: int) -> None:
    try:
        os.rename(name, to, src_dir_fd=above, dst_dir_fd=folder)
    except PermissionError as error:
        raise NotPlaced(error.errno, error.strerror, os.fsdecode(to)) from None
