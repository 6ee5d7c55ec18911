"""Files of a restore on their way to a source: compared with the manifest in a folder on this host, then copied on."""

import os
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from engines.restores.at_source import FOLDER_THERE, OPTIONS, of_the_target
from engines.restores.replacing import Replacement
from storage.folders.beneath import NOT_A_NAME, Beneath
from storage.points.files import FileMatch, differs, nanoseconds, path_in
from storage.points.manifests import Entry
from storage.points.moving import TransferProgress
from storage.points.refusals import FINAL, ONE_AT_A_TIME
from storage.restoring.base import NOT_TAKEN, RunningRestore

PARTIAL = re.compile(r"\.[0-9a-f]{8}\.partial$")
"""The end of the name of a file that rclone has not renamed yet: of a file that it cannot replace it names that one."""


@dataclass
class ScratchBatch:
    """A batch of files on its way to `target`, an rclone argument, through a folder on this host. `differing`: the
    paths that are replaced, by `replacing`. `same`: finds out whose bytes are at the source.
    """

    restore: RunningRestore
    target: str
    folder: Path
    differing: set[str]
    replacing: Replacement
    same: Callable[[list[Entry]], set[str]]
    trees: int = 0
    unnamed: dict[str, Entry] = field(default_factory=dict)
    """The files that no disk on this host takes under their names, by the path to which they go first."""

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
            home, staged = path_in(tree, self._way_of(entry.path)), path_in(self._staged, entry.place)
            try:
                os.makedirs(os.path.dirname(home), exist_ok=True)
                os.link(staged, home)
            except (FileExistsError, NotADirectoryError):
                later.append(entry)
                continue
            except OSError as error:
                if error.errno not in NOT_A_NAME:
                    raise
                self.unnamed[self._way_of(entry.path)], home = entry, staged
            with suppress(ValueError, OverflowError):  # its repository may store no time
                at = nanoseconds(entry.modified)
                os.utime(home, ns=(at, at))
            put.append(entry)
        problems = self._copy(tree, [each.path for each in put if each.path not in self.differing], "--ignore-existing")
        problems |= self._replace(tree, [each for each in put if each.path in self.differing])
        for entry in put:
            if entry.path in problems:
                self.restore.fail(entry.path, problems[entry.path])
            else:
                self.restore.count(entry)
        return later

    def _way_of(self, path: str) -> str:
        """The path to which a file goes first."""
        return self.replacing.beside(path) if path in self.differing else path

    def _replace(self, tree: Path, entries: list[Entry]) -> dict[str, str]:
        """Replace files of the source. Returns the reasons why some were not, by path or name. Raises: TargetFailed."""
        paths = {self._way_of(each.path): each.path for each in entries}
        found = self._copy(tree, list(paths), "--ignore-times")
        problems = {paths.get(name, name): why for name, why in found.items()}
        came = [each for each in entries if each.path not in problems]
        if strays := [why for name, why in found.items() if name not in paths]:  # it is not known which it is
            arrived = self.same([each._replace(path=self._way_of(each.path)) for each in came])
            missing = [each.path for each in came if self._way_of(each.path) not in arrived]
            problems |= dict.fromkeys(missing, strays[0])
            came = [each for each in came if each.path not in problems]
        not_moved = self.replacing.move(came)
        doubtful = [each for each in came if not_moved.get(each.path, FOLDER_THERE) != FOLDER_THERE]
        moved = self.same(doubtful) if doubtful else set()  # and the answer was lost
        return problems | {path: why for path, why in not_moved.items() if path not in moved}

    def _copy(self, tree: Path, paths: list[str], option: str) -> dict[str, str]:
        """Copy files to the source, and those that it does not accept once more, one at a time. Returns the reasons why
        some were not copied, by path, or by the name that rclone gives. Raises: TargetFailed if it accepts none.
        """
        moved, problems, named = TransferProgress(), dict[str, str](), dict[str, str]()

        def sign_of_life() -> tuple[int, int, str]:
            name, why = next(reversed(problems.items()), ("", ""))
            return moved.size, moved.files, name if FINAL.search(why) else ""  # a source that refuses files is alive

        watched: dict[str, Any] = {"on_line": moved.take, "sign_of_life": sign_of_life, "problems": problems}
        if unnamed := {each: self.unnamed.pop(each) for each in paths if each in self.unnamed}:
            paths = [each for each in paths if each not in unnamed]
        for tries in ((), ONE_AT_A_TIME):
            problems.clear()
            how = ("copy", "--no-traverse", option, "--stats=500ms", "--stats-log-level=ERROR", *OPTIONS, *tries)
            with of_the_target():
                self.restore.store.with_paths(paths, *how, str(tree), self.target, **watched)
                if problems:  # if the source is gone, each file reports the same
                    self.restore.store.run("lsf", "--max-depth=1", *OPTIONS, self.target, missing_ok=True)
            tried = {*paths}
            named = {name: why for name, why in named.items() if name not in tried}
            named |= {PARTIAL.sub("", name): why for name, why in problems.items()}
            if not (paths := [each for each in paths if each in named]):
                break
        return named | self._copy_as(unnamed, option)

    def _copy_as(self, entries: dict[str, Entry], option: str) -> dict[str, str]:
        """Copy files to the source, by the path that each gets there. Returns the reasons why some were not copied, by
        path. Raises: TargetFailed.
        """
        paths, problems = {each.place: path for path, each in entries.items()}, dict[str, str]()
        location = replace(self.restore.store.location, root=str(self._staged), directory=None)
        staged = replace(self.restore.store, location=location)
        with of_the_target():
            staged.copy_as("", self.target, paths, problems, option, *OPTIONS)
        return {paths[place]: f"{why} ({NOT_TAKEN})" for place, why in problems.items()}
