"""Restores a point, or paths of it, into a folder on this host. Without Django: `recover` has no database.

Files are copied by rclone, in lists of their places, into a separate folder in the target,
`.restore-<point>.<digits>.unfinished`, compared with the manifest there, and only then renamed to their places
(`placing.py`). So every file in its place is whole, an interrupted restore continues, and existing files in the target
are never overwritten unless that was requested. Owners, modes, times, attributes, links and folders come from the
manifest.

The target is opened once, and no link is followed, neither in its path nor below it (`folders/beneath.py`): its owner
may change it in the meantime.

A restore takes no lock: files in a repository never change. If a file does not match the manifest, it checks that the
point still exists: retention removes its manifest first.
"""

import os
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path

from storage.folders.beneath import Beneath
from storage.folders.flushing import flush
from storage.folders.own_folders import OwnFolders
from storage.folders.staging import StagingFolder, title_of
from storage.points.counted_paths import CountedPaths
from storage.points.files import FileMatch, differs, is_inside, relative
from storage.points.manifests import Entry
from storage.points.store import Store
from storage.points.trees import Tree, opened
from storage.restoring import targets
from storage.restoring.attributes import Owners, is_otherwise
from storage.restoring.base import (
    DENIED,
    KEPT_TEXTS,
    NOT_TAKEN,
    Report,
    RestoreProgress,
    RestoreRefused,
    RunningRestore,
    Wish,
)
from storage.restoring.placing import FilePlacement
from storage.restoring.shared_names import SHARED

BATCH_FILES = 50_000
SAY_EVERY_SECONDS = 0.5
SHOWN = 3
LEFT = (
    "files that were there already keep an owner or mode that is not that of the backup (to have that one, move them "
    "away and restore again)"
)
NOT_READ = "files that were there already could not be read by this account, and have the right size and time"
ELSEWHERE = "look at that disk, and restore into a new folder on another one"


def restore(
    wish: Wish, store: Store, cache: Path, on_step: Callable[[RestoreProgress], None] = lambda step: None
) -> Report:
    """Restore into a folder on this host; block until it is done.

    Raises: RestoreRefused and NotThere before anything is written; StorageFailed, StorageStopped, OSError, after which
    the same restore continues.
    """
    with opened(store, wish.assignment, wish.point, cache) as tree:
        return _FolderRestore(wish, store, tree, on_step).run()


def restore_to_stay(
    wish: Wish, store: Store, cache: Path, on_step: Callable[[RestoreProgress], None] = lambda step: None
) -> Report:
    """`restore`, and wait until all of it is on the disk: no power cut can undo it then. If a disk did not take
    everything, that is a failure in the report and not an exception: a second try would find the files in memory as
    they should be.
    """
    report = restore(wish, store, cache, on_step)
    if not wish.dry_run:
        try:
            flush(Path(report.target), store.stop)
        except OSError as error:
            report.failed_files += 1
            report.failed.insert(
                0, f"{report.target}: its disk could not hold everything ({error.strerror}): {ELSEWHERE}"
            )
    return report


