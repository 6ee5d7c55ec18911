"""A disk that gives what it gets another name, whichever name it is asked by: a real mount (FUSE) of a folder.

HFS+ keeps accents apart from their letters, Samba and old disks have names in one case, servers trim dots and spaces
or put other characters for those that they cannot hold. Who asks by the old name finds the file; who lists does not.
"""

import errno
import os
import re
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unicodedata import normalize

from tests.fuse import mounted, serve

NAMES: dict[str, Callable[[str], str]] = {
    "decomposes": lambda name: normalize("NFD", name),
    "trims": lambda name: name.rstrip(". ") or name,
    "upper-case": str.upper,
    "lower-case": str.lower,
    "replaces": lambda name: re.sub(r'[:?"]', "_", name),
}
AS_GIVEN, BAD = "as given", b"bad sector"
"""No renaming; and what this disk can neither read nor write."""
FAILING = re.compile(rb"^(open|read) error (\d+)")
"""The beginning of a file in the folder below that cannot be opened, or read, with that error number."""
MOST = 1 << 17
MODE, OWNER, GROUP, SIZE, ATIME, MTIME, BY_HANDLE, ATIME_NOW, MTIME_NOW = 1, 2, 4, 8, 16, 32, 64, 128, 256
FORGET, INIT, FORGET_MANY = 2, 26, 42
GRAIN_OF_FAT, OF_FAT, EVER = 2, (315_532_800 * 10**9, 4_354_819_198 * 10**9), (-(2**63), 2**63)
"""Seconds, and the first and last times that a disk has: FAT begins in 1980 and ends in 2107."""


@contextmanager
def renaming_disk(folder: Path, kind: str, grain: int = 0) -> Iterator[Path]:
    """Such a disk in `folder`; `kind`: of `NAMES`; `grain`: the whole seconds to which it cuts times, 2 as FAT does.
    Skips the test where that is not permitted."""
    place, under = folder / "disk", folder / "under"
    under.mkdir(parents=True)
    with mounted(__name__, place, str(under), kind, str(grain)):
        yield place


