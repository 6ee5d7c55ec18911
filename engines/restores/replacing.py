"""Replaces files of a server on which rclone uploads under the final name, and deletes what it failed to upload: an
upload that fails there would cost the old file, too.

    docs/backupsched-restore-5f3a91c4/a     the new file, in our own folder next to the old one, until it is whole
    docs/a                                  the old one, until the server moves the new one over it: one order

So whenever it ends, one of the two is there, and whole. A killed restore leaves those folders, which the next restore
of the folder above them removes once all files are there.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from engines.base import SourceSpec
from engines.limits import Later
from engines.rclone.restore_folders import OVER_FILES, new_name
from engines.restores.at_source import FOLDER_THERE, OPTIONS, of_the_target
from storage.places.location import LOSING, OVER
from storage.points.manifests import Entry
from storage.points.store import StorageFailed, StorageStopped, Store

WITH_VERSIONS = ("nextcloud", "owncloud", "infinitescale", "sharepoint", "sharepoint-ntlm")
"""Vendors whose servers take an upload whole or not at all. Shares and versions belong to the old file, and would be
lost if another one were moved over it; a deleted file is in a bin.
"""
SHOWN = 3
Order = tuple[str, str, dict[str, Any]]
"""The path that an order of rclone is about, its name, and its parameters."""
CLEARING_SECONDS = 3.0
"""Seconds that a restore which is stopped has left to remove its folders."""
MOVE = "operations/movefile"
TRIES = 3
"""Tries of each order but one to move, which may have been carried out."""
UNANSWERED = TRIES + 2
"""The number of tries in a row that fail, after which no further order is given: each may take a minute. A busy server
may fail to move a file, and to say what is there.
"""
NOT_MOVED = "it was not moved over the old file"
DROPPED = "{}; its server no longer has the old file there, and has the new one in {}"
KEPT = "{} at the source may have the only copy of a file that its name lacks: look there before you delete it"
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
    name: str = field(default_factory=new_name)
    folders: set[str] = field(default_factory=set)
    doubtful: dict[str, set[int]] = field(default_factory=dict)
    """Files that were to be moved, and of which it is not known that the old or the new one has their name → the sizes
    of these two.
    """

    def beside(self, path: str) -> str:
        """The path to which the new file goes: its own if it can replace the old one there."""
        if not self.is_needed:
            return path
        folder, _, name = path.rpartition("/")
        self.folders.add(ours := f"{folder}/{self.name}".lstrip("/"))
        return f"{ours}/{name}"

    def move(self, entries: Collection[Entry]) -> dict[str, str]:
        """Move new files over the old ones. Returns the reasons why some were perhaps not moved, by path. Raises:
        TargetFailed if the source does not answer, StorageStopped.
        """
        if not self.is_needed or not entries:
            return {}
        fs, problems, moved, gone = self.at_target.location.root, dict[str, str](), set[str](), set[str]()
        sizes = {each.path: {each.size} for each in entries}

        def orders() -> Iterator[Order]:
            for path in sizes:
                yield self._look_at(path)
                if path not in problems:
                    self.doubtful[path] = sizes[path]
                    both = {"srcFs": fs, "srcRemote": self.beside(path), "dstFs": fs, "dstRemote": path}
                    yield path, MOVE, both
                    if path not in moved:
                        yield self._look_at(path)

        def take(path: str, answer: dict[str, Any]) -> None:
            item = answer.get("item") or {}
            if error := answer.get("error"):
                problems.setdefault(path, error)
            elif "item" not in answer:
                moved.add(path)
                del self.doubtful[path]
            elif path in problems:
                gone.update({path} if not self._is_there(path, item) else ())
            elif item.get("IsDir"):  # a move over it would delete all that it holds
                problems[path] = FOLDER_THERE
            elif item:
                sizes[path].add(item["Size"])

        with of_the_target():
            self._order(self.at_target, orders(), take)
            if len(moved) < len(sizes):
                self.at_target.run("lsf", "--max-depth=1", *OPTIONS, fs)
        for path in gone:
            problems[path] = DROPPED.format(problems[path], self._folder_of(path))
            self.doubtful[path] = set()  # whatever has its name later: the folder is named, and so it stays
        return {path: problems.get(path, NOT_MOVED) for path in sizes if path not in moved}

    def _is_there(self, path: str, item: dict[str, Any]) -> bool:
        """True if this is the old or the new file, by its size, and not a part of one. Then nothing is in doubt."""
        if item.get("IsDir") or item.get("Size") not in self.doubtful[path]:
            return False
        del self.doubtful[path]
        return True

    def _look_at(self, path: str) -> Order:
        return path, "operations/stat", {"fs": self.at_target.location.root, "remote": path}

    @contextmanager
    def cleared(self) -> Iterator[None]:
        """Remove this restore's folders after the block, except those that may have the only file of a name."""
        try:
            yield
        finally:
            self._clear(self.folders)
            self._note_kept(map(self._folder_of, self.doubtful))

    def left_behind(self, there: Iterable[str], folders: Iterable[str]) -> dict[str, list[str]]:
        """The folders, of all these, that earlier restores have left, each with the paths to which the files in it were
        to be moved.
        """
        left = {each: list[str]() for each in folders if self.is_needed and OVER_FILES.fullmatch(each)}
        for folder, _, name in (each.rpartition("/") for each in there):
            if folder in left:
                left[folder].append(f"{folder.rpartition('/')[0]}/{name}".lstrip("/"))
        return left

    def clear_left(self, left: Mapping[str, Collection[str]], there: Set[str]) -> None:
        """Remove folders that earlier restores have left, except those of files that are not among `there`."""
        kept = {folder for folder, paths in left.items() if not there >= {*paths}}
        self._clear(left.keys() - kept)
        self._note_kept(kept)

    def _note_kept(self, folders: Iterable[str]) -> None:
        if kept := sorted({*folders}):
            self.note(KEPT.format(", ".join(kept[:SHOWN])))

    def _clear(self, folders: Collection[str]) -> None:
        """Remove folders of ours, except one that may have the only file that there is."""
        problems, ended = dict[str, str](), "rclone ended before that"

        def orders() -> Iterator[Order]:
            yield from map(self._look_at, sorted(self.doubtful))
            for folder in sorted({*folders} - {*map(self._folder_of, self.doubtful)}):
                yield folder, "operations/purge", {"fs": self.at_target.location.root, "remote": folder}
                if folder in problems:  # perhaps it was never made
                    yield self._look_at(folder)

        def take(path: str, answer: dict[str, Any]) -> None:
            if path in self.doubtful:
                self._is_there(path, answer.get("item") or {})
            elif error := answer.get("error"):
                problems.setdefault(path, error)
            elif not answer.get("item"):
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
        """Let one rclone carry out orders; `take` gets the last answer to each. Returns False if it ended before it had
        all of them, or if the source no longer answers.
        """
        from storage.places.remote_control import obeyed  # with http.client, a tenth of a child's start

        heard, in_a_row, last = 0, 0, dict[str, Any]()

        def given() -> Iterator[Order]:
            for order in orders:
                for _ in range(1 if order[1] == MOVE else TRIES):
                    yield order
                    if "error" not in last or in_a_row == UNANSWERED:
                        break
                take(order[0], last)
                if in_a_row == UNANSWERED:
                    break

        def taken(path: str, answer: dict[str, Any]) -> None:
            nonlocal heard, in_a_row, last
            heard, in_a_row, last = (heard, in_a_row + 1, answer) if "error" in answer else (heard + 1, 0, answer)

        def serve(how: tuple[str, ...]) -> None:
            store.run(*how, *OPTIONS, *OVER, sign_of_life=lambda: heard)

        return obeyed(serve, given(), taken, store.location.secrets) and in_a_row < UNANSWERED