class _FolderRestore(RunningRestore):
    target: OwnFolders
    staging: StagingFolder
    placing: FilePlacement

    def __init__(self, wish: Wish, store: Store, tree: Tree, on_step: Callable[[RestoreProgress], None]) -> None:
        self.path = Path(os.path.abspath(wish.target))
        super().__init__(wish, store, tree, str(self.path), on_step)
        self.owners, self.left = Owners(tree.header), CountedPaths()
        self.unlike = set[str]()  # existing files of the right size and time with another content
        self._say_at = float("-inf")

    def run(self) -> Report:
        targets.check(self.path, self.store.location, self.tree)
        try:
            with targets.opened(self.path) as self.target:
                self.target.lends = not self.wish.dry_run
                self._compare(self.target)
        except FileNotFoundError:
            self._compare(None)
        if self.wish.dry_run:
            return self.report
        targets.check_room(self.path, self.size)
        self.report.files = self.report.size = self.report.replaced = 0
        with targets.opened(self.path, make=True) as self.target:
            self.staging, is_done = StagingFolder(self.target, title_of(self.wish.assignment, self.wish.point)), False
            self.store = replace(self.store, inherited=(*self.store.inherited, *self.staging.inherited))
            self.placing = FilePlacement(self, self.target, self.staging)
            try:
                self._restore()
                is_done = True
            finally:
                self.staging.close(remove=is_done)
        return self.report

    def _restore(self) -> None:
        wanted = (entry for entry in self.entries("file") if self._is_wanted(entry))
        while batch := list(islice(wanted, BATCH_FILES)):
            self.bring(batch, self._fetch, self._take)
        if not self.files and self.report.folders and self._brings_folders:
            self._fetch([])
        for entry in self.entries("link"):
            if self._is_wanted(entry):
                self.placing.link(entry)
        self.placing.finish_folders()
        self.report.not_set += self.placing.not_set.sentences

    def _is_wanted(self, entry: Entry) -> bool:
        """True if a file or link is not in its place."""
        if entry.path in self.unlike:
            return True
        if (state := self._state_of(entry)) is FileMatch.NOT_A_NAME:
            return self.fail(entry.path, NOT_TAKEN)
        if state is FileMatch.NOT_ENTERED:
            return self.fail(entry.path, DENIED.format(self.target.reached))
        if state is not FileMatch.SAME:
            return True
        if holder := self.placing.shared.holder(entry):
            return self.fail(entry.path, SHARED.format(holder))
        self.placing.shared.note(entry)
        return False

    def _compare(self, target: Beneath | None) -> None:
        """Count the existing files and the files to restore. Raises: RestoreRefused if the target is not empty and that
        was not requested.
        """
        collisions, expected = 0, set()
        is_empty = target is None or not target.names()
        for entry in self.entries("file", "link"):
            state = FileMatch.MISSING if is_empty else self._read_state_of(entry)
            if not is_empty and not self.wish.overwrite:
                expected.add(relative(entry.path))
            if state in (FileMatch.SAME, FileMatch.NOT_READ):
                self.report.present += 1
                if state is FileMatch.NOT_READ:
                    self.left.add(NOT_READ, entry.path)
                self._note_otherwise(entry, target)
                continue
            if state is FileMatch.OTHER:
                collisions += 1
                if len(self.report.collisions) < KEPT_TEXTS:
                    self.report.collisions.append(entry.path)
            self.report.files, self.report.size = self.report.files + 1, self.report.size + entry.size
            if entry.kind == "file":
                self.files, self.size = self.files + 1, self.size + self._size_of(entry)
        self.report.not_set += self.left.sentences
        self.report.folders = sum(1 for _ in self.entries("folder"))
        self.report.replaced = collisions
        if target is None or is_empty or self.wish.overwrite or self.wish.dry_run:
            return
        if collisions:
            names = ", ".join(self.report.collisions[:SHOWN]) + (", …" if collisions > SHOWN else "")
            files = "1 file that differs" if collisions == 1 else f"{collisions:,} files that differ"
            raise RestoreRefused(
                f"{self.path} holds {files} from this point ({names}); name an empty folder, or --overwrite to "
                "replace what differs"
            )
        if not self.wish.among and (foreign := targets.foreign(target, expected, self.ask)):
            raise RestoreRefused(
                f"{self.path} is not empty: it holds {foreign}; name an empty folder, or restore into it all "
                "the same by --overwrite: files that are not in this point stay"
            )

    def _note_otherwise(self, entry: Entry, target: Beneath | None) -> None:
        """Note a file that is there already and belongs to another account, or may be read by others."""
        with suppress(OSError):
            if target and entry.kind == "file" and is_otherwise(entry, target.stat(relative(entry.path)), self.owners):
                self.left.add(LEFT, entry.path)

    def _state_of(self, entry: Entry) -> FileMatch:
        return differs(entry, self.target, alive=self.ask)

    def _read_state_of(self, entry: Entry) -> FileMatch:
        """The same by its content if that is known: whatever damages a file may leave its size and time. It is read
        once, and not again when its turn comes.
        """
        state = differs(entry, self.target, thorough=True, alive=self.ask)
        if state is FileMatch.OTHER and self._state_of(entry) is FileMatch.SAME:
            self.unlike.add(entry.path)
        return state

    def _size_of(self, entry: Entry) -> int:
        """The bytes of an entry, or 0 for a further name of a file."""
        is_further = entry.linked and any(entry.linked == top or is_inside(entry.linked, top) for top in self.tops)
        return 0 if is_further else entry.size

    def _fetch(self, entries: list[Entry]) -> None:
        """Copy files into the staging folder, each place once."""
        sizes = {each.place: each.size for each in entries if self._staged(each) is not FileMatch.SAME}
        places = list(sizes)
        if self._brings_folders and len(sizes) == self.files:  # all that was requested: it costs no more
            places += [f"{self.wish.point}/{top}" for top in self.tops]
        self.fetch(places, self.staging.outside, size=sum(sizes.values()))

    @property
    def _brings_folders(self) -> bool:
        """True if the repository copies empty folders out as well, with their attributes, and nothing that was
        requested is in its place.
        """
        has_attributes = self.store.location.is_restic and self.tree.header.source_kind == "local"
        return has_attributes and not self.report.present

    def _take(self, entries: list[Entry]) -> list[Entry]:
        """Put the files in place that came out as in the manifest. Returns the rest."""
        uses, left = Counter(each.place for each in entries), list[Entry]()
        known: dict[tuple[object, ...], FileMatch] = {}
        for entry in entries:
            self.ask()
            key = (entry.place, entry.size, entry.digest)
            state = known.get(key) or self._staged(entry)
            uses[entry.place] -= 1
            # without a matching digest or time, its size is enough: nothing else was ever put in this place
            if state not in (FileMatch.SAME, FileMatch.UNSURE):
                left.append(entry)
                continue
            if uses[entry.place]:
                known[key] = state
            if self.placing.file(entry, is_last=not uses[entry.place]):
                self.report.files, self.report.size = self.report.files + 1, self.report.size + entry.size
            self.count(entry._replace(size=self._size_of(entry)))
            self.say(self.done_files, self.done_size)
        return left

    def _staged(self, entry: Entry) -> FileMatch:
        """Compare it with the file in the staging folder; a file that differs is removed there."""
        there = entry._replace(path=entry.place)
        state = differs(there, self.staging.files, thorough=True, alive=self.ask)
        if state is FileMatch.OTHER:
            self.staging.files.unlink(relative(entry.place))
        return state

    def say(self, files: int, size: int) -> None:
        """Report at most twice a second, and at the end."""
        now = time.monotonic()
        if now >= self._say_at or files >= self.files:
            self._say_at = now + SAY_EVERY_SECONDS
            super().say(files, size)
