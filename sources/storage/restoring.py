"""Restores a point, or paths of it, into a folder of this host. Without Django: `recover` has no database.

Files are copied by rclone into a folder of their own in the target, `.restore-<point>.unfinished`, compared with the
manifest there, and only then renamed to their places. So a file that is there is whole, an interrupted restore goes on
where it was, and what lay in the target is never written over unless that was asked for. Modes, times, links and
folders come from the manifest.

It takes no lock. A run may replace a file between a look at the repository and the copy, retention may move it: a file
that does not come out as the manifest says is looked for again after a fresh look, a bounded number of times.
"""

import os
import shutil
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from sources.storage import targets
from sources.storage.files import PERMISSIONS, Kept, differs, path_in, put_attributes, put_link
from sources.storage.flushing import flush
from sources.storage.manifests import Entry
from sources.storage.places import KEPT_TEXTS, Refused, Report, Restoring, Step, Wish, by_place, check_point
from sources.storage.store import StorageFailed, Store
from sources.storage.trees import Tree, opened

TRIES = 5
WAIT_SECONDS = 0.5
"""Before a second look for a file that was not where it should be; longer before each further one."""
BATCH_FILES = 50_000
SAY_EVERY_SECONDS = 0.5
SHOWN = 3
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
    def __init__(self, wish: Wish, store: Store, tree: Tree, on_step: Callable[[Step], None]) -> None:
        self.target = Path(os.path.abspath(wish.target))
        super().__init__(wish, store, tree, str(self.target), on_step)
        self.staging = self.target / f".restore-{wish.point}.unfinished"
        self._made = {""}
        self._say_at = float("-inf")

    def run(self) -> Report:
        targets.check(self.target, self.store.location, self.tree)
        self._compare()
        if self.wish.dry_run:
            return self.report
        targets.check_room(self.target, self.size)
        self.report.files = self.report.size = self.report.replaced = 0
        self.target.mkdir(parents=True, exist_ok=True)
        self.staging.mkdir(mode=0o700, exist_ok=True)
        wanted = (entry for entry in self.entries("file") if self._state_of(entry) is not Kept.SAME)
        while batch := list(islice(wanted, BATCH_FILES)):
            self._copy(batch)
        for entry in self.entries("link"):
            self._link(entry)
        self._finish_folders()
        shutil.rmtree(self.staging)
        return self.report

    def _compare(self) -> None:
        """Count what is there and what is to do. Raises: Refused when the target is not empty and that is no wish."""
        collisions, expected = 0, set()
        is_empty = not self.target.is_dir() or not os.listdir(self.target)
        for entry in self.entries("file", "link"):
            state = Kept.MISSING if is_empty else self._state_of(entry)
            if not is_empty and not self.wish.overwrite:
                expected.add(path_in(self.target, entry.path))
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
        if is_empty or self.wish.overwrite or self.wish.dry_run:
            return
        if collisions:
            names = ", ".join(self.report.collisions[:SHOWN]) + (", …" if collisions > SHOWN else "")
            files = "1 file that differs" if collisions == 1 else f"{collisions:,} files that differ"
            raise Refused(
                f"{self.target} holds {files} from this point ({names}); name an empty folder, or --overwrite to "
                "replace what differs"
            )
        if not self.wish.among and (foreign := targets.foreign(self.target, self.staging, expected, self.ask)):
            raise Refused(
                f"{self.target} is not empty: it holds {foreign}; name an empty folder, or --overwrite to restore into "
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
                    self.fetch(place, str(self.staging), paths)
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
            staged = path_in(self.staging, entry.path)
            match differs(entry, self.staging, thorough=True, alive=self.ask):
                case Kept.MISSING:
                    continue
                case Kept.UNSURE if not by_size:
                    doubtful = True
                    continue
                case Kept.OTHER:
                    os.unlink(staged)
                    continue
            del left[entry.path]
            self._place(entry, staged)
            self.count(entry)
            self.say(self.done_files, self.done_size)
        return doubtful

    def _place(self, entry: Entry, staged: bytes) -> None:
        home = path_in(self.target, entry.path)
        if self._make_room(entry, home):
            self._note(put_attributes(entry, staged))
            os.rename(staged, home)
            self.report.files, self.report.size = self.report.files + 1, self.report.size + entry.size

    def _make_room(self, entry: Entry, home: bytes) -> bool:
        """Make the folders above; clear what is to be replaced. Returns whether it can be put."""
        if not self._make_folder(entry, entry.path.rpartition("/")[0]):
            return False
        if os.path.lexists(home):
            if not self.wish.overwrite:
                return self.fail(entry.path, "a file of that name appeared meanwhile")
            if os.path.isdir(home) and not os.path.islink(home):
                return self.fail(entry.path, "there is a folder of that name")
            self.report.replaced += 1
        return True

    def _make_folder(self, entry: Entry, path: str) -> bool:
        """Make a folder with those above it, never through a link. Returns whether it is there."""
        if path in self._made:
            return True
        if not self._make_folder(entry, path.rpartition("/")[0]):
            return False
        folder = path_in(self.target, path)
        if os.path.islink(folder) or not os.path.isdir(folder):
            if os.path.lexists(folder):
                if not self.wish.overwrite:
                    return self.fail(entry.path, f"{os.fsdecode(folder)} is no folder")
                os.unlink(folder)
            known = self.tree.entry(path)
            # for us until it is finished, and never for more than it is for in the end
            os.mkdir(folder, 0o777 if known is None or known.mode is None else known.mode & PERMISSIONS | 0o700)
        self._made.add(path)
        return True

    def _link(self, entry: Entry) -> None:
        home = path_in(self.target, entry.path)
        if self._state_of(entry) is not Kept.SAME and self._make_room(entry, home):
            if os.path.lexists(home):
                os.unlink(home)
            self._note(put_link(entry, home))
            self.report.files += 1

    def _finish_folders(self) -> None:
        """Make those that hold nothing; the times of all, the innermost first."""
        folders = list(self.entries("folder"))
        made = [entry for entry in folders if self._make_folder(entry, entry.path)]
        for entry in reversed(made):
            self._note(put_attributes(entry, path_in(self.target, entry.path)))

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
