"""Brings the files that a run wants from a source into its folders of the repository, list by list, and checks which
have come.

rclone's report is not trusted: if a file vanishes while it is copied, rclone ends with code 0 and without a message. So
the folders are listed afterwards, and a file that is not there as requested is an exception of its point.
"""

import tempfile
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import IO

from engines.base import BackupTask, RunEnded, Verdict
from engines.rclone.collisions import Folders, is_quoted, needs_another_name
from engines.rclone.comparing import Item, PathDecision, is_wanted
from engines.rclone.log import LIMIT
from engines.rclone.options import copy_arguments
from engines.rclone.verdicts import Judgement
from storage import layout
from storage.places.rclone import LISTED
from storage.points import arrived_files
from storage.points.arrived_files import Arrived
from storage.points.batches import OF_A_LIST
from storage.points.entries import Entry
from storage.points.files import FIRST, LAST, is_time_of, nanoseconds
from storage.points.other_names import OF_A_NAME, name_for
from storage.points.refusals import FINAL, without_path
from storage.points.sorted_items import SortedItems
from storage.points.store import Store

ENDLESS = "far more bytes of it came than it had right before: its copy was ended"
NO_MESSAGE = "it was not there any more when it was to be copied"
UNNAMED = "it was not copied, like many others"
LATEST = 2**70
"""Nanoseconds since 1970: later than any time that a calendar has."""


@dataclass
class Lists:
    """The paths that a run wants, by the folder that they go to, in files for rclone. `on_list` gets the folder and the
    file of a list right before it is copied.
    """

    opened: ExitStack
    on_list: Callable[[str, str], None] = lambda folder, file: None
    by_folder: dict[str, list[IO[bytes]]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)

    def add(self, folder: str, path: str, size: int) -> None:
        if self.counts.get(folder, 0) % OF_A_LIST == 0:
            file = self.opened.enter_context(tempfile.NamedTemporaryFile())  # noqa: SIM115 - it does
            self.by_folder.setdefault(folder, []).append(file)
        self.counts[folder] = self.counts.get(folder, 0) + 1
        last = self.by_folder[folder][-1]
        self.sizes[last.name] = self.sizes.get(last.name, 0) + size
        last.write(path.encode("utf-8", "surrogatepass") + b"\0")

    def paths_for(self, folder: str) -> Iterator[str]:
        """The paths of one folder, in the order in which they were added."""
        for file in self.by_folder.get(folder, ()):
            file.flush()
            yield from Path(file.name).read_bytes().decode("utf-8", "surrogatepass").split("\0")[:-1]

    def each(self) -> Iterator[tuple[str, str, int]]:
        """The folder and the file of each list, and the bytes of what it lists."""
        for folder, files in self.by_folder.items():
            for file in files:
                file.flush()
                self.on_list(folder, file.name)
                yield folder, file.name, self.sizes[file.name]


@dataclass
class WantedFiles:
    """The files to bring, collected as the items pass by. `is_local`: True if they come from a folder on this host.
    `asked`: the number of paths about which the source is asked. `renamed`: paths with their places; `sizes`: their
    sizes.
    """

    run: str
    lists: Lists
    is_local: bool = False
    renamed: list[tuple[str, str]] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    files: int = 0
    size: int = 0
    asked: int = 0

    def __post_init__(self) -> None:
        self._folders = Folders(self.run)

    def placed(self, items: Iterable[Item]) -> Iterator[Item]:
        """The items, the wanted ones with the folders that they go to."""
        for item in items:
            if item.state is not PathDecision.WANTED:
                self.asked += item.state is PathDecision.ASKED
                yield item
                continue
            self.files, self.size = self.files + 1, self.size + item.entry.size
            if needs_another_name(item.path) or (self.is_local and is_quoted(item.path)):
                entry = self.rename(item.entry)
            else:
                entry = item.entry._replace(folder=self._folders.folder_for(item.path))
                self.lists.add(entry.folder, item.path, entry.size)
            yield item._replace(entry=entry)

    def rename(self, entry: Entry) -> Entry:
        """The entry with another name in the repository, one that any repository keeps; if it has such a name, with a
        second one.
        """
        name = name_for(f"{entry.path}/" if entry.stored else entry.path)  # which is not a path
        entry = entry._replace(folder=layout.folder_of(self.run, layout.RENAMED), stored=name)
        self.renamed.append((entry.path, entry.place))
        self.sizes[entry.path] = entry.size
        return entry

    @property
    def folders(self) -> list[str]:
        """The folders that hold files of the run."""
        of_renamed = [layout.folder_of(self.run, layout.RENAMED)] if self.renamed else []
        return [*self.lists.counts, *of_renamed]

    def have_come(self, came: "BroughtFiles") -> bool:
        """True if the files that have come are those that were asked for, and no others, and none needed another name
        or folder. Their names alone show it, without a pass over the items.
        """
        main = layout.folder_of(self.run)
        return self.folders == [main] and came.are(self.lists.paths_for(main))


