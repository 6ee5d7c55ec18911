"""A comparison of a source with its last point: an item for each path of either, sorted by path.

The source's sizes and times are compared, as they were listed then and now, so it does not matter how exact the clock
of the repository is. Nothing leaves the points because it could not be read: its earlier file is taken over, and so is
everything below a folder that could not be listed.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

from engines.rclone.listing import listed_of
from engines.rclone.local import Listed
from storage.points.entries import Entry, excepted, from_values
from storage.points.manifests import Line

Kept = tuple[str, bytes]
"""A path of the last point, with its line."""
BETWEEN_LOOKS = 1_000
"""The number of paths between two checks for a stop."""
END, FILE = b"}\n", (b',"digest":"', b',"folder":"')
NOT_MOUNTED = (
    "no file system is mounted there any more, and the folder is empty: mount it, or remove the folder if it is gone "
    "for good"
)
CONTRADICTING = re.compile(rb'"(?:doubtful|why|as_of|linked)":')
"""Fields of a line that make its entry one to be examined, although the source's facts are unchanged."""


class PathDecision(IntEnum):
    """The decision about a path. KEPT: its entry is done; WANTED: to be brought; LEFT: brought by a run without a
    point; LINKED: another path's file (a hard link); ASKED: it was not listed, which is believed once the source
    confirms it by name.
    """

    KEPT = 1
    WANTED = 2
    LEFT = 3
    LINKED = 4
    ASKED = 5


class Item(NamedTuple):
    """A path of the source or the last point. `entry`: of the new point, its file not yet brought if it is WANTED;
    `old`: that of the last point.
    """

    path: str
    state: PathDecision
    entry: Entry
    old: Entry | None = None


DECISIONS = {int(each): each for each in PathDecision}


def is_wanted(item: Item) -> bool:
    """True for a file that is to be brought."""
    return item.state is PathDecision.WANTED


def packed(item: Item) -> tuple[Any, ...]:
    """The item as values that `marshal` takes."""
    path, state, entry, old = item
    return path, int(state), tuple(entry), old and tuple(old)


def unpacked(values: tuple[Any, ...]) -> Item:
    """The item that was `packed`."""
    path, state, entry, old = values
    return Item(path, DECISIONS[state], from_values(entry), old and from_values(old))


