"""The contents of a folder on this host, file by file, with all facts that its file system has about them."""

import errno
import os
import re
import stat
from base64 import b64encode
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from storage.folders.beneath import BY_DESCRIPTOR, LIST
from storage.folders.walking import Identity
from storage.points.entries import Entry, head_of
from storage.points.files import path_in, shown, written

MOST_ATTRIBUTES = 32 * 2**10
"""The most bytes of a file's extended attributes: no more fit in its line of the manifest."""
TOO_MANY = "extended attributes of more than 32 KiB are not kept"
REPLACED = "another folder was put in its place while its source was listed"
SPECIAL = (
    ("sockets", stat.S_ISSOCK),
    ("named pipes", stat.S_ISFIFO),
    ("devices", lambda mode: stat.S_ISBLK(mode) or stat.S_ISCHR(mode)),
)
UNSTABLE = ("fuse", "cifs", "smb", "9p", "vfat", "exfat", "msdos")
"""File systems that assign inodes arbitrarily, after each mount."""
OCTAL = re.compile(rb"\\([0-7]{3})")
"""A byte as the kernel writes it in the list of mounts: spaces, tabs, newlines and backslashes."""
OnText = Callable[[str, str], None]
Fields = tuple[Any, ...]
"""The fields of an entry that its source knows, in their order."""
Listed = tuple[str, str, Fields, tuple[int, int] | None]
"""A path, the head of its line (`entries.head_of`), the fields of which that is made, and for one of several hard links
an identifier that they share.
"""


class LocalFolder:
    """A folder on this host. `is_left_out`: decides by a path; `on_exception` gets the path of anything that cannot be
    read, and the reason; `on_note` the path of anything that is not kept whole; `on_special` the path of anything but a
    file, link or folder, with its kind; `check_stop` is called now and then. `empty`: gets the paths of empty folders.

    The entry of a folder has an inode if another file system is mounted there, or another folder (`mount --bind`).
    """

    def __init__(
        self,
        top: Path,
        is_left_out: Callable[[str], bool],
        on_exception: OnText,
        on_note: OnText,
        on_special: OnText,
        check_stop: Callable[[], None],
        empty: set[str],
    ) -> None:
        self._top, self._is_left_out, self._check_stop = top, is_left_out, check_stop
        self._on_exception, self._on_note, self._on_special = on_exception, on_note, on_special
        self._waiting, self._empty, self._device = list[tuple[str, str, Identity]](), empty, 0
        self._mounted: Collection[str] = ()
        self._has_descriptors = BY_DESCRIPTOR.is_dir()

    def __iter__(self) -> Iterator[Listed]:
        """All files, folders and links below it, in no order, without sockets, pipes and devices. Raises: OSError if it
        cannot be listed; and what `check_stop` raises.
        """
        facts, top = os.stat(self._top), os.path.join(os.path.realpath(self._top), "")
        self._waiting = [(os.fspath(self._top), "", (facts.st_dev, facts.st_ino))]
        self._mounted = {shown(at.removeprefix(top)) for at, _ in _mounts() if at.startswith(top)}
        while self._waiting:
            folder, called, seen = self._waiting.pop()
            self._device = seen[0]
            self._check_stop()
            each = None
            try:
                with self._opened(folder, seen) as here, os.scandir(here) as found:
                    for each in found:
                        if listed := self._seen(each, here, folder, called):
                            yield listed
            except OSError as error:
                if not called:
                    raise
                self._on_exception(called, _why(error))
            if each is None:
                self._empty.add(called)

    @contextmanager
    def _opened(self, folder: str, seen: Identity) -> Iterator[int]:
        """The descriptor of a folder, to be listed. Raises: OSError, also if another folder is behind its path than the
        one that was seen: a link that was put there, or above it, would bring files from anywhere on this host.
        """
        top = os.fspath(self._top)
        descriptor = os.open(folder, LIST & ~os.O_NOFOLLOW if folder == top else LIST)
        try:
            if (found := _identity(os.fstat(descriptor))) != seen:
                # mounted at its first use, or a file system without stable inodes
                real = os.path.join(os.path.realpath(top), os.path.relpath(folder, top))
                if folder != top and (os.path.realpath(folder) != real or _identity(os.lstat(folder)) != found):
                    raise OSError(errno.ESTALE, REPLACED, folder)
            yield descriptor
        finally:
            os.close(descriptor)

    def _seen(self, each: os.DirEntry[str], here: int, folder: str, called: str) -> Listed | None:
        """An entry of the folder that is open as `here`. Raises: OSError if the folder may be read, but not entered, or
        is gone.
        """
        name = each.name
        if not (name.isascii() and name.isprintable()):
            name = shown(name)
        path = f"{called}/{name}" if called else name
        if self._is_left_out(path):
            return None
        try:
            facts = each.stat(follow_symlinks=False)
            fields = self._fields(each.name, here, folder, path, facts)
        except OSError as error:
            if isinstance(error, (PermissionError, FileNotFoundError)):
                os.lstat(f"{folder}/.")  # raises if the folder is closed or gone: it is the exception then
            self._on_exception(path, _why(error))
            return None
        if fields is None:
            self._on_special(path, next((kind for kind, is_one in SPECIAL if is_one(facts.st_mode)), "special files"))
            return None
        if fields[1] == "folder":
            self._waiting.append((os.path.join(folder, each.name), path, _identity(facts)))
        is_linked = facts.st_nlink > 1 and fields[1] == "file"
        return path, head_of(*fields), fields, (facts.st_dev, facts.st_ino) if is_linked else None

    def _fields(self, name: str, here: int, folder: str, path: str, facts: os.stat_result) -> Fields | None:
        mode, target, size = facts.st_mode, "", 0
        changed = inode = None
        if stat.S_ISREG(mode):
            kind, size, changed, inode = "file", facts.st_size, facts.st_ctime_ns, facts.st_ino
        elif stat.S_ISDIR(mode):
            is_mounted = facts.st_dev != self._device or path in self._mounted
            kind, inode = "folder", facts.st_ino if is_mounted else None
        elif stat.S_ISLNK(mode):
            kind, target = "link", os.readlink(name, dir_fd=here)
            size = len(os.fsencode(target))
        else:
            return None
        return (
            path, kind, size, written(facts.st_mtime_ns), mode & 0o7777, target,
            facts.st_uid, facts.st_gid, changed, inode, self._attributes(name, here, folder, path),
        )  # fmt: skip

    def _attributes(self, name: str, here: int, folder: str, path: str) -> dict[str, str] | None:
        """The extended attributes, which include ACLs and capabilities. None if there are none, or the file system has
        no such thing. Their values come from the open folder: another one may be in its place by now. Their names do
        not, since that takes twice as long, and few files have any.
        """
        try:
            names = os.listxattr(f"{folder}/{name}", follow_symlinks=False)
        except OSError:
            return None
        if not names:
            return None
        found, file = (
            dict[str, str](),
            f"{BY_DESCRIPTOR}/{here}/{name}" if self._has_descriptors else f"{folder}/{name}",
        )
        for each in names:
            with suppress(OSError):
                found[each] = b64encode(os.getxattr(file, each, follow_symlinks=False)).decode()
        if found and sum(map(len, (*found, *found.values()))) > MOST_ATTRIBUTES:
            self._on_note(path, TOO_MANY)
            return None
        return found or None


