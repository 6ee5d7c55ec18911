"""Proves that the newest point of an assignment can be restored: all of it, or a sample of a large one, is restored
into scratch space and compared with the manifest; a database is restored into a separate server. Without Django.

Scratch space is a locked folder, which is removed at the end. The folder of a killed drill has lost its lock, and the
next drill removes it.
"""

import fcntl
import heapq
import os
import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from engines.limits import Space
from engines.restores import loading, mariadb, postgresql, sqlite
from engines.restores.scratch import Database, Scratch
from external.formatting import several
from storage.folders.own_folders import OwnFolders
from storage.folders.scratch import remove
from storage.points import runs
from storage.points.checking import GONE
from storage.points.exception_texts import exceptions_of
from storage.points.files import FileMatch, differs
from storage.points.manifests import Entry
from storage.points.store import Store
from storage.points.trees import NotThere, Tree, opened
from storage.restoring import into_folder
from storage.restoring.base import RestoreProgress, RestoreRefused, TargetFailed, Wish

ALL_FILES, SAMPLE_FILES, BYTES = 10_000, 1_000, 2**30
"""Up to ALL_FILES files and BYTES bytes, everything is restored; of a larger point, a sample of SAMPLE_FILES files with
at most BYTES bytes.
"""
SHOWN = 3
HOLDS_NOTHING = "the point is incomplete, and has no file: its backup could read none"
NOT_TRIED = "{}, whose names the disk of drills does not accept, such as {:.200}"


DATABASES = {"postgresql": postgresql, "mariadb": mariadb, "sqlite": sqlite}
"""Kind of source → the module that restores its dump: `create`, as a new database at the source; `drill`, into scratch
space; `FILES`, the names of the files that belong to a dump, the database first.
"""


@dataclass
class DrillResult:
    """The part of a point that was restored and compared; the point has `of_files` files. `tables`: the rows in each
    table.

    `notes`: the first things that a scratch server or folder cannot have. `error`: why the point is not proved; empty
    if it is. `lost`: files that did not come back as they were. `not_here`: why it is neither proved nor doubtful:
    something that this host lacks. `old_files`, `old`, `missing_files`, `missing`: the files that the whole point has
    as of an earlier one, and those that it lacks (`restoring.base.Report`), which cast no doubt on the others.
    """

    point: str
    of_files: int
    files: int = 0
    size: int = 0
    tables: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    error: str = ""
    lost: int = 0
    not_here: str = ""
    old_files: int = 0
    old: list[str] = field(default_factory=list)
    missing_files: int = 0
    missing: list[str] = field(default_factory=list)


def drill(
    store: Store,
    assignment: str,
    scratch: Scratch,
    on_step: Callable[[RestoreProgress], None] = lambda step: None,
    newest: str = "",
    source_kind: str = "",
) -> DrillResult:
    """Restore the newest point, or a sample of it, and compare; block until done. `newest`: the point that must be
    there: an older one proves nothing in its place. `source_kind`: as we know it, whatever the point says about itself.

    Raises: StorageFailed when it cannot be tried; StorageStopped; the exceptions of `into_folder.restore`.
    """
    points = runs.points(store, assignment)
    if not points:
        raise NotThere("the repository holds none of its points")
    if newest and newest not in points:
        return DrillResult(newest, of_files=0, error=GONE, lost=1)
    space = Space(Path(scratch.folder), scratch.reserve)
    # a separate cache: a manifest that was read earlier proves nothing about the one that is there now
    with _folder(Path(scratch.folder)) as folder, opened(store, assignment, points[-1], folder / "trees") as tree:
        kind, files = DATABASES.get(source_kind), folder / "files"
        sample = _sample(tree, space.room(), is_whole=kind is not None)
        if kind is not None:
            try:
                sample = loading.files_in(tree, kind.FILES)
            except RestoreRefused as error:
                return DrillResult(points[-1], tree.total()[0], error=str(error))
        paths = () if sample is None else tuple(each.path for each in sample)
        files.mkdir(mode=0o700)
        report = into_folder.restore(Wish(assignment, points[-1], files, paths), store, folder / "trees", on_step)
        done = DrillResult(points[-1], tree.total()[0], **asdict(exceptions_of(tree.exceptions())))
        wrong = _compare(tree.below("") if sample is None else sample, files, store, done)
        if wrong:
            done.lost = len(wrong)
            named = "; ".join((report.failed or wrong)[:SHOWN])
            of_all = f"{len(wrong)} of {several(done.files, 'file')}"
            done.error = f"{of_all} did not come back as listed in its manifest: {named}"
        elif not (done.of_files or tree.header.complete):
            done.error = HOLDS_NOTHING
        elif kind:
            database: Database = kind.drill(files, folder, scratch, space, store)
            done.tables, done.notes, done.error = database.tables, database.notes, "; ".join(database.wrong[:SHOWN])
            done.not_here = database.not_here
        return done


def _sample(tree: Tree, room: float, *, is_whole: bool) -> list[Entry] | None:
    """The files and links to restore; None if all are. Raises: StorageFailed when there is no room for them."""
    files, size = tree.total()
    if size <= room and (is_whole or (files <= ALL_FILES and size <= BYTES)):
        return None
    found = (each for each in tree.below("") if each.kind != "folder" and each.is_kept and each.size <= room)
    drawn = [] if is_whole else heapq.nsmallest(SAMPLE_FILES, found, key=lambda _: random.random())  # noqa: S311
    sample, left = drawn[:1], min(room, BYTES) - sum(each.size for each in drawn[:1])
    for each in drawn[1:]:
        if each.size <= left:
            sample.append(each)
            left -= each.size
    if not sample:
        raise TargetFailed(
            f"a drill needs room for {size:,} bytes, and {max(0, room):,.0f} may be written to its folder"
        )
    return sample


def _compare(entries: Iterator[Entry] | list[Entry], folder: Path, store: Store, done: DrillResult) -> list[str]:
    """Count the files that came back. Returns those that did not, or came back different. Notes those that the disk of
    drills cannot hold.
    """
    wrong, not_taken = list[str](), list[str]()
    with OwnFolders.opened(folder) as opened_folder:
        for entry in entries:
            if entry.kind == "folder" or not entry.is_kept:
                continue
            found = differs(entry, opened_folder, thorough=True, alive=store.check_stop)
            if found not in (FileMatch.SAME, FileMatch.UNSURE, FileMatch.NOT_A_NAME):
                wrong.append(f"{entry.path}: {found.value} came back")
            if found is FileMatch.NOT_A_NAME:
                not_taken.append(entry.path)
            else:
                done.files, done.size = done.files + 1, done.size + entry.size
    if not_taken:
        done.notes.append(NOT_TRIED.format(several(len(not_taken), "file"), not_taken[0]))
    return wrong


@contextmanager
def _folder(parent: Path) -> Iterator[Path]:
    """A folder that is removed afterwards. Folders that killed drills have left are removed first."""
    parent.mkdir(mode=0o711, parents=True, exist_ok=True)
    with _locked(parent, fcntl.LOCK_EX):
        for left in parent.iterdir():
            with suppress(BlockingIOError, FileNotFoundError), _locked(left, fcntl.LOCK_EX | fcntl.LOCK_NB):
                remove(left)
        folder = Path(tempfile.mkdtemp(dir=parent.resolve()))
        lock = os.open(folder, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
    folder.chmod(0o711)  # the account of the scratch server must pass through it
    try:
        yield folder
    finally:
        remove(folder)
        os.close(lock)


@contextmanager
def _locked(folder: Path, how: int) -> Iterator[None]:
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, how)
        yield
    finally:
        os.close(lock)