@dataclass
class BroughtFiles:
    """The files in the folders of a run: those of the first folder, sorted; those of the others, which hold few, by
    place.
    """

    first: SortedItems[tuple[str, Arrived]]
    others: dict[str, Arrived] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return self.first.count + len(self.others)

    def are(self, paths: Iterable[str]) -> bool:
        """True if they are exactly these, sorted, all in the first folder."""
        return not self.others and all(one == other for one, other in zip_longest(paths, (at for at, _ in self.first)))


@dataclass
class Problems:
    """The reasons why single files were not copied: `by_path`, and the number of failed files whose names are not known
    (`unnamed`). `is_silent`: True if one did not answer, which may mean the whole source. `stood_still`: True if an
    rclone hung in the middle of a list.
    """

    by_path: dict[str, str] = field(default_factory=dict)
    unnamed: int = 0
    is_silent: bool = False
    stood_still: bool = False

    def why(self, path: str) -> str:
        why = self.message_of(path) or (UNNAMED if self.unnamed else NO_MESSAGE)
        return ENDLESS if LIMIT in why else why

    def may_pass(self, path: str) -> bool:
        """True if another try may bring the file, one at a time. Its name stays refused, and would be renamed no more
        if the second answer were lost.
        """
        why = without_path(self.message_of(path), path)
        return bool(why or self.unnamed) and not (FINAL.search(why) or OF_A_NAME.search(why))

    def is_final(self, path: str) -> bool:
        """True if another try would not bring the file."""
        return FINAL.search(without_path(self.message_of(path), path)) is not None

    def message_of(self, path: str) -> str:
        """The message about a file, or about a folder above it: rclone lists the names of a list again, and about a
        folder that it cannot list it reports that, and nothing about the files.
        """
        while path:
            if why := self.by_path.get(path, ""):
                return why
            path = path.rpartition("/")[0]
        return ""


def bring(task: BackupTask, lists: Lists, run: Callable[..., Judgement], *how: str) -> Problems:
    """Copy each list into its folder. `run`: runs rclone (`RcloneRun.transfer`); `how`: additional arguments of rclone.
    Raises: RunEnded for an error that concerns all files.
    """
    problems = Problems()
    for folder, file, size in lists.each():
        target = task.location.at(f"{layout.files_path(task.folder)}/{folder}")
        judgement = run(copy_arguments(task, target, LISTED + file, *how), size, folder=folder)
        if not judgement.stood_still:
            check(judgement)
        problems.stood_still |= judgement.stood_still
        problems.by_path |= {each.path: each.message.removeprefix("Failed to copy: ") for each in judgement.problems}
        problems.unnamed += judgement.unnamed
        problems.is_silent |= judgement.is_silent
    return problems


def check(judgement: Judgement) -> None:
    """Check the verdict on a run of rclone. Raises: RunEnded if rclone achieved nothing."""
    if judgement.verdict not in (Verdict.SUCCEEDED, Verdict.WARNINGS):
        raise RunEnded(judgement.verdict, judgement.text)


def look(
    store: Store, folder: str, run: str, folders: Iterable[str], came: BroughtFiles, cut: Container[str] = ()
) -> None:
    """List the files in the folders of a run, without the places where something was cut."""
    main = layout.folder_of(run)

    def take(place: str, found: Arrived) -> None:
        if place in cut:
            return
        name, _, path = place.partition("/")
        if name == main:
            came.first.add((path, found))
        else:
            came.others[place] = found

    arrived_files.look(store, folder, folders, take)


def is_as_wanted(found: Arrived, entry: Entry) -> bool:
    """True if a file has come as it was listed. A different time means different content, although the source may have
    the listed content again by now.
    """
    size, modified = found
    if size != entry.size or not (entry.modified and modified):
        return size == entry.size
    if modified == entry.modified:
        return True
    with suppress(ValueError, OverflowError):  # a time that no calendar has
        there = nanoseconds(modified)
        return is_time_of(entry, there) or _is_cut(there, entry.modified)
    return False


def _is_cut(found: int, wanted: str) -> bool:
    """True if a disk may have cut the wanted time to its calendar, and so to the one that was found."""
    try:
        time = nanoseconds(wanted)
    except (ValueError, OverflowError):  # of a year after 9999
        time = LATEST
    return time < found <= FIRST or LAST <= found < time


def with_arrived(items: Iterable[Item], came: BroughtFiles, run: str) -> Iterator[tuple[Item, Arrived | None]]:
    """Each item, with the file that was brought for it; None if none was."""
    main, found = layout.folder_of(run), iter(came.first)
    at = next(found, None)
    for item in items:
        if not is_wanted(item):
            yield item, None
            continue
        entry = item.entry
        if entry.folder == main and not entry.stored:
            while at is not None and at[0] < item.path:
                at = next(found, None)
            yield item, at[1] if at is not None and at[0] == item.path else None
        else:
            yield item, came.others.get(entry.place)


def with_places(items: Iterable[Item], came: Mapping[str, str], kept: Collection[str]) -> Iterator[Item]:
    """The items, with the new places of those that have some (path → place), and those of `kept` as doubtful."""
    for item in items:
        if is_wanted(item) and item.path in came:
            folder, _, name = came[item.path].partition("/")
            yield item._replace(entry=item.entry._replace(folder=folder, stored=name))
        elif is_wanted(item) and item.path in kept:
            yield item._replace(entry=item.entry._replace(doubtful=True))
        else:
            yield item