@dataclass
class Comparison:
    """A comparison. `base`: the name of the last point; empty if there is none. `exceptions`: path → why it could not
    be listed; folders in which nothing is mounted any more are added. `is_same`: True for a file that is as the last
    point has it. `is_asked`: True if the source has to confirm by name that a path is gone. `parse`: makes an entry
    from a line of the last point. `keep`: gets the lines of the last point that stay valid, as most do: they have no
    items, and take no part in what is done with those. `check_stop` is called now and then. `is_checked`: True if each
    file has to be checked with `is_same`. `empty`: the empty folders of a folder on this host.

    Counted as the items come: `listed`, the paths of the source, including those that could not be listed; `kept`,
    those whose lines stay, and `unchanged`, those of them that are not folders; `carried`, further paths of the last
    point that have an item; `removed`. `twice`: files that were listed more than once.
    """

    base: str
    exceptions: dict[str, str]
    is_same: Callable[[Entry, Entry], bool]
    is_asked: Callable[[Entry], bool]
    parse: Callable[[bytes], Entry]
    keep: Callable[[Line], object]
    check_stop: Callable[[], object]
    is_checked: bool = False
    empty: Collection[str] = ()
    listed: int = 0
    kept: int = 0
    carried: int = 0
    removed: int = 0
    unchanged: int = 0
    twice: list[str] = field(default_factory=list)
    first: dict[tuple[int, int], str] = field(default_factory=dict)

    def items(self, listed: Iterable[Listed], before: Iterable[Kept]) -> Iterator[Item]:
        """The items of two sequences, both sorted by path. A path that is listed twice, as by some servers,
        counts once.
        """
        last, lines = None, iter(before)
        old = next(lines, None)
        for found in listed:
            path, head, fields, shared = found
            if path == last:
                self.twice += [path] if fields[1] == "file" else []
                continue
            last = path
            while old is not None and old[0] < path:
                yield from self._carried(*old)
                old = next(lines, None)
            line = None
            if old is not None and old[0] == path:
                line, old = old[1], next(lines, None)
            self.listed += 1
            if self.listed % BETWEEN_LOOKS == 0:
                self.check_stop()
            if line is not None and shared is None and self._stays(line, path, head, fields[1]):
                self.kept += 1
                self.unchanged += fields[1] != "folder"
                self.keep((path, line, fields[1], fields[2]))
            else:
                yield self._listed(path, found, None if line is None else self.parse(line))
        while old is not None:
            yield from self._carried(*old)
            old = next(lines, None)

    def _carried(self, path: str, line: bytes) -> Iterator[Item]:
        """The item of a path of the last point that the source did not list; none if it is gone."""
        if item := self._unlisted(path, self.parse(line)):
            self.carried += 1
            yield item

    def _stays(self, line: bytes, path: str, head: str, kind: str) -> bool:
        """True if a line of the last point begins with the source's present facts, and nothing contradicts it."""
        begins = head.encode("utf-8", "surrogatepass")
        if not line.startswith(begins) or path in self.exceptions or self.is_checked:
            return False
        if kind != "file":
            return line[len(begins) :] == END
        return line.startswith(FILE, len(begins)) and not CONTRADICTING.search(line, len(begins))

    def _listed(self, path: str, found: Listed, old: Entry | None) -> Item:
        _, _, fields, shared = found
        entry = Entry(*fields)
        if why := self.exceptions.get(path, ""):
            if old is not None and old.kind == "folder" and entry == Entry(path):
                entry = old
            if entry.kind == "folder":
                return Item(path, PathDecision.KEPT, entry._replace(why=why), old)
            return Item(path, PathDecision.KEPT, self.excepted(entry, old, why), old)
        if entry.kind != "file":
            if old is not None and self._is_unmounted(entry, old):
                self.exceptions[path] = NOT_MOUNTED
                entry = old._replace(why=NOT_MOUNTED)
            return Item(path, PathDecision.KEPT, entry, old)
        if shared is not None and (first := self.first.setdefault(shared, path)) != path:
            return Item(path, PathDecision.LINKED, entry._replace(linked=first), old)
        if old is not None and old.kind == "file" and old.folder and self.is_same(entry, old):
            return Item(path, PathDecision.KEPT, taken_over(entry, old), old)
        return Item(path, PathDecision.WANTED, entry, old)

    def _is_unmounted(self, entry: Entry, old: Entry) -> bool:
        """True for an empty folder where another file system was mounted, which alone gives a folder an inode."""
        was_mounted = old.kind == "folder" and old.inode is not None and entry.inode is None
        return entry.kind == "folder" and was_mounted and entry.path in self.empty

    def _unlisted(self, path: str, old: Entry) -> Item | None:
        if why := self.exceptions.get(path) or self._why_above(path):
            return Item(path, PathDecision.KEPT, self.excepted(old, old, why), old)
        if old.kind != "folder" and old.is_kept:
            if old.kind == "file" and self.is_asked(old):
                return Item(path, PathDecision.ASKED, old, old)
            self.removed += 1
        return None

    def _why_above(self, path: str) -> str:
        while "/" in path and self.exceptions:
            path = path.rpartition("/")[0]
            if path in self.exceptions:
                return f"its folder could not be listed: {self.exceptions[path]}"
        return f"not all of the source could be listed: {self.exceptions['']}" if "" in self.exceptions else ""

    def excepted(self, entry: Entry, old: Entry | None, why: str) -> Entry:
        """The new point's entry for a path that could not be read: the file of the last point, and since when."""
        return excepted(entry, old, why, self.base)


def taken_over(entry: Entry, old: Entry) -> Entry:
    """The entry of a file that is unchanged, with the present facts about it."""
    return entry._replace(digest=old.digest, digest_from=old.digest_from, folder=old.folder, stored=old.stored)


def with_exceptions(listed: Iterable[Listed], exceptions: Mapping[str, str]) -> Iterator[Listed]:
    """The listed entries, and those that could not be read themselves, so that the point names them. Both are sorted by
    path.
    """
    waiting = [listed_of(Entry(path)) for path in sorted(exceptions) if path]
    if not waiting:
        yield from listed
        return
    number = 0
    for each in listed:
        while number < len(waiting) and waiting[number][0] <= each[0]:
            if waiting[number][0] != each[0]:
                yield waiting[number]
            number += 1
        yield each
    yield from waiting[number:]
