"""The copy of a mailbox: a Maildir for each of its folders, in directories that `folders.py` names.

    INBOX/cur/1700000000.42,S=2310:2,RS      UIDVALIDITY, UID, bytes (Maildir++'s S=), flags (a Maildir's)

A file's name holds all that is known of its message, so the files are the whole state of an incremental run. With
another flag a message gets another name; its content never changes. Its time is the time at which it reached the
mailbox. A file is written in `tmp` and renamed when it is whole; a file whose size is not that of its name, such as
after a power failure, does not count.
"""

import os
import re
import shutil
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from engines.base import RunEnded, Verdict

NAME = re.compile(r"(\d+)\.(\d+),S=(\d+):2,([A-Z]*)")
LETTERS = {
    "\\draft": "D", "\\flagged": "F", "$forwarded": "P", "\\answered": "R", "\\seen": "S", "\\deleted": "T",
}  # fmt: skip
CUR, NEW, TMP = "cur", "new", "tmp"


@dataclass(frozen=True)
class MessageKey:
    """An identifier that never means another message of a folder again (RFC 3501, 2.3.1.1)."""

    validity: int
    uid: int


class Maildir:
    """The copy of one folder. Raises: RunEnded if this host cannot write it."""

    def __init__(self, directory: Path) -> None:
        self._cur, self._tmp = directory / CUR, directory / TMP
        with written():
            shutil.rmtree(self._tmp, ignore_errors=True)
            for name in (CUR, NEW, TMP):
                (directory / name).mkdir(parents=True, exist_ok=True)
            self._names = self._look()

    def __contains__(self, key: MessageKey) -> bool:
        return key in self._names

    def flag(self, key: MessageKey, letters: str) -> None:
        """Give a stored message these flags."""
        name = self._names[key]
        stem, _, before = name.rpartition(",")
        if before != letters:
            with written():
                os.rename(self._cur / name, self._cur / f"{stem},{letters}")
            self._names[key] = f"{stem},{letters}"

    def keep(self, key: MessageKey, letters: str, received_at: float, pieces: Iterable[bytes]) -> int:
        """Write a message that comes in pieces. Returns its size. Raises: what `pieces` raises, and then
        keeps nothing.
        """
        path, size = self._tmp / f"{key.validity}.{key.uid}", 0
        try:
            with written(), path.open("wb") as file:
                for piece in pieces:
                    size += file.write(piece)
            name = f"{key.validity}.{key.uid},S={size}:2,{letters}"
            with written():
                os.utime(path, (received_at, received_at))
                path.rename(self._cur / name)
        finally:
            path.unlink(missing_ok=True)
        self._names[key] = name
        return size

    def of_others(self, validity: int) -> set[MessageKey]:
        """The messages with any other UIDVALIDITY."""
        return {key for key in self._names if key.validity != validity}

    def keep_only(self, keys: Collection[MessageKey]) -> None:
        with written():
            for key in self._names.keys() - keys:
                (self._cur / self._names.pop(key)).unlink()

    def _look(self) -> dict[MessageKey, str]:
        found: dict[MessageKey, str] = {}
        with os.scandir(self._cur) as entries:
            for entry in entries:
                match = NAME.fullmatch(entry.name)
                key = MessageKey(int(match[1]), int(match[2])) if match else None
                if match and key and key not in found and entry.stat(follow_symlinks=False).st_size == int(match[3]):
                    found[key] = entry.name
                else:
                    os.unlink(entry.path)
        return found


def letters_of(flags: Iterable[str]) -> str:
    """The Maildir letters for flags of IMAP; a Maildir has letters for these only."""
    return "".join(sorted({LETTERS[each.lower()] for each in flags if each.lower() in LETTERS}))


def remove_others(root: Path, directories: Collection[str]) -> None:
    """Remove the folders below `root` that are not in these `directories`."""
    with written():
        for here, below, _ in os.walk(root, topdown=False):
            path = os.path.relpath(here, root)
            if CUR in below and path not in directories:
                for name in (CUR, NEW, TMP):
                    shutil.rmtree(os.path.join(here, name), ignore_errors=True)
            if here != str(root) and os.path.basename(here) not in (CUR, NEW, TMP) and not os.listdir(here):
                os.rmdir(here)


def messages_by_directory(root: Path) -> dict[str, int]:
    """The number of messages in the copy of each folder, by its path below `root`."""
    return {
        os.path.relpath(here, root): len(os.listdir(os.path.join(here, CUR)))
        for here, below, _ in os.walk(root)
        if CUR in below
    }


@contextmanager
def written() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        text = f"the copy of the mailbox cannot be written ({error.filename or 'a message'}): {error.strerror}"
        raise RunEnded(Verdict.REPOSITORY_FAILED, text) from None
