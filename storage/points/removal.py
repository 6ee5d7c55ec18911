"""Removes points in time of one assignment, and the files that only they name.

The points that name a stored file follow one another (`storage/layout.py`). So if points between two kept ones,
`before` and `after`, are removed, a file goes with them if neither of these two names it: only their manifests and
those of the removed points are read. Then:

1. `manifests/<point>.removing` is put for each removed point.
2. Their manifests are deleted. From then on these points do not exist. On this host, the disk has that before
3. the files are deleted, in lists of thousands, and folders that are empty then, except for files of points that came
   in the meantime; at last
4. the marks.

*A disk that keeps two names as one file*, such as `a:b` and `a_b`, deletes it by either. So a file is not deleted
by its name if a point that stays names one that such a disk may confuse with it: the mark of its point stays, and the
sweep decides by what the disk lists.

A removal that is killed leaves files that no point names, and marks, by which the next removal looks for them
(`sweeping.py`).

*A neighbour that cannot be read*: the files that it needs are unknown. It is reported, and the point next to it stays
as well, and takes its place. The same holds for a point that should stay and is lost: once it is put back, such as from
a copy, it finds all the files that it names.

*A point that came between*, such as one that a user has accepted: the points after it took over nothing from it, but
from an earlier one, their `base`. Where that shows, or `is_chained` says so, no file is deleted before all manifests
are read; and the point whose base shows it stays as long as the one that came between. A foreign point (`known.py`)
decides nothing about other points. The files that it names stay, if it can be read and is later than the kept point
before the removed ones: the clone of an installation takes over from its own points, and names files of an old point
that none of ours names any more.
"""

import tempfile
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from storage import layout
from storage.points import runs
from storage.points.deletions import BATCH, Deletion, OnProgress
from storage.points.moving import check_inside
from storage.points.named_files import Key, NamedFiles, UnreadablePoint, wide_key_of
from storage.points.store import REWRITTEN, StorageFailed, Store
from storage.points.sweeping import put_marks, remove_marks, sweep_left

NEIGHBOURS = 2
"""The kept points that decide about a file, as long as the points follow one another."""


@dataclass(frozen=True)
class RemovalResult:
    """The result of a removal: the `points` that were removed, those that are still there, and the bytes of deleted
    files. `damaged`: points whose manifests cannot be read, so that a point next to each stays.
    """

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
    is_chained: bool = True,
    on_progress: OnProgress = lambda files, freed: None,
) -> RemovalResult:
    """Remove these points, as far as they exist, and finish the work that an earlier removal left. None is removed if a
    point that must `stay` is missing: it was counted among the kept points, so fewer would remain than intended.
    `lost`: points that must stay as well and are known to be missing. `is_chained`: False if a point may have come
    between others later.

    `on_progress` gets the number of deleted files, and their bytes. Raises: StorageFailed, also before any change if no
    point would stay; StorageStopped; ProgramMissing; OSError.
    """
    check_inside(store.location, assignment)
    there = runs.all_points(store, assignment)
    found = store.ours(there)
    points = points if found and set(stay) <= set(found) else ()
    if not set(found) - set(points):
        raise StorageFailed(f"no point of {assignment} would stay, so none is removed: are its manifests there?")
    missing = frozenset({*stay, *lost}.difference(found))
    deletion = Deletion(store, assignment, on_progress)
    with tempfile.TemporaryDirectory() as scratch:
        named = NamedFiles(store, assignment, Path(scratch), missing)
        foreign = [each for each in there if each not in set(found)]
        work = _PointRemoval(deletion, named, found, foreign, points, is_chained)
        work.remove()
    # lost, or removed by a killed removal: files that only they named may be there
    put_marks(store, assignment, layout.by_time(set(points).difference(found)))
    sweep_left(store, assignment, lost=missing, and_removed=True, deletion=deletion)
    if store.location.loses_replaced and not store.location.is_restic:
        store.delete(f"{assignment}/{layout.INCOMING}")  # left by a killed copy; no point names files there
    present = [name for name in found if name not in work.removed]
    return RemovalResult(tuple(work.removed), tuple(present), deletion.freed, tuple(work.damaged))