def _identity(facts: os.stat_result) -> Identity:
    return facts.st_dev, facts.st_ino


def is_as_listed(folder: Path, entry: Entry) -> bool:
    """True if a file still has the size and times of its entry."""
    now = facts_now(folder, entry)
    is_same = (now.size, now.modified) == (entry.size, entry.modified)
    return is_same and now.changed is not None and entry.changed in (None, now.changed)


def facts_now(folder: Path, entry: Entry) -> Entry:
    """The entry of a file with its present size, times and inode; without times and inode if it is gone."""
    try:
        facts = os.lstat(path_in(folder, entry.path))
    except OSError:
        return entry._replace(modified="", changed=None, inode=None)
    return entry._replace(
        size=facts.st_size, modified=written(facts.st_mtime_ns), changed=facts.st_ctime_ns, inode=facts.st_ino
    )


def _why(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def has_stable_inodes(folder: Path) -> bool:
    """True if a file keeps its inode there."""
    real, best, kind = os.path.realpath(folder), "", ""
    for at, system in _mounts():
        if (real == at or real.startswith(at.rstrip("/") + "/")) and len(at) >= len(best):
            best, kind = at, system
    return not kind.startswith(UNSTABLE)


def _mounts() -> list[tuple[str, str]]:
    """The folders on this host where something is mounted, and the kind of its file system, in the order in which they
    were mounted. Empty where the kernel does not list them.
    """
    try:
        lines = Path("/proc/self/mountinfo").read_bytes().splitlines()
    except OSError:
        return []
    found = []
    for before, _, after in (line.partition(b" - ") for line in lines):
        at = OCTAL.sub(lambda digits: bytes([int(digits[1], 8)]), before.split(b" ")[4])
        found.append((os.fsdecode(at), os.fsdecode(after.split(b" ")[0])))
    return found


def names_of(ids: set[int | None], look_up: Callable[[int], tuple[object, ...]]) -> dict[str, str]:
    """Number → name, for those that this host knows. `look_up`: `pwd.getpwuid` or `grp.getgrgid`."""
    found = {}
    for each in sorted(each for each in ids if each is not None):
        with suppress(KeyError, OverflowError):
            found[str(each)] = str(look_up(each)[0])
    return found
