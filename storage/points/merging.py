"""Removes points in time of one assignment, and merges what they leave behind.

Let `before` and `point` be two kept points with none between them that stays.

1. The manifest of `before` is read. Where it is damaged, what `before` needs cannot be known: it is named, and
   the first point after it stays too, and takes its place. So it is with one that is to stay and is lost: put
   back, as from a copy, it finds all that it names.
2. The manifests of the points between them go. From then on these points are not there.
3. What no point names any more is merged. Of all runs after `before`, up to `point`, a path that `before` holds lies as
   it was in the first folder of `versions` that has it. These folders become one, `versions/<point>`: what `before`
   does not hold, and what an earlier one of them has as well, is deleted, and then the rest is moved. Nothing is
   written over, no file meets a folder in its place, and at each moment a reader finds each file of each kept point, in
   the first folder that has it.

Folders of runs up to the oldest kept point, and dumps without a manifest, are deleted.

What is there says what is to do, so a removal that was killed anywhere is finished by the next one; so are folders of
runs that failed. Runs after the newest point are left alone: one may be under way. Listed are folders that are to be
merged, and never `current`.

A foreign point (`known.py`) counts for nothing: it does not stay for another one, and none goes for it. What it may
name is left alone: between the points around it nothing is merged.
"""

import tempfile
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from storage import layout
from storage.points import manifests, runs
from storage.points.batches import batches
from storage.points.manifests import ManifestDamaged
from storage.points.store import StorageFailed, Store

BATCH = 2_000
"""Paths an rclone: it prints nothing, and must not seem to hang."""

OnProgress = Callable[[int, int], None]


@dataclass(frozen=True)
class Removed:
    """`points` that were removed, those that are still there, and the bytes of files that were deleted. `damaged`:
    points whose manifests cannot be read, so that what lies behind them was not merged."""

    points: tuple[str, ...]
    present: tuple[str, ...]
    freed: int
    damaged: tuple[str, ...] = ()


def remove(
    store: Store,
    assignment: str,
    points: Collection[str],
    *,
    stay: Collection[str] = (),
    lost: Collection[str] = (),
    on_progress: OnProgress = lambda files, freed: None,
) -> Removed:
    """Remove these points, as far as they are there, and finish what an earlier removal left. None of them goes where
    one that is to `stay` is not there: it was counted among what is kept, and the others are fewer than was meant.
    `lost`: those that are to stay, too, and are known not to be there.

    `on_progress` gets how many files were moved or deleted, and the bytes of the deleted ones. Raises: StorageFailed,
    also before anything when no point would stay; Stopped; ProgramMissing.
    """
    found, foreign = runs.points(store, assignment), runs.foreign(store, assignment)
    points = points if found and set(stay) <= set(found) else ()
    if not set(found) - set(points):
        raise StorageFailed(f"no point of {assignment} would stay, so none is removed: look whether its manifests are")
    work = _Merging(store, assignment, on_progress, {*stay, *lost}.difference(found), foreign)
    work.remove(layout.by_time({*found, *work.lost}), points)
    present = [name for name in found if name not in work.removed]
    work.delete_dumps(present)
    return Removed(tuple(work.removed), tuple(present), work.freed, tuple(work.damaged))


def remove_all(store: Store, assignment: str, *, on_progress: OnProgress = lambda files, freed: None) -> Removed:
    """Remove all points of an assignment with everything in its folder: the manifests first, so that none names what is
    gone. What was killed in the middle is finished by the next one. Missing is fine.

    `on_progress` as in `remove`. Raises: StorageFailed; Stopped; ProgramMissing.
    """
    points = runs.points(store, assignment)
    work = _Merging(store, assignment, on_progress)
    store.delete(f"{assignment}/{layout.MANIFESTS}")
    for run in store.names(f"{assignment}/{layout.VERSIONS}", folders=True):
        work.delete_all(work.versions(run))
    for folder in store.names(assignment, folders=True):
        work.delete_all(f"{assignment}/{folder}")
    store.delete(assignment)
    store.remove_empty_folders(assignment.partition("/")[0], leave_root=False)
    return Removed(tuple(points), (), work.freed)


