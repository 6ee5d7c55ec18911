"""A transfer out of a repository, watched while rclone works: the data that its server sends is not trusted.

It must not fill the target file system, and it must not drip: a byte now and then would otherwise be an endless sign of
life. rclone itself enforces the total limit (`Rclone.run`).
"""

import errno
import os
import stat
import time
from collections.abc import Callable, Collection
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO

from external.processes import serving
from external.processes.rows import number, row_of
from storage import layout
from storage.folders import room
from storage.folders.beneath import Beneath, LinkOnTheWay
from storage.places.location import Location
from storage.places.pulse import STATS
from storage.places.rclone import StorageFailed, TargetFailed
from storage.points.files import relative

WINDOW_SECONDS = 300.0
"""The window of the rate. A link that is idle for a minute or two is not a reason to end a restore."""
LEAST_RATE, FOR_A_FILE = 1_000, 20_000
"""Bytes a second; and the bytes that count for a file that was moved, compared or listed: small ones take as long."""
SMALLEST_RESERVE = 1e-9
"""Percent: in the target of a restore only the smallest possible reserve stays free, 1 GiB or a tenth of the disk."""
LITTLE = 2**24
NO_LINKS = (
    "nothing is written or deleted behind links. If it is yours, move the folder that it leads to here in its place, "
    "or mount it on an empty folder here (`mount --bind`)"
)
LOOK_EVERY_SECONDS = 0.1
PIECE = 2**24
BETWEEN_LOOKS = 100
"""The number of files between two checks for a stop."""
NOT_OPENED = {
    errno.ELOOP: "a link, and the scheduler writes none",
    errno.ENXIO: "a socket or a device, and not a file",
    errno.ENODEV: "a device, and not a file",
    errno.ENOTDIR: "below something that is not a folder",
}
NOT_READ = (errno.EACCES, errno.EPERM, errno.EIO, errno.EBADMSG, errno.EUCLEAN)
COUNTED = ("bytes", "transfers", "checks", "listed")


