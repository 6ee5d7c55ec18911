"""Restores a point, or paths of it, into a folder of this host. Without Django: `recover` has no database.

Files are copied by rclone into a folder of their own in the target, `.restore-<point>.<digits>.unfinished`, compared
with the manifest there, and only then renamed to their places. So a file that is there is whole, an interrupted restore
goes on where it was, and what lay in the target is never written over unless that was asked for. Modes, times, links
and folders come from the manifest.

The target is opened once, and no link is followed, neither in its path nor below it (`folders/beneath.py`): its owner
may change it meanwhile.

It takes no lock. A run may replace a file between a look at the repository and the copy, retention may move it: a file
that does not come out as the manifest says is looked for again after a fresh look, a bounded number of times.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path

from storage.folders.beneath import LIST, Beneath, Staging
from storage.folders.flushing import flush
from storage.points.files import PERMISSIONS, Kept, differs, nanoseconds, put_attributes, relative, target_of
from storage.points.manifests import Entry
from storage.points.places import KEPT_TEXTS, Refused, Report, Restoring, Step, Wish, by_place, check_point
from storage.points.store import StorageFailed, Store
from storage.points.trees import Tree, opened
from storage.restoring import targets

TRIES = 5
WAIT_SECONDS = 0.5
"""Before a second look for a file that was not where it should be; longer before each further one."""
BATCH_FILES = 50_000
SAY_EVERY_SECONDS = 0.5
SHOWN = 3
CHANGED = (NotADirectoryError, FileNotFoundError, IsADirectoryError, FileExistsError)
"""What the system says of a place that is not as it was."""
ELSEWHERE = "look at that disk, and restore into a new folder on another one"


def restore(wish: Wish, store: Store, cache: Path, on_step: Callable[[Step], None] = lambda step: None) -> Report:
    """Restore into a folder of this host; block until done.

    Raises: Refused and NotThere before anything is written; StorageFailed, Stopped, OSError, after which the same
    restore goes on where it was.
    """
    with opened(store, wish.assignment, wish.point, cache) as tree:
        return _Restore(wish, store, tree, on_step).run()


def restore_to_stay(
    wish: Wish, store: Store, cache: Path, on_step: Callable[[Step], None] = lambda step: None
) -> Report:
    """`restore`, and wait until all of it is on the disk: no power cut takes it back then. That a disk did not take it
    is a failure in the report, and no exception: a second try would find it in memory as it should be."""
    report = restore(wish, store, cache, on_step)
    if not wish.dry_run:
        try:
            flush(Path(report.target), store.stop)
        except OSError as error:
            report.failed_files += 1
            report.failed.insert(0, f"{report.target}: its disk did not take all of it ({error.strerror}): {ELSEWHERE}")
    return report


class _Restore(Restoring):
    target: Beneath
    staging: Staging

    def __init__(self, wish: Wish, store: Store, tree: Tree, on_step: Callable[[Step], None]) -> None:
        self.path = Path(os.path.abspath(wish.target))
        super().__init__(wish, store, tree, str(self.path), on_step)
        self._made = {""}
        self._say_at = float("-inf")

    def run(self) -> Report:
        targets.check(self.path, self.store.location, self.tree)
        try:
            with targets.opened(self.path) as self.target:
                self._compare(self.target)
        except FileNotFoundError:
            self._compare(None)
        if self.wish.dry_run:
            return self.report
        targets.check_room(self.path, self.size)
        self.report.files = self.report.size = self.report.replaced = 0
        with targets.opened(self.path, make=True) as self.target:
            self.staging, is_done = Staging(self.target, f".restore-{self.wish.point}"), False
            self.store = replace(self.store, inherited=(*self.store.inherited, *self.staging.inherited))
            try:
                self._restore()
                is_done = True
            finally:
                self.staging.close(remove=is_done)
        return self.report

    def _restore(self) -> None:
        wanted = (entry for entry in self.entries("file") if self._state_of(entry) is not Kept.SAME)
        while batch := list(islice(wanted, BATCH_FILES)):
            self._copy(batch)
        for entry in self.entries("link"):
            self._link(entry)
        self._finish_folders()

    def _compare(self, target: Beneath | None) -> None:
        """Count what is there and what is to do. Raises: Refused when the target is not empty and that is no wish."""
        collisions, expected = 0, set()
        is_empty = target is None or not target.names()
        for entry in self.entries("file", "link"):
            state = Kept.MISSING if is_empty else self._state_of(entry)
            if not is_empty and not self.wish.overwrite:
                expected.add(relative(entry.path))
            if state is Kept.SAME:
                self.report.present += 1
                continue
            if state is Kept.OTHER:
                collisions += 1
                if len(self.report.collisions) < KEPT_TEXTS:
                    self.report.collisions.append(entry.path)
            self.report.files, self.report.size = self.report.files + 1, self.report.size + entry.size
            if entry.kind == "file":
                self.files, self.size = self.files + 1, self.size + entry.size
        self.report.folders = sum(1 for _ in self.entries("folder"))
        self.report.replaced = collisions
        if target is None or is_empty or self.wish.overwrite or self.wish.dry_run:
            return
        if collisions:
            names = ", ".join(self.report.collisions[:SHOWN]) + (", …" if collisions > SHOWN else "")
            files = "1 file that differs" if collisions == 1 else f"{collisions:,} files that differ"
            raise Refused(
                f"{self.path} holds {files} from this point ({names}); name an empty folder, or --overwrite to "
                "replace what differs"
            )
        if not self.wish.among and (foreign := targets.foreign(target, expected, self.ask)):
            raise Refused(
                f"{self.path} is not empty: it holds {foreign}; name an empty folder, or --overwrite to restore into "
                "it all the same: files that are not of this point stay"
            )

    def _state_of(self, entry: Entry) -> Kept:
        return differs(entry, self.target, alive=self.ask)

    def _copy(self, batch: list[Entry]) -> None:
        """Copy a batch of files and put them in place; look again for what did not come out as it should."""
        left = {entry.path: entry for entry in batch}
        trouble: StorageFailed | None = None
        for number in range(TRIES):
            failed_before, places = trouble, self.places(left)
            for place, paths in by_place(places).items():
                try:
                    size = sum(left[each].size for each in paths)
                    self.fetch(place, self.staging.outside, paths, size=size)
                except StorageFailed as error:
                    trouble = error
            doubtful = self._take(left, by_size=False)
            if doubtful and not trouble and self.places(left) == {path: places[path] for path in left}:
                # the repository keeps no times, and no run touched them meanwhile
                check_point(self.store, self.wish)
                self._take(left, by_size=True)
            if not left:
                return
            check_point(self.store, self.wish)
            if self.store.location.is_restic and trouble is failed_before:
                break  # a snapshot stays as it is, and restic has tried again
            self._wait(WAIT_SECONDS * number)
        if trouble and len(left) == len(batch):
            raise trouble
        self.report.lost += len(left)
        for path in left:
            self.fail(path, "the repository holds no file that is as the manifest of this point says")

    def _take(self, left: dict[str, Entry], *, by_size: bool) -> bool:
        """Put in place what came out as the manifest says, and forget what did not.

        `by_size`: also what only its size speaks for. Returns whether any such was left for that.
        """
        doubtful = False
        for entry in list(left.values()):
            self.ask()
            match differs(entry, self.staging.files, thorough=True, alive=self.ask):
                case Kept.MISSING:
                    continue
                case Kept.UNSURE if not by_size:
                    doubtful = True
                    continue
                case Kept.OTHER:
                    self.staging.files.unlink(relative(entry.path))
                    continue
            del left[entry.path]
            self._place(entry)
            self.count(entry)
            self.say(self.done_files, self.done_size)
        return doubtful

    def _place(self, entry: Entry) -> None:
        home = relative(entry.path)
        with self._unless_changed(entry):
            if self._make_room(entry, home):
                with self.staging.files.read(home) as staged:
                    self.staging.give(staged, home)
                    self._note(put_attributes(entry, staged))
                self.staging.put(home, home)
                self.report.files, self.report.size = self.report.files + 1, self.report.size + entry.size

    @contextmanager
    def _unless_changed(self, entry: Entry) -> Iterator[None]:
        """An entry whose place another one has changed meanwhile is one that failed, and the rest goes on."""
        try:
            yield
        except CHANGED as error:
            self.fail(entry.path, f"another one has changed its folder meanwhile ({error.strerror})")

    def _make_room(self, entry: Entry, home: bytes) -> bool:
        """Make the folders above; clear what is to be replaced. Returns whether it can be put."""
        if not self._make_folder(entry, entry.path.rpartition("/")[0]):
            return False
        if self.target.exists(home):
            if not self.wish.overwrite:
                return self.fail(entry.path, "a file of that name appeared meanwhile")
            if self.target.is_folder(home):
                return self.fail(entry.path, "there is a folder of that name")
            self.report.replaced += 1
        return True

    def _make_folder(self, entry: Entry, path: str) -> bool:
        """Make a folder with those above it, never through a link. Returns whether it is there."""
        if path in self._made:
            return True
        if not self._make_folder(entry, path.rpartition("/")[0]):
            return False
        folder = relative(path)
        if not self.target.is_folder(folder):
            if self.target.exists(folder):
                if not self.wish.overwrite:
                    return self.fail(entry.path, f"{self.path / os.fsdecode(folder)} is no folder")
                self.target.unlink(folder)
            known = self.tree.entry(path)
            # for us until it is finished, and never for more than it is for in the end
            mode = 0o777 if known is None or known.mode is None else known.mode & PERMISSIONS | 0o700
            self.staging.make_folder(folder, mode)
        self._made.add(path)
        return True

    def _link(self, entry: Entry) -> None:
        home, time = relative(entry.path), None
        with suppress(ValueError, OverflowError):
            time = nanoseconds(entry.modified) if entry.modified else None
        with self._unless_changed(entry):
            if self._state_of(entry) is Kept.SAME or not self._make_room(entry, home):
                return
            try:
                self.staging.make_link(home, target_of(entry), time)
            except OSError as error:
                if isinstance(error, CHANGED):
                    raise
                self._note([f"{entry.path}: the link to {entry.target} was not made: {error.strerror}"])
            self.report.files += 1

    def _finish_folders(self) -> None:
        """Make those that hold nothing; the times of all, the innermost first."""
        folders = list(self.entries("folder"))
        made = list[Entry]()
        for entry in folders:
            with self._unless_changed(entry):
                made += [entry] if self._make_folder(entry, entry.path) else []
        for entry in reversed(made):
            try:
                with self.target.read(relative(entry.path), LIST) as folder:
                    self._note(put_attributes(entry, folder))
            except OSError as error:
                self._note([f"{entry.path}: mode and time were not set: {error.strerror}"])

    def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.ask()
            time.sleep(0.05)

    def _note(self, not_set: list[str]) -> None:
        self.report.not_set += not_set[: KEPT_TEXTS - len(self.report.not_set)]

    def say(self, files: int, size: int) -> None:
        """Twice a second at the most, and at the end."""
        now = time.monotonic()
        if now >= self._say_at or files >= self.files:
            self._say_at = now + SAY_EVERY_SECONDS
            super().say(files, size)
