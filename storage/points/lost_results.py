"""Points whose result was lost: the scheduler has no row of them, since their run was killed before it answered.

On a remote, a run looks once more after it has written its manifest (`runs.check_made`), and a copy likewise
(`copies.alone`). If one is killed before that, its point may name files that a removal, or another installation, has
just deleted. So such a point counts only once it is certain that they are there; otherwise the next run makes the
point go, as its own run would have done.
"""

import tempfile
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from storage import layout
from storage.points import manifests, runs
from storage.points.batches import OF_A_LIST, batches
from storage.points.deletions import MANY
from storage.points.manifests import ManifestDamaged
from storage.points.runs import BaseGone, BegunRun
from storage.points.store import StorageFailed, Store

MOST_READ = 20
"""The most foreign points that are read for one of ours: anyone can put any number there."""
GONE = "point {} of {} may lack files: its run was killed while files were removed; it goes"


def check_base(store: Store, folder: str, begun: BegunRun, recorded: str) -> BegunRun:
    """The run, which takes over nothing if files of its base may be missing and the base cannot be removed. `recorded`:
    the newest point with a row. Raises: BaseGone if the base was removed; StorageFailed, StorageStopped.
    """
    base = begun.base
    if base is None or base == recorded or not may_lack_files(store, folder, base):
        return begun
    with suppress(StorageFailed):  # such as by credentials that may not delete
        store.remove(layout.manifest_path(folder, base))
        raise BaseGone(GONE.format(base, folder))
    return replace(begun, lost=base)


def sure_points(store: Store, folder: str, found: list[str], recorded: Collection[str]) -> list[str]:
    """The known ones of the points that were found in a copy. The last ones, if files of them may be missing, are
    removed first: the copy brings them again. Raises: StorageFailed, StorageStopped.
    """
    left = store.ours(found)
    while left and left[-1] not in recorded and may_lack_files(store, folder, left[-1]):
        store.remove(layout.manifest_path(folder, left.pop()))
    return left


def unrecorded(store: Store, folder: str, recorded: Collection[str]) -> list[dict[str, Any]]:
    """The points of an assignment that are known and not among `recorded`, as in `runs.facts_of`. Unreadable ones are
    left out, and those that may lack files.
    """
    found = []
    for point in runs.points(store, folder):
        if point not in recorded and not may_lack_files(store, folder, point):
            with suppress(ManifestDamaged):
                found += runs.facts_of(store, folder, point)
    return found


def may_lack_files(store: Store, folder: str, point: str) -> bool:
    """True if files of a point on a remote are missing, or may be deleted yet: by a removal that has not ended, or by
    another installation that has made a point since the one before it. Raises: StorageFailed, StorageStopped.
    """
    if store.location.directory is not None or store.location.is_restic or store.known is None:
        return False
    names = store.names(f"{folder}/{layout.MANIFESTS}")
    there = runs.points_among(names)
    ours = store.ours(there)
    before = next((each for each in ours[::-1] if layout.is_later(point, each)), None)
    others = set(there).difference(ours)
    going = set(runs.named_among(names, layout.REMOVING)).difference(there)
    if any(layout.is_later(point, each) for each in going):
        return True
    beside = layout.by_time(each for each in others if before is None or layout.is_later(each, before))
    if beside and not any(_takes_over(store, folder, each, point) for each in _after(beside, point)):
        return True
    return _lacks(store, folder, point)


def _after(points: list[str], point: str) -> list[str]:
    return [each for each in points if layout.is_later(each, point)][:MOST_READ]


def _takes_over(store: Store, folder: str, foreign: str, point: str) -> bool:
    """True if a foreign point has a point of ours as its base, or names files of its run. No clone makes such a one: it
    was made here, before the scheduler was restored from its own earlier backup. By then that run had ended.
    """
    with tempfile.TemporaryDirectory() as scratch, suppress(ManifestDamaged):
        if store.any_manifest(folder, foreign, file := Path(scratch) / foreign):
            entries = (each for each in manifests.read(file) if each.folder)
            has_its_base = manifests.read_header(file).base == point
            return has_its_base or any(layout.run_of(each.folder) == point for each in entries)
    return False


def _lacks(store: Store, folder: str, point: str) -> bool:
    with tempfile.TemporaryDirectory() as scratch, suppress(ManifestDamaged):  # its next reader reports that
        if not store.manifest(folder, point, file := Path(scratch) / point):
            return True
        top, folders, missing = layout.files_path(folder), set[str](), set[int]()
        for entry in manifests.read(file):
            if entry.folder:
                folders.add(entry.folder)
                missing.add(hash((entry.place, entry.size)))
        if folders:
            store.walk(
                top,
                lambda row: missing.discard(hash((row["Path"], row["Size"]))),
                among=sorted(folders) if len(folders) <= MANY else (),
                files_only=True,
            )
        entries = (each for each in manifests.read(file) if each.folder) if missing else iter(())
        unlisted = (each for each in entries if hash((each.place, each.size)) in missing)
        for some in batches(unlisted, OF_A_LIST):  # a server may list them under other names
            found = store.sizes(top, [each.place for each in some], by_name=True)
            if any(found.get(each.place) != each.size for each in some):
                return True
    return False
