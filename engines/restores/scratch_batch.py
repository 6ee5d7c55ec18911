"""Files of a restore on their way to a source: compared with the manifest in a folder of this host, then copied on."""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engines.rclone.bringing import FINAL, ONE_AT_A_TIME
from storage.folders.beneath import Beneath
from storage.points.files import FileMatch, differs, nanoseconds, path_in
from storage.points.manifests import Entry
from storage.points.moving import TransferProgress
from storage.points.store import StorageFailed
from storage.restoring.base import RunningRestore, TargetFailed

PARTIAL = re.compile(r"\.[0-9a-f]{8}\.partial$")
"""The end of the name of a file that rclone has not renamed yet: of a file that it cannot replace it names that one."""
OPTIONS = ("--contimeout=60s", "--timeout=300s", "--low-level-retries=3")
"""Options of each rclone that talks to a source."""


@contextmanager
def of_the_target() -> Iterator[None]:
    """Take a failure in the block for one of the target. Raises: TargetFailed."""
    try:
        yield
    except StorageFailed as error:
        raise TargetFailed(str(error)) from error


@dataclass
class ScratchBatch:
    """A batch of files on its way to `target`, an rclone argument, through a folder of this host. `differing`: the
    paths that are replaced. `same`: finds out whose bytes are at the source.
    """

    restore: RunningRestore
    target: str
    folder: Path
    differing: set[str]
    same: Callable[[list[Entry]], set[str]]
    trees: int = 0

    def bring(self, batch: list[Entry]) -> None:
        self.restore.bring(batch, self._fetch, self._take)

    @property
    def _staged(self) -> Path:
        return self.folder / "files"

    def _fetch(self, entries: list[Entry]) -> None:
        sizes = {each.place: each.size for each in entries}
        self.restore.fetch(list(sizes), str(self._staged), *OPTIONS, size=sum(sizes.values()))

    def _take(self, entries: list[Entry]) -> list[Entry]:
        """Copy to the source the files that came out as the manifest says. Returns the rest."""
        ready, left = list[Entry](), list[Entry]()
        self._staged.mkdir(exist_ok=True)
        with Beneath.opened(self._staged.resolve()) as staged:
            for entry in entries:
                there = entry._replace(path=entry.place)
                match = differs(there, staged, thorough=True, alive=self.restore.ask)
                is_right = match in (FileMatch.SAME, FileMatch.UNSURE)
                (ready if is_right else left).append(entry)
        while ready:
            ready = self._put(ready)
        return left

    def _put(self, entries: list[Entry]) -> list[Entry]:
        """Copy a tree of files to the source. Returns the files for which there was no place in it: in a bucket a file
        may have the name of a folder.
        """
        tree, later, put = self.folder / f"tree-{self.trees}", list[Entry](), list[Entry]()
        self.trees += 1
        for entry in entries:
            home, staged = path_in(tree, entry.path), path_in(self._staged, entry.place)
            try:
                os.makedirs(os.path.dirname(home), exist_ok=True)
                os.link(staged, home)
            except (FileExistsError, NotADirectoryError):
                later.append(entry)
                continue
            with suppress(ValueError, OverflowError):  # its repository may store no time
                at = nanoseconds(entry.modified)
                os.utime(home, ns=(at, at))
            put.append(entry)
        replacing = [each for each in put if each.path in self.differing]
        problems = self._copy(tree, [each.path for each in put if each.path not in self.differing], "--ignore-existing")
        problems |= (found := self._copy(tree, [each.path for each in replacing], "--ignore-times"))
        if strays := [why for name, why in found.items() if name not in self.differing]:  # it is not known which it is
            unsure = [each for each in replacing if each.path not in found]
            problems |= dict.fromkeys({each.path for each in unsure} - self.same(unsure), strays[0])
        for entry in put:
            if entry.path in problems:
                self.restore.fail(entry.path, problems[entry.path])
            else:
                self.restore.count(entry)
        return later

    def _copy(self, tree: Path, paths: list[str], option: str) -> dict[str, str]:
        """Copy files to the source, and those that it does not take once more, one at a time. Returns the reasons why
        some were not copied, by path, or by the name that rclone gives. Raises: TargetFailed if it takes none.
        """
        moved, problems, named = TransferProgress(), dict[str, str](), dict[str, str]()

        def sign_of_life() -> tuple[int, int, str]:
            name, why = next(reversed(problems.items()), ("", ""))
            return moved.size, moved.files, name if FINAL.search(why) else ""  # a source that refuses files lives

        watched: dict[str, Any] = {"on_line": moved.take, "sign_of_life": sign_of_life, "problems": problems}
        for tries in ((), ONE_AT_A_TIME):
            problems.clear()
            how = ("copy", "--no-traverse", option, "--stats=500ms", "--stats-log-level=ERROR", *OPTIONS, *tries)
            with of_the_target():
                self.restore.store.with_paths(paths, *how, str(tree), self.target, **watched)
                if problems:  # of a source that is gone, each file reports the same
                    self.restore.store.run("lsf", "--max-depth=1", *OPTIONS, self.target, missing_ok=True)
            tried = {*paths}
            named = {name: why for name, why in named.items() if name not in tried}
            named |= {PARTIAL.sub("", name): why for name, why in problems.items()}
            if not (paths := [each for each in paths if each in named]):
                break
        return named
