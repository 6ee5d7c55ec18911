"""Files that a repository keeps under other names than it was given: HFS+ decomposes accents, Samba may have one case
for all names, and some servers trim names or replace characters.

The names of a run's files are compared both ways. A file that was asked for and is not there, or is refused because of
its name, is copied once more, under a name that any repository keeps (`WantedFiles.rename`); its manifest maps that to
its true name. A file that is there and was not asked for is deleted. If no such file can be a missing one, the missing
file may have replaced another of its size and time, whether or not it can still be copied: such files are copied again
as well. A file that was refused before anything was stored has replaced none.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress

from engines.rclone.bringing import BroughtFiles, Problems, is_as_wanted
from engines.rclone.comparing import Item, is_wanted
from storage import layout
from storage.points.arrived_files import Arrived
from storage.points.entries import Entry
from storage.points.files import nanoseconds, within_calendars
from storage.points.manifests import side_by_side
from storage.points.other_names import OF_A_NAME
from storage.points.refusals import without_path

PORTABLE = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]*(?:/[0-9A-Za-z][0-9A-Za-z._-]*)*")
"""Paths that each repository keeps, but for their case; and no two in one folder of a run differ by case alone."""
NOT_OPENED = ("failed to open source object", "failed to open directory")
"""The beginnings of rclone's messages about files that it could not read: it stores nothing before."""
SECONDS = 2
"""The most seconds between two times that may be the same, as file systems cut them."""


def strays(items: Iterable[Item], came: BroughtFiles, run: str) -> Iterator[tuple[str, Arrived]]:
    """The files in the folders of a run for which no item asked, by place."""
    main, others = layout.folder_of(run), dict(came.others)

    def asked() -> Iterator[tuple[str]]:
        for item in items:
            if not is_wanted(item):
                continue
            if item.entry.folder == main and not item.entry.stored:
                yield (item.path,)
            else:
                others.pop(item.entry.place, None)

    for wanted, found in side_by_side(asked(), came.first):
        if wanted is None and found is not None:
            yield f"{main}/{found[0]}", found[1]
    yield from others.items()


def may_be_renamed(path: str, problems: Problems, *, is_any_stray: bool) -> bool:
    """True if a missing file may come under another name: rclone gave no reason, or its name, or there are files that
    were not asked for.
    """
    why = problems.message_of(path)
    return is_any_stray or not (why or problems.unnamed) or OF_A_NAME.search(without_path(why, path)) is not None


def refused(problems: Problems) -> set[str]:
    """The paths of files and folders that were refused before anything was stored."""
    return {
        path
        for path, why in problems.by_path.items()
        if why.startswith(NOT_OPENED) or OF_A_NAME.search(without_path(why, path))
    }


def is_refused(path: str, refused: Collection[str]) -> bool:
    """True if a path, or a folder above it, is among those that were refused."""
    while path and path not in refused:
        path = path.rpartition("/")[0]
    return bool(path)


class UnexplainedFiles:
    """The sizes and times of missing files, without those that a file which was not asked for can be. Empty files are
    nevertheless, and are left out. `is_timed`: True if the repository's times are known.
    """

    def __init__(self, *, is_timed: bool) -> None:
        self._is_timed = is_timed
        # odd: may have another name in the repository, and so may have replaced others
        self._all, self._odd = _Times(), _Times()

    def add(self, path: str, size: int, modified: str) -> None:
        if size:
            time = modified if self._is_timed else ""
            self._all.add(size, time)
            if not PORTABLE.fullmatch(path):
                self._odd.add(size, time)

    def explain(self, found: Arrived) -> None:
        """Take out one missing file that can be the one that was found, if there is any."""
        if like := next(self._all.like(found), None):
            counts, time = like
            counts[time] -= 1
            if not counts[time]:
                del counts[time]

    def may_be(self, found: Arrived) -> bool:
        """True if a missing file may have replaced the one that was found."""
        return all(next(each.like(found), None) for each in (self._odd, self._all))


class _Times:
    """The number of files of a size and time, found by about that time."""

    def __init__(self) -> None:
        self._known = defaultdict[int, defaultdict[int, Counter[str]]](lambda: defaultdict(Counter))

    def add(self, size: int, time: str) -> None:
        self._known[size][_second(time)][time] += 1

    def like(self, found: Arrived) -> Iterator[tuple[Counter[str], str]]:
        size, modified = found
        if not (known := self._known.get(size)):
            return
        at = _second(modified)
        for near in {0, *range(at - SECONDS, at + SECONDS + 1)} & known.keys():
            for time in known[near]:
                if is_as_wanted(found, Entry("", size=size, modified=time)):
                    yield known[near], time


def _second(modified: str) -> int:
    with suppress(ValueError, OverflowError):
        return within_calendars(nanoseconds(modified)) // 10**9
    return 0
