"""Removes points in time of one assignment, and merges what they leave behind.

1. The manifests of the points go. From then on these points are not there.
2. What no point names any more is merged. Let `before` and `point` be two kept points with none between them. Of all
   runs after `before`, up to `point`, a path that `before` holds lies as it was in the first folder of `versions` that
   has it. These folders become one, `versions/<point>`: what `before` does not hold, and what an earlier one of them
   has as well, is deleted, and then the rest is moved. Nothing is written over, no file meets a folder in its place,
   and at each moment a reader finds each file of each kept point, in the first folder that has it.
3. Folders of runs up to the oldest kept point, and dumps without a manifest, are deleted.

What is there says what is to do, so a removal that was killed anywhere is finished by the next one; so are folders of
runs that failed. Runs after the newest point are left alone: one may be under way. Listed are folders that are to be
merged, and never `current`.
"""

import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from sources.storage import layout, manifests, runs
from sources.storage.store import StorageFailed, Store

BATCH = 2_000
"""Paths an rclone: it prints nothing, and must not seem to hang."""

OnProgress = Callable[[int, int], None]


@dataclass(frozen=True)
class Removed:
    """`points` that were removed, those that are still there, and the bytes of files that were deleted."""

    points: tuple[str, ...]
    present: tuple[str, ...]
    freed: int


def remove(
    store: Store,
    assignment: str,
    points: Collection[str],
    *,
    stay: Collection[str] = (),
    on_progress: OnProgress = lambda files, freed: None,
) -> Removed:
    """Remove these points, as far as they are there, and finish what an earlier removal left. None of them goes where
    one that is to `stay` is not there: it was counted among what is kept, and the others are fewer than was meant.

    `on_progress` gets how many files were moved or deleted, and the bytes of the deleted ones. Raises: StorageFailed,
    also before anything when no point would stay; ManifestDamaged; Stopped; ProgramMissing.
    """
    found = runs.points(store, assignment)
    points = points if found and set(stay) <= set(found) else ()
    gone, kept = [name for name in found if name in points], [name for name in found if name not in points]
    if not kept:
        raise StorageFailed(f"no point of {assignment} would stay, so none is removed: look whether its manifests are")
    store.delete(f"{assignment}/{layout.MANIFESTS}", [name + layout.MANIFEST_ENDING for name in gone])
    work = _Merging(store, assignment, on_progress)
    work.merge_versions(kept)
    work.delete_dumps(kept)
    return Removed(tuple(gone), tuple(kept), work.freed)


@dataclass
class _Merging:
    store: Store
    assignment: str
    on_progress: OnProgress
    files: int = field(default=0, init=False)
    freed: int = field(default=0, init=False)

    def merge_versions(self, kept: Sequence[str]) -> None:
        found = _by_time(self.store.names(f"{self.assignment}/{layout.VERSIONS}", folders=True))
        before = None
        for point in kept:
            merged = [run for run in found if _is_between(before, run, point)]
            if before is None:
                for run in merged:
                    self._delete_all(self._versions(run))
            elif any(run != point for run in merged):
                self._merge(before, merged, point)
            before = point

    def delete_dumps(self, kept: Sequence[str]) -> None:
        for point in _by_time(self.store.names(f"{self.assignment}/{layout.POINTS}", folders=True)):
            if point not in kept and _is_between(None, point, kept[-1]):
                self._delete_all(f"{self.assignment}/{layout.POINTS}/{point}")

    def _merge(self, before: str, names: Sequence[str], point: str) -> None:
        sizes = {run: self.store.sizes(self._versions(run)) for run in names}
        wanted = self._held(before, set[str]().union(*sizes.values()))
        for run in names:
            self._delete(self._versions(run), {path: size for path, size in sizes[run].items() if path not in wanted})
            sizes[run] = {path: size for path, size in sizes[run].items() if path in wanted}
            wanted -= sizes[run].keys()
        self.store.remove_empty_folders(self._versions(point))
        for run in names:
            if run != point:
                for paths in _batches(sizes[run]):
                    self.store.move(self._versions(run), self._versions(point), paths)
                    self._count(len(paths))
                # no purge: rclone passes over a file that it cannot find by the name that it listed
                self.store.remove_empty_folders(self._versions(run), leave_root=False)

    def _held(self, point: str, paths: Collection[str]) -> set[str]:
        """Those of `paths` that a point holds."""
        with tempfile.NamedTemporaryFile(suffix=layout.MANIFEST_ENDING) as file:
            manifest = layout.manifest_path(self.assignment, point)
            if not self.store.fetch(manifest, Path(file.name)):
                raise StorageFailed(f"{manifest} went while points were removed; it is tried again")
            held = (entry.stored_path for entry in manifests.read(Path(file.name)) if entry.kind != "folder")
            return {path for path in held if path in paths}

    def _delete_all(self, folder: str) -> None:
        self._delete(folder, self.store.sizes(folder))
        self.store.delete(folder)

    def _delete(self, folder: str, sizes: dict[str, int]) -> None:
        for paths in _batches(sizes):
            self.store.delete(folder, paths)
            self.freed += sum(sizes[path] for path in paths)
            self._count(len(paths))

    def _count(self, files: int) -> None:
        self.files += files
        self.on_progress(self.files, self.freed)

    def _versions(self, run: str) -> str:
        return f"{self.assignment}/{layout.VERSIONS}/{run}"


def _batches(paths: Iterable[str]) -> Iterator[list[str]]:
    remaining = iter(paths)
    while batch := list(islice(remaining, BATCH)):
        yield batch


def _by_time(names: Iterable[str]) -> list[str]:
    """Names of points and runs by time. Others are none of ours, and left alone."""
    return sorted((name for name in names if layout.NAME.fullmatch(name)), key=layout.order_of)


def _is_between(before: str | None, run: str, point: str) -> bool:
    """Whether a run is later than `before` (None: there is none), and no later than `point`."""
    is_later = before is None or layout.order_of(before) < layout.order_of(run)
    return is_later and layout.order_of(run) <= layout.order_of(point)
