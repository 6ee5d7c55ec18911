"""Work below a folder on this host whose owner may change it at any time: no link is followed, and nothing is reached
by a path that was looked at before.

A folder is opened once, part by part, and no part of its path may be a link. Everything below it is reached from there
in the same way. So a user who puts a link in place of the folder, of one below it or of a file redirects nothing: work
continues in the folder that was opened, or fails.

New files, links and folders are made in a *staging* folder: in the target, under an unpredictable name, and closed to
all other accounts. Only its owner can enter it, and no one can move it elsewhere; rclone, which follows links, writes
only there. From there a file, link or folder is moved to its place by a rename between two open folders, which replaces
one name and follows nothing. Where the worker is root, each belongs by then to its former owner or, where that owner is
not known, to the owner of the folder that it is moved into: root leaves nothing owned by root in other accounts'
folders, and opens none of their files to itself.
"""

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

PASS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Does not block: opening a pipe would otherwise wait for a writer."""
BY_DESCRIPTOR = Path("/proc/self/fd")
NOT_A_NAME = (errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ)
"""Error numbers for a name that a file system does not accept: a bucket has names of a thousand bytes, and a Windows
disk allows no `:`.
"""


class LinkOnTheWay(ValueError):
    """A part of a path is a link. The message is for users."""


class Beneath:
    """An open folder and everything below it, by paths relative to it. `close` it.

    Methods raise OSError, and also NotADirectoryError where a link is in place of a folder.
    """

    def __init__(self, descriptor: int, path: Path) -> None:
        self.descriptor, self.path = descriptor, path
        self._way: list[tuple[bytes, int]] = []

    @classmethod
    def opened(cls, path: Path, *, make: bool = False) -> Self:
        """Open the folder at an absolute path. `make`: create its missing parts. Raises: LinkOnTheWay; OSError."""
        found, at = cls(os.open("/", PASS), path), Path("/")
        try:
            for part in path.parts[1:]:
                at /= part
                below = found._into(os.fsencode(part), make=make)
                os.close(found.descriptor)
                found.descriptor = below
        except NotADirectoryError:
            found.close()
            what = "is a link, which no restore follows" if at.is_symlink() else "is not a directory"
            raise LinkOnTheWay(f"{at} {what}") from None
        except BaseException:
            found.close()
            raise
        return found

    def close(self) -> None:
        self._back_to(0)
        os.close(self.descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def outside(self) -> str:
        """The folder's path for another program, which inherits the descriptor. If the system has such paths, it
        leads here even if the name changes in the meantime.
        """
        return f"{BY_DESCRIPTOR}/{self.descriptor}" if BY_DESCRIPTOR.exists() else str(self.path)

    def folder(self, path: bytes) -> int:
        """The descriptor of a folder below, or of this folder if `path` is empty. It is valid until the next call."""
        parts = path.split(b"/") if path else []
        same = next((n for n, (part, (known, _)) in enumerate(zip(parts, self._way)) if part != known), None)  # noqa: B905
        self._back_to(min(len(parts), len(self._way)) if same is None else same)
        for part in parts[len(self._way) :]:
            self._way.append((part, _passed(part, self._here())))
            self._on_entering(b"/".join(each for each, _ in self._way), self._here())
        return self._here()

    @property
    def reached(self) -> Path:
        """The folder that `folder` returned last, or the one that it could not get out of if it has failed."""
        return self.path.joinpath(*(os.fsdecode(part) for part, _ in self._way))

    def at(self, path: bytes) -> tuple[bytes, int]:
        """The last part of a path below, and the descriptor of the folder that holds it."""
        above, _, name = path.rpartition(b"/")
        return name, self.folder(above)

    def stat(self, path: bytes) -> os.stat_result:
        name, above = self.at(path)
        return os.stat(name, dir_fd=above, follow_symlinks=False)

    def exists(self, path: bytes) -> bool:
        """True if anything has that name: a link counts. False if a parent is not a folder."""
        with suppress(FileNotFoundError, NotADirectoryError):
            return bool(self.stat(path))
        return False

    def is_folder(self, path: bytes) -> bool:
        with suppress(FileNotFoundError, NotADirectoryError):
            return stat.S_ISDIR(self.stat(path).st_mode)
        return False

    def unlink(self, path: bytes) -> None:
        name, above = self.at(path)
        os.unlink(name, dir_fd=above)

    @contextmanager
    def read(self, path: bytes, flags: int = READ) -> Iterator[int]:
        """A file below, or with the flags LIST a folder, by its descriptor."""
        name, above = self.at(path)
        descriptor = self.open(name, above, flags)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def open(self, name: bytes, above: int, flags: int = READ) -> int:
        """Open a file, or with the flags LIST a folder, in the open folder `above`. Returns its descriptor."""
        return os.open(name, flags, dir_fd=above)

    def names(self) -> list[str]:
        with listed(self.descriptor) as descriptor:
            return os.listdir(descriptor)

    def owner(self, path: bytes) -> tuple[int, int] | None:
        """The owner (uid, gid) of everything that is put into a folder; None if this process's account remains the
        owner.
        """
        if os.geteuid() != 0:
            return None
        found = os.fstat(self.folder(path))
        return (found.st_uid, found.st_gid) if found.st_uid else None

    def _into(self, name: bytes, *, make: bool) -> int:
        here = self._here()
        with suppress(FileNotFoundError):
            return _passed(name, here)
        if not make:
            raise FileNotFoundError(2, "there is no such folder", os.fsdecode(name))
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=here)
        descriptor = _passed(name, here)
        with suppress(OSError):
            owner = os.fstat(here)
            if os.geteuid() == 0 and owner.st_uid and os.fstat(descriptor).st_uid == 0:
                with listed(descriptor) as opened:
                    if not os.listdir(opened):  # so no file of another account is given away
                        os.fchown(opened, owner.st_uid, owner.st_gid)
        return descriptor

    def _on_entering(self, path: bytes, descriptor: int) -> None:
        """Called for each folder below when it was opened to be passed through."""

    def _here(self) -> int:
        return self._way[-1][1] if self._way else self.descriptor

    def _back_to(self, depth: int) -> None:
        while len(self._way) > depth:
            os.close(self._way.pop()[1])


def _passed(name: bytes, above: int) -> int:
    """Raises: NotADirectoryError for a link, which some systems have another error for."""
    try:
        return os.open(name, PASS, dir_fd=above)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK):
            raise NotADirectoryError(errno.ENOTDIR, "is a link", os.fsdecode(name)) from None
        raise


@contextmanager
def listed(descriptor: int) -> Iterator[int]:
    """The same folder, to be listed."""
    opened = os.open(".", LIST, dir_fd=descriptor)
    try:
        yield opened
    finally:
        os.close(opened)


@contextmanager
def passing_over_names() -> Iterator[None]:
    """Pass over a name that the file system does not accept."""
    try:
        yield
    except OSError as error:
        if error.errno not in NOT_A_NAME:
            raise


def empty(descriptor: int) -> None:
    """Remove the contents of a folder, with all levels below it, also in folders that were made read-only. What cannot
    be removed stays. If there are thousands of levels, each folder is moved up here before it is emptied; otherwise
    none is, since on some mounts a move copies everything in the folder.
    """
    with listed(descriptor) as top:
        for name in _folders_alone(top):
            with suppress(RecursionError):
                shutil.rmtree(name, ignore_errors=True, dir_fd=top)
        folders = _folders_alone(top)
        while folders:
            name = folders.pop()
            with suppress(OSError):
                folder = os.open(name, LIST, dir_fd=top)
                try:
                    folders += _moved_up(folder, top)
                finally:
                    os.close(folder)
                os.rmdir(name, dir_fd=top)


def _moved_up(folder: int, top: int) -> list[str]:
    """Move the folders in a folder to `top`, and remove its files. Returns the new names of these folders."""
    moved = []
    for name in _folders_alone(folder):
        with suppress(OSError):
            os.rename(name, new := secrets.token_hex(16), src_dir_fd=folder, dst_dir_fd=top)
            moved.append(new)
    return moved


def _folders_alone(folder: int) -> list[str]:
    """Remove the files in a folder. Returns the names of the folders in it, which can be moved and listed by now."""
    with os.scandir(folder) as found:
        entries, folders = list(found), list[str]()
    for each in entries:
        with suppress(OSError):
            if each.is_dir(follow_symlinks=False):
                folders.append(each.name)
                open_to_owner(each.name, folder)
            else:
                os.unlink(each.name, dir_fd=folder)
    return folders


def open_to_owner(name: str, above: int) -> None:
    """Let the owner of a folder read and change it. Raises: OSError."""
    descriptor = os.open(name, PASS, dir_fd=above)
    try:
        os.chmod(BY_DESCRIPTOR / str(descriptor) if BY_DESCRIPTOR.exists() else descriptor, 0o700)
    finally:
        os.close(descriptor)
