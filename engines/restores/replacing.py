"""Replaces files of a server on which rclone uploads under the final name, and deletes what it failed to upload: an
upload that fails there would cost the old file, too.

    docs/backupsched-restore-5f3a91c4/a     the new file, in a folder of our own beside the old one, until it is whole
    docs/a                                  the old one, until the server moves the new one over it: one order

So whenever it ends, one of the two is there, and whole. What a killed restore leaves is those folders, which the next
restore of the folder above them removes.
"""

import re
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from engines.base import SourceSpec
from engines.limits import Later
from engines.restores.at_source import FOLDER_THERE, OPTIONS, of_the_target
from storage.places.location import LOSING, OVER
from storage.points.store import StorageFailed, StorageStopped, Store

WITH_VERSIONS = ("nextcloud", "owncloud", "infinitescale", "sharepoint", "sharepoint-ntlm")
"""Vendors whose servers take an upload whole or not at all. Shares and versions belong to the old file, and would be
lost if another one were moved over it; a deleted file is in a bin.
"""
OURS = re.compile(r"(.+/)?backupsched-restore-[0-9a-f]{8}")
STAT = "operations/stat"
SHOWN = 3
Order = tuple[str, str, dict[str, Any]]
"""The path that an order of rclone is about, its name, and its parameters."""
CLEARING_SECONDS = 3.0
"""Seconds that a restore which is stopped has left to remove its folders."""
NOT_MOVED = "it was not moved over the old file"
DROPPED = "{}; its server has dropped the old file, and has the new one in {}"
NOT_CLEARED = "folders named {} could not all be removed at the source: delete them there ({})"


def is_needed(source: SourceSpec) -> bool:
    """True if files of this source are replaced by moving new ones over them."""
    kind = source.options.get("type") if source.kind == "rclone" else source.kind
    return kind in LOSING and source.options.get("vendor") not in WITH_VERSIONS


@dataclass
class Replacement:
    """The replacements of a restore. `at_target`: the place below which it restores, with the way there. `note`: takes
    a sentence for its report.
    """

    at_target: Store
    is_needed: bool
    note: Callable[[str], object]
    name: str = field(default_factory=lambda: f"backupsched-restore-{secrets.token_hex(4)}")
    folders: set[str] = field(default_factory=set)
    doubtful: set[str] = field(default_factory=set)
    """Files that were to be moved, and of which it is not known that the old or the new one has their name."""

    def beside(self, path: str) -> str:
        """The path to which the new file goes: its own if it can replace the old one there."""
        if not self.is_needed:
            return path
        folder, _, name = path.rpartition("/")
        self.folders.add(ours := f"{folder}/{self.name}".lstrip("/"))
        return f"{ours}/{name}"

    def move(self, paths: Collection[str]) -> dict[str, str]:
        """Move new files over the old ones. Returns the reasons why some were perhaps not moved, by path. Raises:
        TargetFailed if the source does not answer, StorageStopped.
        """
        if not self.is_needed or not paths:
            return {}
        fs, problems, moved = self.at_target.location.root, dict[str, str](), set[str]()

        def orders() -> Iterator[Order]:
            for path in paths:
                yield path, STAT, {"fs": fs, "remote": path}
                if path not in problems:
                    self.doubtful.add(path)
                    both = {"srcFs": fs, "srcRemote": self.beside(path), "dstFs": fs, "dstRemote": path}
                    yield path, "operations/movefile", both
                if path in self.doubtful:
                    yield path, STAT, {"fs": fs, "remote": path}

        def take(path: str, answer: dict[str, Any]) -> None:
            if error := answer.get("error"):
                problems.setdefault(path, str(error))
            elif "item" not in answer:
                moved.add(path)
            elif (answer["item"] or {}).get("IsDir"):  # a move over it would delete all that it holds
                problems.setdefault(path, FOLDER_THERE)
            if path in moved or answer.get("item"):
                self.doubtful.discard(path)

        with of_the_target():
            self._order(self.at_target, orders(), take)
            if len(moved) < len(paths):
                self.at_target.run("lsf", "--max-depth=1", *OPTIONS, fs)
        problems = {path: problems.get(path, NOT_MOVED) for path in paths if path not in moved}
        for path in self.doubtful & problems.keys():
            problems[path] = DROPPED.format(problems[path], self._folder_of(path))
        return problems

    @contextmanager
    def cleared(self, left_behind: Collection[str]) -> Iterator[None]:
        """Remove folders that a killed restore has left, and, after the block, those of this one."""
        if self.is_needed:
            self._clear(left_behind)
        try:
            yield
        finally:
            self._clear(self.folders)

    def _clear(self, folders: Collection[str]) -> None:
        """Remove folders of ours, except one that may have the only file that there is."""
        fs, problems, ended = self.at_target.location.root, dict[str, str](), "rclone ended before that"

        def orders() -> Iterator[Order]:
            for path in sorted(self.doubtful):
                yield path, STAT, {"fs": fs, "remote": path}
            for folder in sorted({*folders} - {*map(self._folder_of, self.doubtful)}):
                yield folder, "operations/purge", {"fs": fs, "remote": folder}
                if folder in problems:  # perhaps it was never made
                    yield folder, STAT, {"fs": fs, "remote": folder}

        def take(path: str, answer: dict[str, Any]) -> None:
            if error := answer.get("error"):
                problems.setdefault(path, str(error))
            elif answer.get("item"):
                self.doubtful.discard(path)
            else:
                problems.pop(path, None)

        if folders:
            store = replace(self.at_target, stop=Later(self.at_target.stop, CLEARING_SECONDS))
            try:
                problems |= {} if self._order(store, orders(), take) else {"": ended}
            except (StorageFailed, StorageStopped) as error:
                problems[""] = str(error) or ended
        if problems:
            names = sorted({each.rpartition("/")[2] for each in folders})
            self.note(NOT_CLEARED.format(", ".join(names[:SHOWN]), next(iter(problems.values()))))

    def _folder_of(self, path: str) -> str:
        return self.beside(path).rpartition("/")[0]

    def _order(self, store: Store, orders: Iterable[Order], take: Callable[[str, dict[str, Any]], None]) -> bool:
        """Let one rclone carry out orders. Returns False if it ended before it had all of them."""
        from engines.rclone.remote_control import obeyed  # with http.client, a tenth of a child's start

        answers = 0

        def taken(path: str, answer: dict[str, Any]) -> None:
            nonlocal answers
            answers += 1
            take(path, answer)

        def serve(how: tuple[str, ...]) -> None:
            store.run(*how, *OPTIONS, *OVER, sign_of_life=lambda: answers)

        return obeyed(serve, orders, taken)
