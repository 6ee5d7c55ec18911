"""The task of a restore, its progress and its result."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from external.formatting import on_one_line
from storage import layout
from storage.places.rclone import TargetFailed, expected
from storage.points import runs
from storage.points.exception_texts import exceptions_of
from storage.points.files import is_inside
from storage.points.manifests import Entry
from storage.points.store import StorageFailed, Store
from storage.points.trees import Tree

__all__ = [
    "Report",
    "RestoreProgress",
    "RestoreRefused",
    "RunningRestore",
    "TargetFailed",
    "Wish",
    "check_point",
    "tops_of",
]

KEPT_TEXTS = 100


IDLE_TRIES = 2
"""The number of tries without any file after which a failed copy is given up."""
NOT_AS_IT_SHOULD_BE = "the repository has no file that matches the manifest of this point"
NOT_TAKEN = (
    "the disk accepts no file of that name, which is too long or has an invalid character; RECOVER.txt in the "
    "repository says how to get its content"
)
DENIED = "permission denied: this account may not enter or change {}; let it, or restore into another folder"
Fetch = Callable[[list[Entry]], object]
"""Copies files out of the repository."""
Take = Callable[[list[Entry]], list[Entry]]
"""Uses the files that came out as in the manifest, and returns the others."""


class RestoreRefused(ValueError):
    """The restore cannot begin, and nothing was written. The message contains advice."""


@dataclass(frozen=True)
class Wish:
    """A request for a restore, with its target. `paths`: those to restore, or all if empty. `overwrite`: replace
    existing files that differ. `among`: True if the target holds other files, such as that of a source.
    """

    assignment: str
    point: str
    target: Path
    paths: tuple[str, ...] = ()
    overwrite: bool = False
    dry_run: bool = False
    among: bool = False


@dataclass(frozen=True)
class RestoreProgress:
    """The progress of a restore, in files and bytes of everything that it copies."""

    files_done: int
    files_total: int
    bytes_done: int
    bytes_total: int


@dataclass
class Report:
    """The files that were restored, or would be in a dry run. `present`: files that were there already, as they should
    be.

    `replaced`: files that were there and differed. `not_set`, `failed`: sentences, at most 100; `failed_files`: their
    full number. `complete`: nothing was left out of the point. `lost`: the number of failed files that the repository
    did not give; `elsewhere`: another place that has the point in that case, or advice about the rest, in a sentence.
    `what`: the unit of the failures, in the singular.

    For an incomplete point: `old_files`: those that are as of an earlier point, and `old` their age, a sentence for
    each point; `missing_files`: files and folders that are not in the point, and `missing` the first ones with the
    reason. They are not failures of the restore.
    """

    point: str
    target: str
    files: int = 0
    size: int = 0
    folders: int = 0
    present: int = 0
    replaced: int = 0
    collisions: list[str] = field(default_factory=list)
    not_set: list[str] = field(default_factory=list)
    failed_files: int = 0
    failed: list[str] = field(default_factory=list)
    lost: int = 0
    complete: bool = True
    elsewhere: str = ""
    what: str = "file"
    old_files: int = 0
    old: list[str] = field(default_factory=list)
    missing_files: int = 0
    missing: list[str] = field(default_factory=list)


class RunningRestore:
    """A restore at work: the request, the progress and the report. `target`: the target, as text.

    Raises: RestoreRefused and NotThere for paths that cannot be requested.
    """

    def __init__(
        self, wish: Wish, store: Store, tree: Tree, target: str, on_step: Callable[[RestoreProgress], None]
    ) -> None:
        self.wish, self.store, self.tree, self.on_step = wish, store, tree, on_step
        self.report = Report(wish.point, target, complete=tree.header.complete)
        self.tops = tops_of(wish, tree)
        exceptions = exceptions_of(tree.exceptions(), self.tops)
        self.report.old_files, self.report.old = exceptions.old_files, exceptions.old
        self.report.missing_files, self.report.missing = exceptions.missing_files, exceptions.missing
        self.files = self.size = self.done_files = self.done_size = 0

    def ask(self) -> None:
        """Raises: StorageStopped."""
        self.store.check_stop()

    def entries(self, *kinds: str) -> Iterator[Entry]:
        """The requested entries that the point has, each once. Raises: StorageStopped."""
        for top in self.tops:
            for number, entry in enumerate(self.tree.below(top)):
                if number % 1000 == 0:
                    self.ask()
                if entry.kind in kinds and entry.is_kept:
                    yield entry

    def bring(self, batch: list[Entry], fetch: Fetch, take: Take) -> None:
        """Copy a batch of files, which never change in the repository, out of it, and use them. An interrupted copy is
        repeated as long as files arrive. Files that are missing or not as they should be have failed. Raises:
        StorageFailed if none arrived.
        """
        left, idle = batch, 0
        trouble: StorageFailed | None = None
        while left and idle < IDLE_TRIES:
            before, trouble = len(left), None
            try:
                fetch(left)
            except StorageFailed as error:
                trouble = error
            left = take(left)
            if trouble is None:
                break
            idle = 0 if len(left) < before else idle + 1
        if not left:
            return
        check_point(self.store, self.wish)
        if trouble and len(left) == len(batch):
            raise trouble
        self.report.lost += len(left)
        for entry in left:
            self.fail(entry.path, NOT_AS_IT_SHOULD_BE + (f" ({trouble})" if trouble else ""))

    def say(self, files: int, size: int) -> None:
        """Report the progress: the number of copied files, and their bytes."""
        self.on_step(RestoreProgress(min(files, self.files), self.files, min(size, self.size), self.size))

    def fetch(self, places: list[str], target: str, *options: str, size: int) -> None:
        """Copy files of `size` bytes out of the repository, by their places. Raises: the errors of the store."""
        begun_files, begun_size = self.done_files, self.done_size

        def on_progress(files: int, size: int) -> None:
            self.say(begun_files + files, begun_size + size)

        files, tops = layout.files_path(self.wish.assignment), [f"{self.wish.point}/{top}" for top in self.tops]
        self.store.copy_out(files, target, places, on_progress, *options, tops=tops, most=expected(size))

    def count(self, entry: Entry) -> None:
        """Count one more finished file."""
        self.done_files, self.done_size = self.done_files + 1, self.done_size + entry.size

    def fail(self, path: str, why: str) -> bool:
        """Note a file that is not restored. Returns False."""
        self.report.failed_files += 1
        if len(self.report.failed) < KEPT_TEXTS:
            self.report.failed.append(on_one_line(f"{path}: {why}"))
        return False


def check_point(store: Store, wish: Wish) -> None:
    """Check, after a copy, that the point was there all the time: its manifest is removed first. Raises:
    StorageFailed.
    """
    if wish.point not in runs.points(store, wish.assignment):
        raise StorageFailed(
            f"point {wish.point} was removed by retention while it was restored; choose a later one, for a new target"
        )


def tops_of(wish: Wish, tree: Tree) -> list[str]:
    """The requested paths, each once, without any that is below another one. Raises: RestoreRefused, NotThere."""
    for path in wish.paths:
        if path.startswith("/") or ".." in path.split("/"):
            raise RestoreRefused(
                f"path {path!r} leads out of the source; name one as the source has it, without / before it"
            )
        tree.check(path.rstrip("/"))
    paths = [each.rstrip("/") for each in wish.paths] or [""]
    return [each for each in dict.fromkeys(paths) if not any(is_inside(each, other) for other in paths)]
