"""The folders of a mailbox, and the directory of each in the mailbox's copy. Pure.

A server chooses the names, so no name is used as it is: any character but a letter, a digit or a harmless sign is
written as in URLs (`%2F`), and so is the first letter of *cur*, *new* and *tmp*, which a Maildir uses itself. A name
that is too long for a file system, or that a disk may take for another one, ends in a digest.
"""

import hashlib
import re
import unicodedata
from base64 import b64decode
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from storage.points.named_files import folded

LISTED = re.compile(rb'\((?P<flags>[^)]*)\) (?P<delimiter>NIL|"(?:\\.|[^"\\])")(?: (?P<name>.*))?', re.DOTALL)
SHIFTED = re.compile("&([^-]*)(-?)")
WITHOUT_MESSAGES = frozenset({b"\\noselect", b"\\nonexistent"})
HARMLESS = frozenset(" !#&'()+,-.=@[]^_{}~$;")
OF_A_MAILDIR = frozenset({"cur", "new", "tmp"})
LONGEST_NAME, LONGEST_PATH = 100, 500
"""Bytes. An encrypted name is half as long again; a key of a bucket has 1,024 at the most."""
DIGEST = 12


@dataclass(frozen=True)
class Folder:
    """A folder of a mailbox: `raw`, as its server writes it, and the levels of its name, each raw as well."""

    raw: bytes
    levels: tuple[bytes, ...]

    @property
    def title(self) -> str:
        """The name for users, and by which they name it: levels separated by /."""
        return "/".join(map(decoded, self.levels))

    def is_below(self, title: str) -> bool:
        """True if it is the folder of that title, or one in it. INBOX may be written in any case."""
        wanted, own = title.strip("/").split("/"), self.title.split("/")
        if wanted[0].upper() == own[0].upper() == "INBOX":
            wanted[0] = own[0]
        return own[: len(wanted)] == wanted


def parse(listed: Collection[Any]) -> list[Folder]:
    """The folders with messages among the lines of a LIST response as imaplib returns them, by raw name."""
    found = {}
    for line in listed:
        text, literal = line if isinstance(line, tuple) else (line, None)
        if not text or not (match := LISTED.match(text)):
            continue
        raw = literal if literal is not None else _unquoted(match["name"] or b"")
        if raw and WITHOUT_MESSAGES.isdisjoint(match["flags"].lower().split()):
            delimiter = _unquoted(match["delimiter"])
            found[raw] = Folder(raw, tuple(raw.split(delimiter) if match["delimiter"] != b"NIL" else (raw,)))
    return [found[raw] for raw in sorted(found)]


def decoded(raw: bytes) -> str:
    """A level of a name: modified UTF-7 (RFC 3501, 5.1.3), or UTF-8 as some servers write it, or its bytes."""
    try:
        return raw.decode() if any(byte > 127 for byte in raw) else SHIFTED.sub(_unshifted, raw.decode("ascii"))
    except ValueError:
        return raw.decode("latin-1")


def _unshifted(found: re.Match[str]) -> str:
    if found[0] == "&-":
        return "&"
    return b64decode(found[1].replace(",", "/") + "===").decode("utf-16-be")


def directories(folders: Collection[Folder]) -> dict[bytes, str]:
    """The directory of each folder, a relative path, by raw name. No two are alike, nor is one inside a directory that
    a Maildir uses itself.
    """
    alike = defaultdict(set)
    for folder in folders:
        for levels in _above(folder.levels):
            alike[tuple(folded(_safe(each)) for each in levels)].add(levels)
    clashing = {levels for those in alike.values() if len(those) > 1 for levels in those}
    return {folder.raw: _path(folder.levels, clashing) for folder in folders}


def every_directory(listed: Collection[Folder], wanted: Collection[Folder]) -> set[str]:
    """The directories of the folders that a server lists, as named among all folders and among the wanted ones: users
    decide which folders are left out.
    """
    return {*directories(listed).values(), *directories(wanted).values()}


def _path(levels: tuple[bytes, ...], clashing: Collection[tuple[bytes, ...]]) -> str:
    names = [_safe(above[-1]) + (_digest(above) if above in clashing else "") for above in _above(levels)]
    path = "/".join(names)
    return path if len(path.encode()) <= LONGEST_PATH else names[0] + _digest(levels)


def _above(levels: tuple[bytes, ...]) -> Iterator[tuple[bytes, ...]]:
    return (levels[: number + 1] for number in range(len(levels)))


def _safe(raw: bytes) -> str:
    name = "".join(each if _is_harmless(each) else _escaped(each) for each in decoded(raw))
    if name[:1] in (".", " ", "~") or name.casefold() in OF_A_MAILDIR:
        name = _escaped(name[0]) + name[1:]
    if name[-1:] in (".", " "):
        name = name[:-1] + _escaped(name[-1])
    cut = name.encode()[: LONGEST_NAME - DIGEST - 2].decode(errors="ignore")
    return name if name and len(name.encode()) <= LONGEST_NAME else cut + _digest((raw,))


def _is_harmless(letter: str) -> bool:
    return letter in HARMLESS or unicodedata.category(letter)[0] in "LMN"


def _escaped(letter: str) -> str:
    return "".join(f"%{byte:02X}" for byte in letter.encode(errors="surrogatepass"))


def _digest(levels: tuple[bytes, ...]) -> str:
    """A digest of the levels, with a prefix with which no escape begins."""
    return "%~" + hashlib.sha256(b"\0".join(levels)).hexdigest()[:DIGEST]


def _unquoted(name: bytes) -> bytes:
    return re.sub(rb"\\(.)", rb"\1", name[1:-1], flags=re.DOTALL) if name[:1] == b'"' else name