@dataclass
class _Merging:
    store: Store
    assignment: str
    on_progress: OnProgress
    lost: Collection[str] = ()
    foreign: Collection[str] = ()
    removed: list[str] = field(default_factory=list, init=False)
    damaged: list[str] = field(default_factory=list, init=False)
    files: int = field(default=0, init=False)
    freed: int = field(default=0, init=False)

    def remove(self, found: Sequence[str], points: Collection[str]) -> None:
        versions = layout.by_time(self.store.names(f"{self.assignment}/{layout.VERSIONS}", folders=True))
        before, gone = None, list[str]()
        for point in found:
            if point in points:
                gone.append(point)
                continue
            while not self._is_merged(before, versions, point, gone) and gone:
                before, *gone = gone
            before, gone = point, []
        self._delete_manifests(gone)

    def _is_merged(self, before: str | None, versions: Sequence[str], point: str, gone: list[str]) -> bool:
        """Remove the points between two that stay; None: all before `point`. Returns False, and has removed nothing,
        where the manifest of `before` is damaged."""
        names = [run for run in versions if _is_between(before, run, point)]
        if any(_is_between(before, each, point) for each in self.foreign):
            self._delete_manifests(gone)
        elif before is None:
            self._delete_manifests(gone)
            for run in names:
                self.delete_all(self.versions(run))
        elif all(run == point for run in names):
            self._delete_manifests(gone)
        else:
            sizes = {run: self.store.sizes(self.versions(run)) for run in names}
            try:
                wanted = self._held(before, set[str]().union(*sizes.values()))
            except ManifestDamaged:
                self.damaged.append(before)
                return False
            self._delete_manifests(gone)
            self._merge(sizes, wanted, point)
        return True

    def _delete_manifests(self, points: Collection[str]) -> None:
        self.store.delete(f"{self.assignment}/{layout.MANIFESTS}", [each + layout.MANIFEST_ENDING for each in points])
        self.removed += points

    def delete_dumps(self, kept: Sequence[str]) -> None:
        for point in layout.by_time(self.store.names(f"{self.assignment}/{layout.POINTS}", folders=True)):
            if point not in {*kept, *self.lost, *self.foreign} and _is_between(None, point, kept[-1]):
                self.delete_all(f"{self.assignment}/{layout.POINTS}/{point}")

    def _merge(self, sizes: dict[str, dict[str, int]], wanted: set[str], point: str) -> None:
        for run, found in sizes.items():
            self._delete(self.versions(run), {path: size for path, size in found.items() if path not in wanted})
            sizes[run] = {path: size for path, size in found.items() if path in wanted}
            wanted -= sizes[run].keys()
        self.store.remove_empty_folders(self.versions(point))
        for run, found in sizes.items():
            if run != point:
                for paths in batches(found, BATCH):
                    self.store.move(self.versions(run), self.versions(point), paths)
                    self._count(len(paths))
                # no purge: rclone passes over a file that it cannot find by the name that it listed
                self.store.remove_empty_folders(self.versions(run), leave_root=False)

    def _held(self, point: str, paths: Collection[str]) -> set[str]:
        """Those of `paths` that a point holds."""
        with tempfile.TemporaryDirectory() as scratch:
            manifest, file = layout.manifest_path(self.assignment, point), Path(scratch) / point
            if not self.store.manifest(self.assignment, point, file):
                if point in self.lost:
                    raise ManifestDamaged(f"{manifest} is lost")
                raise StorageFailed(f"{manifest} went while points were removed; it is tried again")
            held = (entry.stored_path for entry in manifests.read(file) if entry.kind != "folder")
            return {path for path in held if path in paths}

    def delete_all(self, folder: str) -> None:
        self._delete(folder, self.store.sizes(folder))
        self.store.delete(folder)

    def _delete(self, folder: str, sizes: dict[str, int]) -> None:
        for paths in batches(sizes, BATCH):
            self.store.delete(folder, paths)
            self.freed += sum(sizes[path] for path in paths)
            self._count(len(paths))

    def _count(self, files: int) -> None:
        self.files += files
        self.on_progress(self.files, self.freed)

    def versions(self, run: str) -> str:
        return f"{self.assignment}/{layout.VERSIONS}/{run}"


def _is_between(before: str | None, run: str, point: str) -> bool:
    """Whether a run is later than `before` (None: there is none), and no later than `point`."""
    return (before is None or layout.is_later(run, before)) and not layout.is_later(run, point)