class Disk:
    """Answers the kernel's questions: https://www.kernel.org/doc/html/latest/filesystems/fuse.html, version 7.31."""

    def __init__(self, under: str, named: Callable[[str], str], grain: int) -> None:
        self._named, self._grain = named, grain * 10**9 or 1
        self._since, self._until = OF_FAT if grain == GRAIN_OF_FAT else EVER
        self._paths = {1: under}
        self._nodes = {under: 1}
        self._listed: dict[int, list[bytes]] = {}
        self._last = 1

    def answer(self, opcode: int, node: int, body: bytes) -> bytes:
        """Raises: OSError, with the error number that the kernel gets."""
        if not (do := self._OPERATIONS.get(opcode)):
            raise OSError(errno.ENOSYS, "")
        answer: bytes = do(self, node, body)
        return answer

    def _at(self, node: int, name: bytes) -> str:
        return os.path.join(self._paths[node], self._named(os.fsdecode(name.rstrip(b"\0"))))

    def _entry(self, path: str) -> bytes:
        facts = _facts(os.lstat(path))
        if path not in self._nodes:
            self._last += 1
            self._nodes[path], self._paths[self._last] = self._last, path
        return struct.pack("<QQQQII", self._nodes[path], 0, 0, 0, 0, 0) + facts

    def _lookup(self, node: int, body: bytes) -> bytes:
        return self._entry(self._at(node, body))

    def _attributes(self, node: int, body: bytes) -> bytes:
        return struct.pack("<QII", 0, 0, 0) + _facts(os.lstat(self._paths[node]))

    def _set(self, node: int, body: bytes) -> bytes:
        valid, _, _, size, _, atime, mtime, _, atime_ns, mtime_ns, _, mode, _, uid, gid, _ = struct.unpack_from(
            "<IIQQQQQQIIIIIIII", body
        )
        path = self._paths[node]
        if valid & MODE:
            os.chmod(path, mode & 0o7777)
        if valid & (OWNER | GROUP):
            os.chown(path, uid if valid & OWNER else -1, gid if valid & GROUP else -1, follow_symlinks=False)
        if valid & SIZE:
            os.truncate(path, size)
        if valid & (ATIME | MTIME) and not valid & (ATIME_NOW | MTIME_NOW):
            now = os.lstat(path)
            signed = struct.unpack("<qq", struct.pack("<QQ", atime, mtime))
            whole = (signed[0] * 10**9 + atime_ns, signed[1] * 10**9 + mtime_ns)
            times = [min(max(each - each % self._grain, self._since), self._until) for each in whole]
            os.utime(path, ns=(times[0] if valid & ATIME else now.st_atime_ns,
                               times[1] if valid & MTIME else now.st_mtime_ns))  # fmt: skip
        return self._attributes(node, b"")

    def _make_folder(self, node: int, body: bytes) -> bytes:
        path = self._at(node, body[8:])
        os.mkdir(path, struct.unpack_from("<I", body)[0] & 0o7777)
        return self._entry(path)

    def _unlink(self, node: int, body: bytes) -> bytes:
        path = self._at(node, body)
        os.unlink(path)
        self._forgotten(path)
        return b""

    def _remove_folder(self, node: int, body: bytes) -> bytes:
        path = self._at(node, body)
        os.rmdir(path)
        self._forgotten(path)
        return b""

    def _forgotten(self, path: str) -> None:
        if node := self._nodes.pop(path, 0):
            self._paths[node] = f"{path}\0gone"

    def _rename(self, node: int, body: bytes, begin: int = 8) -> bytes:
        (new_folder,) = struct.unpack_from("<Q", body)
        old_name, new_name = body[begin:].rstrip(b"\0").split(b"\0")
        old, new = self._at(node, old_name), self._at(new_folder, new_name)
        os.rename(old, new)
        if old != new:
            self._forgotten(new)
            for path in [each for each in self._nodes if each == old or each.startswith(old + "/")]:
                moved = new + path[len(old) :]
                self._nodes[moved] = number = self._nodes.pop(path)
                self._paths[number] = moved
        return b""

    def _open(self, node: int, body: bytes) -> bytes:
        flags = struct.unpack_from("<I", body)[0] & ~(os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW)
        if not flags & os.O_ACCMODE:
            _fail(b"open", Path(self._paths[node]).read_bytes())
        return struct.pack("<QII", os.open(self._paths[node], flags & ~os.O_APPEND), 0, 0)

    def _create(self, node: int, body: bytes) -> bytes:
        flags, mode, _, _ = struct.unpack_from("<IIII", body)
        path = self._at(node, body[16:])
        opened = os.open(path, (flags | os.O_CREAT) & ~os.O_APPEND, mode & 0o7777)
        return self._entry(path) + struct.pack("<QII", opened, 0, 0)

    def _read(self, node: int, body: bytes) -> bytes:
        handle, offset, size = struct.unpack_from("<QQI", body)
        _fail(b"read", content := os.pread(handle, size, offset))
        return _sound(content)

    def _write(self, node: int, body: bytes) -> bytes:
        handle, offset, size = struct.unpack_from("<QQI", body)
        return struct.pack("<II", os.pwrite(handle, _sound(body[40 : 40 + size]), offset), 0)

    def _release(self, node: int, body: bytes) -> bytes:
        os.close(struct.unpack_from("<Q", body)[0])
        return b""

    def _list(self, node: int, body: bytes) -> bytes:
        rows, where = [], os.open(self._paths[node], os.O_RDONLY | os.O_DIRECTORY)
        with os.scandir(self._paths[node]) as found:
            for number, each in enumerate(found, start=1):
                name = os.fsencode(each.name)
                row = struct.pack("<QQII", each.inode(), number, len(name), 4 if each.is_dir() else 8) + name
                rows.append(row + bytes(-len(row) % 8))
        self._listed[where] = rows
        return struct.pack("<QII", where, 0, 0)

    def _read_list(self, node: int, body: bytes) -> bytes:
        handle, offset, size = struct.unpack_from("<QQI", body)
        found = b""
        for row in self._listed[handle][offset:]:
            if len(found) + len(row) > size:
                break
            found += row
        return found

    def _room(self, node: int, body: bytes) -> bytes:
        room = os.statvfs(self._paths[1])
        return struct.pack(
            "<QQQQQIIII24x", room.f_blocks, room.f_bfree, room.f_bavail, room.f_files, room.f_ffree, room.f_bsize, 255,
            room.f_frsize, 0,
        )  # fmt: skip

    def _nothing(self, node: int, body: bytes) -> bytes:
        return b""

    _OPERATIONS: dict[int, Callable[..., Any]] = {
        1: _lookup, 3: _attributes, 4: _set, 9: _make_folder, 10: _unlink, 11: _remove_folder, 12: _rename, 14: _open,
        15: _read, 16: _write, 17: _room, 18: _release, 20: _nothing, 25: _nothing, 27: _list, 28: _read_list,
        29: _release, 30: _nothing, 35: _create, 45: lambda self, node, body: self._rename(node, body, 16),
    }  # fmt: skip


def _sound(content: bytes) -> bytes:
    if BAD in content:
        raise OSError(errno.EIO, "")
    return content


def _fail(what: bytes, content: bytes) -> None:
    if (found := FAILING.match(content)) and found[1] == what:
        raise OSError(int(found[2]), "")


def _facts(found: os.stat_result) -> bytes:
    whole = [divmod(each, 10**9) for each in (found.st_atime_ns, found.st_mtime_ns, found.st_ctime_ns)]
    return struct.pack(
        "<QQQqqqIIIIIIIIII", found.st_ino, found.st_size, found.st_blocks, *(each[0] for each in whole),
        *(each[1] for each in whole), found.st_mode, found.st_nlink, found.st_uid, found.st_gid, 0, 4096, 0,
    )  # fmt: skip


def _serve(device: int, disk: Disk) -> None:
    while asked := _next(device):
        _, opcode, number, node = struct.unpack_from("<IIQQ", asked)
        if opcode in (FORGET, FORGET_MANY):
            continue
        code, answer = 0, b""
        if opcode == INIT:
            answer = struct.pack("<IIIIHHII36x", 7, 31, 65536, 0, 10, 10, MOST, 1)
        else:
            try:
                answer = disk.answer(opcode, node, asked[40:])
            except OSError as error:
                code = -(error.errno or errno.EIO)
            except ValueError:  # the path of what is gone, and open somewhere
                code = -errno.ESTALE
        with suppress(FileNotFoundError):  # who asked is gone
            os.write(device, struct.pack("<IiQ", 16 + len(answer), code, number) + answer)


def _next(device: int) -> bytes:
    """Empty once the disk is unmounted."""
    try:
        return os.read(device, MOST + 4096)
    except OSError:
        return b""


if __name__ == "__main__":
    where, below, change, times = sys.argv[1:]
    answering = Disk(below, NAMES.get(change, str), int(times))
    serve(where, lambda device: _serve(device, answering), "default_permissions", flags=6)