def remove_all(store: Store, assignment: str, *, on_progress: OnProgress = lambda files, freed: None) -> RemovalResult:
    """Remove all points of an assignment with everything in its folder: the manifests and marks first, so that none
    names deleted files. The next removal finishes a killed one. A missing folder is fine. On a remote, no file of a run
    is deleted that has begun since: then it fails, and is tried again.

    `on_progress` as in `remove`. Raises: StorageFailed; StorageStopped; ProgramMissing; OSError.
    """
    check_inside(store.location, assignment)
    points = runs.points(store, assignment)
    deletion = Deletion(store, assignment, on_progress)
    if store.location.is_plain:  # rclone passes over links
        store.delete(f"{assignment}/{layout.MANIFESTS}", store.names(f"{assignment}/{layout.MANIFESTS}"))
    store.delete(f"{assignment}/{layout.MANIFESTS}")
    store.flush()
    folders = store.names(deletion.top, folders=True)  # before the look: a run marks its files before it brings them
    runs.check_nothing_came(store, assignment)
    for folder in folders:
        deletion.delete({f"{folder}/{path}": size for path, size in store.sizes(f"{deletion.top}/{folder}").items()})
    runs.check_nothing_came(store, assignment)
    store.delete(assignment)
    try:
        runs.check_nothing_came(store, assignment)
    except runs.Overtaken:  # some of its files may be gone
        store.delete(f"{assignment}/{layout.MANIFESTS}")
        raise
    store.remove_empty_folders(assignment.partition("/")[0], leave_root=False)
    return RemovalResult(tuple(points), (), deletion.freed)


