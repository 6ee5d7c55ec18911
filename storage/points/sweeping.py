"""Deletes files that no point of an assignment names: the remains of runs that made no point, and of killed removals.

A run that made no point leaves its mark, `manifests/<run>.unfinished`; the next point takes over its whole files, and
no later one will name a file that this point does not name. A removal that was killed leaves
`manifests/<point>.removing`, and files anywhere. Notes of runs (`amiss.py`, `compared_files.py`) are deleted with their
marks. Marks only show that a look is worthwhile, and where: anyone who can write to a repository can put one there.
Manifests alone decide which files go.

Points since then may name files of a run, so these points are read, and so are the foreign ones that can be read. Where
a known point cannot be read or is lost, runs up to it are left alone; so are runs later than the newest point: one may
be under way, and the next one takes over from those that were killed.

A copy may be on a server that lists a file under another name than it was given (`overwritten_files.py`). So if a named
file is not listed, but found by its name, the files of its size in its folder stay: one of them may be that file.
"""

import tempfile
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from storage import layout
from storage.points import amiss, runs
from storage.points.batches import batches
from storage.points.deletions import MANY, Deletion
from storage.points.named_files import NamedFiles, UnreadablePoint, key_of
from storage.points.store import StorageFailed, Store

MARKS = (layout.UNFINISHED, runs.FLUSHED, layout.REMOVING)


def sweep_left(
    store: Store,
    assignment: str,
    *,
    lost: Collection[str] = (),
    and_removed: bool = False,
    deletion: Deletion | None = None,
) -> None:
    """Delete the files of runs that made no point and are older than the newest point. If `and_removed`, also delete
    the remains of killed removals, for which everything is listed and all manifests are read. Then delete their marks,
    and those of runs that made their point.

    `lost`: points that must stay and are missing. `deletion` counts. Raises: StorageFailed, StorageStopped, OSError.
    """
    names = store.names(f"{assignment}/{layout.MANIFESTS}")
    there = runs.points_among(names)
    if not (ours := store.ours(there)):
        return
    marked = {ending: set(runs.named_among(names, ending)) for ending in MARKS}
    gone = {ending: _gone(found, there, ours[-1]) for ending, found in marked.items()}
    left, removed = gone[layout.UNFINISHED], gone[layout.REMOVING] if and_removed else set[str]()
    done = [each + ending for ending, found in marked.items() for each in found.intersection(there)]
    done += [each + runs.FLUSHED for each in gone[runs.FLUSHED] - marked[layout.UNFINISHED]]
    notes = amiss.by_run(names, layout.AMISS, layout.COMPARED)
    is_over = {*there, *(_gone(notes, there, ours[-1]) - marked[layout.UNFINISHED])}
    if left or removed:
        # the names in `known` include those of marks
        absent = {*lost, *layout.by_time(set(store.known or ()) - marked[layout.REMOVING])}.difference(ours)
        with tempfile.TemporaryDirectory() as scratch:
            sweep = _FileSweep(
                deletion or Deletion(store, assignment), NamedFiles(store, assignment, Path(scratch)), ours[-1]
            )
            sweep.look(ours, set(there).difference(ours), absent, None if removed else left)
            sweep.sweep()
        over = {each for each in left if sweep.may_go(each)}
        is_over |= over
        done += [each + ending for each in over for ending in (layout.UNFINISHED, runs.FLUSHED)]
        done += [each + layout.REMOVING for each in removed] if sweep.blocked is None else []
    done += [name for each in is_over.intersection(notes) for name in notes[each]]
    remove_marks(store, assignment, set(done).intersection(names))


def _gone(marked: Iterable[str], there: Collection[str], newest: str) -> set[str]:
    return {each for each in marked if each not in there and layout.is_later(newest, each)}