class TransferProgress:
    """The amount moved so far, by rclone's statistics. As a sign of life it changes as long as the transfer continues.
    `into`: the folder on this host that is written to, None if there is none. `clock`: in seconds.
    """

    def __init__(self, into: Path | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._into, self._clock = into, clock
        self._done = (0,) * len(COUNTED)
        self._since, self._before, self._look_at = clock(), 0, float("-inf")

    @property
    def size(self) -> int:
        return self._done[0]

    @property
    def files(self) -> int:
        return self._done[1]

    def take(self, line: str) -> bool:
        """Returns True if it was a line of statistics."""
        stats = (row_of(line) or {}).get("stats") if STATS in line else None
        if not isinstance(stats, dict):  # a file may have such a name
            return False
        self._done = tuple(number(stats, each) for each in COUNTED)
        return True

    def __call__(self) -> tuple[int, ...]:
        """Raises: StorageFailed if it is too slow; TargetFailed if too little room is left."""
        self._check_pace(self._clock())
        self._check_room()
        return self._done

    def _check_pace(self, now: float) -> None:
        if now - self._since < WINDOW_SECONDS:
            return
        worth = self._done[0] + FOR_A_FILE * sum(self._done[1:])
        if worth - self._before < LEAST_RATE * (now - self._since):
            raise StorageFailed(
                f"it was ended because fewer than {LEAST_RATE:,} bytes a second came from the repository over "
                f"{now - self._since:.0f} s: see what slows it down"
            )
        self._since, self._before = now, worth

    def _check_room(self) -> None:
        if self._into is None or not serving.reserve_percent or time.monotonic() < self._look_at:
            return
        self._look_at = time.monotonic() + LOOK_EVERY_SECONDS
        check_room(self._into, self.size)


def check_room(folder: Path, written: float) -> None:
    """Raises: TargetFailed if too little space is left on the disk of a folder on this host, and more than LITTLE was
    `written` there. LITTLE does not fill a disk: where other writers have filled it, backups and restores continue to
    write.
    """
    if written > LITTLE and serving.reserve_percent and (lack := room.lack(folder, SMALLEST_RESERVE, written)):
        raise TargetFailed(f"it was ended because data from the repository fills the disk: {lack}")


class LostContent(StorageFailed):
    """A file of this program is there, and its content is not: its disk has lost it, it cannot be decrypted, or this
    account may not read it. It concerns no other file, and another try does not help.
    """


class NotOurFile(LostContent):
    """Something that this program does not write is in the place of one of its files."""


def fetch_here(found: Path, file: Path, most: int) -> bool:
    """Do what `Store.fetch` does, for a folder on this host. A link or a device, whose bytes may be endless or belong
    to another file, is not read. Raises: NotOurFile; LostContent.
    """
    try:
        descriptor = os.open(found, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError as error:
        _check_readable(found, error)
        if error.errno not in NOT_OPENED:
            raise
        raise NotOurFile(f"{found} is {NOT_OPENED[error.errno]}: nothing was read") from None
    with ExitStack() as opened:
        opened.callback(os.close, descriptor)
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > most:
            raise NotOurFile(f"{found} is not a file, or has more than {most:,} bytes: nothing was read")
        read = opened.enter_context(open(descriptor, "rb", closefd=False))
        written = opened.enter_context(file.open("wb"))
        while facts.st_size > written.tell() and (chunk := _chunk(read, found, min(PIECE, most + 1 - written.tell()))):
            written.write(chunk)
            check_room(file.parent, written.tell())
            if written.tell() > most:
                raise StorageFailed(f"{found} has more than {most:,} bytes by now: it was not read whole")
    return True


def _chunk(read: IO[bytes], found: Path, size: int) -> bytes:
    try:
        return read.read(size)
    except OSError as error:
        _check_readable(found, error)
        raise


def _check_readable(found: Path, error: OSError) -> None:
    if error.errno in NOT_READ:
        raise LostContent(f"{found}: {os.strerror(error.errno).lower()}") from None


def stay_within(repository: Path, place: Path, target: str) -> tuple[Path, Path | None]:
    """The folders that a copy out of a repository in a folder on this host may read and write, in the form of
    `Rclone.run`. Raises: StorageFailed for a place from which links lead elsewhere: anyone who can write to it could
    have any file on this host restored.
    """
    real = Path(os.path.realpath(repository))
    if not Path(os.path.realpath(place)).is_relative_to(real):
        raise StorageFailed(f"{place} is where a link leads out of the repository, and that is not followed")
    if not target.startswith("/"):
        return real, None
    there = Path(target)
    return real, next(each for each in (there, *there.parents) if each.exists())


def check_inside(location: Location, folder: str) -> None:
    """Raises: StorageFailed if the folder of an assignment, in a folder on this host, is not entirely in the
    repository: through a link placed there, a backup would write, and a removal delete, files on this host.
    """
    if not location.is_plain:
        return
    real = Path(os.path.realpath(location.root))
    for name in (layout.MANIFESTS, layout.FILES):
        path = Path(location.at(f"{folder}/{name}"))
        inside = Path(os.path.realpath(path)).is_relative_to(real)
        if inside and name == layout.FILES:  # one in the place of a manifest is followed by nothing: that is damaged
            with suppress(FileNotFoundError, NotADirectoryError), os.scandir(path) as found:
                path = next((Path(each.path) for each in found if each.is_symlink()), path)
        if not inside or path.is_symlink():
            raise StorageFailed(f"{path} is a link where a folder belongs: {NO_LINKS}")


def delete_here(place: Path, paths: Collection[str], check_stop: Callable[[], None]) -> None:
    """Delete the files and links among `paths` in a folder of a repository here, each by its name: rclone would look
    for it in a listing, where a disk may show another one. `check_stop` is called now and then. Raises: StorageFailed
    for the first one that cannot be deleted, once all others are; what `check_stop` raises.
    """
    failed = ""
    try:
        folder = Beneath.opened(Path(os.path.realpath(place)))
    except FileNotFoundError:
        return
    except (OSError, LinkOnTheWay) as error:
        raise StorageFailed(f"{place}: {error}") from None
    with folder:
        for number, path in enumerate(paths):
            if number % BETWEEN_LOOKS == 0:
                check_stop()
            try:
                if stat.S_IFMT(folder.stat(relative(path)).st_mode) in (stat.S_IFREG, stat.S_IFLNK):
                    folder.unlink(relative(path))
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                failed = failed or f"{path}: {(error.strerror or str(error)).lower()}"
    if failed:
        raise StorageFailed(failed)


def files_of(place: Path, paths: Collection[str]) -> list[str]:
    """The paths that are files in a folder of a repository here, or are missing. rclone would wait for a pipe until it
    is ended, and would follow a link to a folder.
    """

    def may_be_one(path: str) -> bool:
        try:
            return stat.S_ISREG(folder.stat(relative(path)).st_mode)
        except NotADirectoryError:
            return False
        except OSError:
            return True  # rclone will report the error

    try:
        folder = Beneath.opened(Path(os.path.realpath(place)))
    except (OSError, LinkOnTheWay):
        return list(paths)
    with folder:
        return [each for each in paths if may_be_one(each)]