@dataclass
class _PointRemoval:
    """A removal at work. `found`: the known points that are there; `foreign`: the others; `points`: those to remove, as
    far as possible.
    """

    deletion: Deletion
    named: NamedFiles
    found: Sequence[str]
    foreign: Sequence[str]
    points: Collection[str]
    is_chained: bool
    removed: list[str] = field(default_factory=list, init=False)
    damaged: list[str] = field(default_factory=list, init=False)
    going: list[str] = field(default_factory=list, init=False)
    swept: set[str] = field(default_factory=set, init=False)
    """Points with files that only a sweep can delete, so their marks stay for now."""
    sizes: dict[str, int] = field(default_factory=dict, init=False)
    left: Counter[str] = field(default_factory=Counter, init=False)

    def remove(self) -> None:
        before, gone = None, list[str]()
        for point in layout.by_time({*self.found, *self.named.lost}):
            if point in self.points:
                gone.append(point)
            else:
                self._remove_between(before, gone, point)
                before, gone = point, []
        self._remove_between(before, gone, None)
        self._delete()

    def _remove_between(self, before: str | None, gone: list[str], after: str | None) -> None:
        """Note the points to remove between two that stay (None if there is none), and their files. Points next to an
        unreadable one stay.
        """
        while gone:
            if before and self._came_between(before, gone[0]):
                before, *gone = gone
                continue
            try:
                only = self._only_in(before, gone, after)
            except UnreadablePoint as error:
                self.damaged += [error.point] if error.point not in self.damaged else []
                if error.point == before:
                    before, *gone = gone
                elif error.point == after:
                    *gone, after = gone
                else:
                    return
                continue
            self.sizes |= only
            self.going += gone
            break
        self.named.forget(*(each for each in (before, *gone) if each))
        if len(self.sizes) >= BATCH:
            self._delete()

    def _came_between(self, before: str, point: str) -> bool:
        """True if `before` came between a point and the one that it took over from."""
        return self.named.is_readable(point) and _is_earlier(self.named.base(point), before)

    def _only_in(self, before: str | None, gone: list[str], after: str | None) -> dict[str, int]:
        """The sizes of files that only these points name, by place. Raises: UnreadablePoint for one that stays."""
        only, read = dict[str, int](), list[str]()
        for each in gone:
            # an unreadable point goes anyway, and files that only it named are swept
            if not self.named.is_readable(each):
                self.swept.add(each)
                continue
            if read:
                only |= {old.place: old.size for old in self.named.ends(read[-1], each)}
                self.named.forget(read[-1])
            read.append(each)
        only |= {old.place: old.size for old in self.named.ends(read[-1], after)} if read else {}
        kept = [each for each in (before, after) if each]
        foreign = [each for each in self.foreign if before is None or layout.is_later(each, before)]
        if not self._is_chain(before, read, after):
            kept = [each for each in layout.by_time({*self.found, *self.named.lost}) if each not in self.removed]
            kept, foreign = [each for each in kept if each not in {*self.going, *gone}], list(self.foreign)
        if self._drop_named(only, kept, foreign):
            self.swept.update(gone)
        return only

    def _drop_named(self, only: dict[str, int], kept: Sequence[str], foreign: Sequence[str]) -> bool:
        """Drop the places that these points name, and those that a disk may confuse with them. Returns True if there
        were any of the latter.
        """
        key: Key = wide_key_of if self.deletion.store.location.may_rename else hash
        wanted, shared = {key(each) for each in only}, set[int]()
        for place in self._named_by(kept, foreign, only, key):
            only.pop(place, None)
            shared.update(wanted & {key(place)})
        confused = [each for each in only if key(each) in shared] if shared else []
        for place in confused:
            del only[place]
        return bool(confused)

    def _named_by(
        self, kept: Sequence[str], foreign: Sequence[str], places: Collection[str], key: Key
    ) -> Iterator[str]:
        """The places that these points name, at least those with the key of one of `places`."""
        for each in kept:
            yield from self.named.among(each, places, key, self.left)
            if len(kept) > NEIGHBOURS:
                self.named.forget(each)
        for each in foreign:
            yield from (entry.place for entry in self.named.by_foreign(each))

    def _spare_new(self) -> None:
        """Drop the places that points name which came since the others were listed: no lock keeps other runs out on a
        remote. If such a point cannot be read, all files stay for a sweep.
        """
        deletion = self.deletion
        store = replace(deletion.store, known=None)
        there = set(runs.all_points(store, deletion.assignment))
        if new := layout.by_time(there.difference(self.found, self.foreign, self.named.lost)):
            named = NamedFiles(store, deletion.assignment, self.named.scratch)
            is_known = all(map(named.is_readable, new))
            named.forget(*new)
            if not is_known:
                self.sizes = {}
            if self._drop_named(self.sizes, (), new) or not is_known:
                self.swept.update(self.going)

    def _is_chain(self, before: str | None, gone: list[str], after: str | None) -> bool:
        """True if each of these took over from the one before it, or from one that was between them; and likewise the
        point that follows them, if it can be read.
        """
        following = next((each for each in self.found if after and layout.is_later(each, after)), None)
        chain = [each for each in (before, *gone, after) if each]
        if following and self.named.is_readable(following):
            chain.append(following)
        return self.is_chained and not any(_is_earlier(self.named.base(each), one) for one, each in pairwise(chain))

    def _delete(self) -> None:
        """Remove the points and files that are noted."""
        store, assignment = self.deletion.store, self.deletion.assignment
        if self.going:
            put_marks(store, assignment, self.going)
            store.flush()
            names = [each + layout.MANIFEST_ENDING for each in self.going]
            if store.location.loses_replaced and not store.location.is_restic:
                names += [each + REWRITTEN for each in names]
            store.delete(f"{assignment}/{layout.MANIFESTS}", names)
            store.flush()
            self.removed += self.going
            self._spare_new()
            self.deletion.delete(self.sizes)
            self.deletion.remove_empty(self.sizes, self.left)
            endings = (layout.REMOVING, layout.UNFINISHED, runs.FLUSHED)
            done = [each for each in self.going if each not in self.swept]
            remove_marks(store, assignment, [each + ending for each in done for ending in endings])
        self.going, self.sizes, self.left = [], {}, Counter()


def _is_earlier(base: str, point: str) -> bool:
    """True if a base is earlier than a point, or is not the name of a point."""
    try:
        return base != "" and layout.is_later(point, base)
    except ValueError:
        return True