def put_marks(store: Store, assignment: str, points: Collection[str]) -> None:
    """Mark these points as being removed, as far as possible: the removal may be there to empty a full disk."""
    if points:
        with tempfile.TemporaryDirectory() as scratch, suppress(OSError, StorageFailed):
            for each in points:
                # some remotes accept no empty files
                Path(scratch, each + layout.REMOVING).write_text(f"{each}\n")
            store.put_all(Path(scratch), f"{assignment}/{layout.MANIFESTS}")


def remove_marks(store: Store, assignment: str, names: Collection[str]) -> None:
    """Delete marks, once this host's disk has the changes that they stand for. Missing marks are fine."""
    if names:
        store.flush()
        store.delete(f"{assignment}/{layout.MANIFESTS}", sorted(names))


@dataclass
class _FileSweep:
    """A sweep at work. `newest`: the newest known point. `blocked`: the last one that cannot be read: the files that it
    names are not known.
    """

    deletion: Deletion
    named: NamedFiles
    newest: str
    blocked: str | None = field(default=None, init=False)
    wanted: set[str] | None = field(default=None, init=False)
    keys: set[int] = field(default_factory=set, init=False)
    read: list[str] = field(default_factory=list, init=False)
    foreign: Collection[str] = field(default=(), init=False)

    def look(self, ours: Sequence[str], foreign: Collection[str], absent: Collection[str], of: set[str] | None) -> None:
        """Collect the named files of these runs, or of all if None."""
        self.wanted, self.foreign = of, foreign
        first = min(of, key=layout.order_of) if of else ""
        for each in layout.by_time({*ours, *absent}):
            if not first or not layout.is_later(first, each):  # one of these may be a lost point
                try:
                    if each in absent:
                        raise UnreadablePoint(each)
                    self._note(self.named.by(each))
                    self.named.forget(each)
                    self.read.append(each)
                except UnreadablePoint:
                    self.blocked = each
        for each in foreign:
            self._note(self.named.by_foreign(each))

    def _note(self, entries: Iterable[Any]) -> None:
        self.keys.update(key_of(each.place) for each in entries if self.may_go(layout.run_of(each.folder)))

    def may_go(self, run: str) -> bool:
        """True if a run's files that no point names may be deleted."""
        if layout.is_later(run, self.newest) or (self.wanted is not None and run not in self.wanted):
            return False
        return self.blocked is None or layout.is_later(run, self.blocked)

    def sweep(self) -> None:
        store, top = self.deletion.store, self.deletion.top
        found = [each for each in store.names(top, folders=True) if layout.FOLDER.fullmatch(each)]
        folders = {each for each in found if self.may_go(layout.run_of(each))}
        unnamed, left = dict[str, int](), Counter[str]()
        unlisted = self.keys.copy() if store.location.may_rename else set[int]()

        def take(row: dict[str, Any]) -> None:
            folder = row["Path"].partition("/")[0]
            if folder in folders and not row.get("IsDir"):
                key = key_of(row["Path"])
                unlisted.discard(key)
                if key in self.keys:
                    left[folder] += 1
                else:
                    unnamed[row["Path"]] = row["Size"]

        if folders:
            store.walk(top, take, among=sorted(folders) if len(folders) <= MANY else (), files_only=True)
        if unnamed and unlisted:
            kept = self._renamed(unlisted)
            unnamed = {each: size for each, size in unnamed.items() if (each.partition("/")[0], size) not in kept}
        self.deletion.delete(unnamed)
        self.deletion.remove_empty(unnamed, left)
        for some in batches(sorted(each for each in folders if not left[each]), MANY):
            with suppress(StorageFailed):
                store.remove_empty_folders(top, among=some)

    def _renamed(self, unlisted: Collection[int]) -> set[tuple[str, int]]:
        """The folder and size of each file that a point names, that is not listed under its name, and that is there."""
        noted = [self.named.by(each) for each in self.read] + [self.named.by_foreign(each) for each in self.foreign]
        places = {each.place for entries in noted for each in entries if key_of(each.place) in unlisted}
        sizes = self.deletion.store.sizes(self.deletion.top, places, by_name=True)
        return {(place.partition("/")[0], size) for place, size in sizes.items()}
