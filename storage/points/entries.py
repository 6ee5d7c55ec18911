"""Entries of a manifest: the facts about one file, link or folder."""

import json
import re
from json.encoder import encode_basestring
from typing import Any, NamedTuple

from storage import layout
from storage.points.bounds import LONGEST_LINE, LONGEST_PATH, is_nameable

LEFT_OUT = "it did not come"
KINDS = frozenset({"file", "folder", "link"})
LARGEST, MODES = 2**63, 0o7777
LARGEST_INODE = 2**64
LEADS_ELSEWHERE = re.compile(r"(?:^|/)\.{0,2}(?:/|$)|[\0\ud800-\udfff]")
STORED_ELSEWHERE = re.compile(r"(?:^|/)\.{1,2}(?:/|$)|^/|/$|//|[\0\ud800-\udfff]|^$")
"""Half of a surrogate pair is not allowed in a name either: no system has a byte for it."""
ODD_BEGINS, ODD_ENDS = (".", "/"), ("/", "\n")
# not escaped: `RECOVER.txt` reads paths out of it
ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)


class Entry(NamedTuple):
    """A file, link or folder. `kind`: file, link or folder; `size` in bytes; `modified`: ISO 8601, or empty; `mode`:
    permission bits, None if they are not known; `target`: of a link; `told`: the digest that the source reports, such
    as `md5:0cc1…`, if it was asked for. Making a tuple takes half as long as making a dataclass.

    `digest`: SHA-256 in hex, or None; `digest_from`: *source* as reported by the source's side, *copy* read back from
    the repository when it was made, *check* read back later.

    `folder`: the folder of `files` that stores the file, empty if none does; `stored`: the name that it has there, if
    that differs from its path. `why`: the reason why the run did not bring it; then `as_of` names the point whose file
    it still is; if that is empty too, the point has no file of this path. `doubtful`: it changed as it was copied, or
    right before, so that the next run brings it again.

    Only for a folder on this host: `uid`, `gid`; `changed`: nanoseconds since 1970 (ctime); `inode`, of a folder only
    where a file system is mounted; `linked`: the first path, by name, of those that are one file (hard links), and
    `attributes`: extended ones, in base64, by name.
    """

    path: str
    kind: str = "file"
    size: int = 0
    modified: str = ""
    mode: int | None = None
    target: str = ""
    uid: int | None = None
    gid: int | None = None
    changed: int | None = None
    inode: int | None = None
    attributes: dict[str, str] | None = None
    told: str = ""
    digest: str | None = None
    digest_from: str = ""
    folder: str = ""
    stored: str = ""
    as_of: str = ""
    why: str = ""
    doubtful: bool = False
    linked: str = ""

    @property
    def line(self) -> str:
        """JSON without unknown fields, built by hand: an encoder of dictionaries takes four times as long. It begins
        with the source's facts, so that an unchanged file is recognized without being parsed.
        """
        known = head_of(*self.of_the_source)
        if self.digest:
            known += (
                f',"digest":"{self.digest}"' if self.digest.isalnum() else f',"digest":{ENCODER.encode(self.digest)}'
            )
        if self.digest_from:
            known += f',"digest_from":{ENCODER.encode(self.digest_from)}'
        if self.folder:
            known += f',"folder":"{self.folder}"'
        if self[RARE:] != NOTHING[RARE:]:
            for name, value in zip(self._fields[RARE:], self[RARE:], strict=True):
                if value:
                    known += f',"{name}":{ENCODER.encode(value)}'
        return known + "}"

    @property
    def of_the_source(self) -> tuple[Any, ...]:
        """The fields that come from the source, as `head_of` takes them."""
        return self[:OF_THE_SOURCE]

    @property
    def is_kept(self) -> bool:
        """True if the point has it: a file if the repository stores it, a link if it is in the manifest, and any
        folder.
        """
        return bool(self.folder) if self.kind == "file" else self.kind == "folder" or not self.why or bool(self.as_of)

    @property
    def place(self) -> str:
        """The path of the file in `files` of its assignment."""
        return f"{self.folder}/{self.stored or self.path}"

    def is_same(self, other: "Entry") -> bool:
        """True if both are known to have the same content: by their place, by digest, else by kind, size and time. A
        file without a time changed while its run copied it: two such files may have the same size and differ.
        """
        if self.folder and (self.folder, self.stored or self.path) == (other.folder, other.stored or other.path):
            return True
        if self.digest and other.digest:
            return self.digest == other.digest
        if self.kind == "file" and not self.modified:
            return False
        return (self.kind, self.size, self.modified, self.target) == (
            other.kind, other.size, other.modified, other.target,
        )  # fmt: skip


def excepted(entry: Entry, old: Entry | None, why: str, base: str) -> Entry:
    """A point's entry for a path whose file did not come: the file of the point before it, `base`, and since when, or
    the reason alone.
    """
    if old is not None and old.kind != "folder" and old.is_kept:
        kept = old._replace(why=why, as_of=old.as_of or base)
        briefly = kept._replace(why=LEFT_OUT)  # a line that no reader accepts would damage the whole manifest
        return next(filter(is_readable, (kept, briefly)), briefly._replace(attributes=None))
    if entry.kind == "folder":
        return entry._replace(why=why)
    return Entry(entry.path, entry.kind, entry.size, entry.modified, entry.mode, why=why)


OF_THE_SOURCE, RARE = 12, 15
NOTHING = Entry("")


def head_of(
    path: str,
    kind: str,
    size: int,
    modified: str,
    mode: int | None = None,
    target: str = "",
    uid: int | None = None,
    gid: int | None = None,
    changed: int | None = None,
    inode: int | None = None,
    attributes: dict[str, str] | None = None,
    told: str = "",
) -> str:
    """The beginning of an entry's line: the facts from the source."""
    known = f'{{"path":{encode_basestring(path)},"kind":"{kind}","size":{size}'
    if modified:
        known += f',"modified":{encode_basestring(modified)}'
    if mode is not None:
        known += f',"mode":{mode}'
    if target:
        known += f',"target":{ENCODER.encode(target)}'
    if uid is not None:
        known += f',"uid":{uid}'
    if gid is not None:
        known += f',"gid":{gid}'
    if changed is not None:
        known += f',"changed":{changed}'
    if inode is not None:
        known += f',"inode":{inode}'
    if attributes:
        known += f',"attributes":{ENCODER.encode(attributes)}'
    if told:
        known += f',"told":{ENCODER.encode(told)}'
    return known


def leads_elsewhere(path: str) -> bool:
    """True if a path may lead out of its folder, or no system has such a name. Few paths need the regular expression,
    which takes ten times as long as the rest.
    """
    is_plain = path.isascii() and "/." not in path and "//" not in path and "\0" not in path
    if is_plain and path and not path.startswith(ODD_BEGINS) and not path.endswith(ODD_ENDS):
        return False
    return LEADS_ELSEWHERE.search(path) is not None


def from_values(values: tuple[Any, ...]) -> Entry:
    """The entry of all its fields, in their order: its constructor takes three times as long."""
    return tuple.__new__(Entry, values)


def entry_of(row: dict[str, Any]) -> Entry | None:
    """The entry of a row, if it has everything that readers rely on: types, numbers that databases accept, a path that
    stays in its folder. Otherwise None.
    """
    try:
        entry = Entry(**row)
        return entry if is_sound(entry) else None
    except TypeError:
        return None


def is_sound(entry: Entry) -> bool:
    """True if readers accept an entry; so no other may be written."""
    return (
        str is type(entry.path) is type(entry.modified) is type(entry.target) is type(entry.digest_from)
        and (entry.digest is None or type(entry.digest) is str)
        and entry.kind in KINDS
        and type(entry.size) is int
        and 0 <= entry.size < LARGEST
        and (entry.mode is None or (type(entry.mode) is int and 0 <= entry.mode <= MODES))
        and is_nameable(entry.path)
        and len(entry.target) <= LONGEST_PATH
        and not leads_elsewhere(entry.path)
        and type(entry.folder) is str
        and (not entry.folder or (entry.kind == "file" and layout.FOLDER.fullmatch(entry.folder) is not None))
        and (entry[6:OF_THE_SOURCE] == NOTHING[6:OF_THE_SOURCE] or _are_attributes_sound(entry))
        and (entry[RARE:] == NOTHING[RARE:] or _is_rare_sound(entry))
    )


def _are_attributes_sound(entry: Entry) -> bool:
    known = entry[6:10]
    are_numbers = all(each is None or (type(each) is int and -LARGEST < each < LARGEST_INODE) for each in known)
    return are_numbers and type(entry.told) is str and (entry.attributes is None or _are_texts(entry.attributes))


def _is_rare_sound(entry: Entry) -> bool:
    return (
        str is type(entry.stored) is type(entry.as_of) is type(entry.why) is type(entry.linked)
        and type(entry.doubtful) is bool
        and (not entry.stored or (is_nameable(entry.stored) and not STORED_ELSEWHERE.search(entry.stored)))
        and (not entry.linked or (is_nameable(entry.linked) and not LEADS_ELSEWHERE.search(entry.linked)))
        and (not entry.as_of or layout.NAME.fullmatch(entry.as_of) is not None)
    )


def _are_texts(found: object) -> bool:
    return isinstance(found, dict) and all(type(each) is str for pair in found.items() for each in pair)


def is_readable(entry: Entry) -> bool:
    """True if readers accept the line of an entry, which is sound by itself."""
    return len(entry.line.encode("utf-8", "surrogatepass")) < LONGEST_LINE
