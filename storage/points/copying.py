"""Brings an assignment's points from one repository into another one, which is then a whole repository by itself, with
a separate key.

Points are copied in the order of time: for each one, first the stored files that it names and the copy's newest point
does not, list by list, and then its manifest, byte for byte. A file has the same place in the copy as in the first
repository, and is never moved or replaced, so a copy that is killed at any step has harmed no point.

A file that a server refuses alone is an exception of the copy's point (`refusals.py`, `copied_manifests.py`), which is
then incomplete and stays so. The next point that has the file tries it again, since the point before it lacks it. A
file whose name is too long for the copy's server gets another name there (`other_names.py`).

While files come, the copy holds a mark, `manifests/<point>.unfinished`, which names them. The next copy takes over
whole files: in a plain folder on this host those with the digest in the manifest; on a server those that rclone finds
equal to those of the first repository (`confirming.py`), once (`compared_files.py`); elsewhere those with the right
size. A folder on this host may have lost contents in a power cut, so there a size counts only where a mark shows that
the file came since this host was started. A file that came earlier, and is copied again, is *doubtful* in the new mark.

Credentials that may neither delete nor overwrite are enough, except for a file that a check found damaged in the copy:
it is fetched again over the damaged one, and only then is a stored file written twice.

No file of a point is deleted here. Points that the copy need not keep are removed in the same way as elsewhere
(`removal.py`).
"""

import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from external.formatting import several
from storage import layout
from storage.points import amiss, known, manifests, overwritten_files, runs, sorted_items
from storage.points.batches import OF_A_LIST, batches
from storage.points.compared_files import AT_ONCE, ComparedFiles
from storage.points.copied_manifests import NOT_COPIED, CopiedManifest, warnings_in
from storage.points.copies import CopyResult, alone, check_is_there, later_than, remove_pieces
from storage.points.copy_leftovers import CopyLeftovers, Found
from storage.points.copy_transfers import CopyTransfers, OnProgress
from storage.points.lost_results import sure_points
from storage.points.manifests import Entry, ManifestDamaged
from storage.points.moving import check_inside
from storage.points.only_named import named_by_one_alone
from storage.points.other_names import with_another_name
from storage.points.refusals import is_altered
from storage.points.store import StorageFailed, Store
from storage.points.sweeping import remove_marks, sweep_left

NOT_AGAIN = (
    "{} that a check found damaged in the copy did not come again: {} (its credentials have to allow that a file is "
    "overwritten)"
)
NOT_AS_WRITTEN = "{!r:.200} differs from its manifest in the repository that is copied"


def copy(
    source: Store,
    target: Store,
    folder: str,
    *,
    newest: str = "",
    damaged: Mapping[str, Collection[str]] = {},
    recorded: Collection[str] = (),
    options: tuple[str, ...] = (),
    on_progress: OnProgress = lambda files, size: None,
) -> CopyResult:
    """Bring the points of an assignment that are later than those of `target` there. Both stores reach both places.

    `newest`: a point that must be in the first repository: if it is not, something is wrong there, and nothing is done.
    `damaged`: point of the copy → the places of its files that a check found damaged there: they are copied once more.
    `recorded`: the points of the copy that have a row; the others are read to find out whether they lack files, since
    the result of the copy that brought them may have been lost. `options`: of rclone, for the transfers. Raises:
    StorageFailed, StorageStopped, ProgramMissing, OSError.
    """
    check_inside(target.location, folder)
    with tempfile.TemporaryDirectory() as scratch:
        work = _PointCopying(source, target, folder, options, on_progress, Path(scratch))
        work.bring(newest, recorded)
        for point, places in damaged.items():
            work.mend(point, set(places))
        return work.done


@dataclass
class _PointCopying:
    source: Store
    target: Store
    folder: str
    options: tuple[str, ...]
    on_progress: OnProgress
    scratch: Path
    done: CopyResult = field(default_factory=CopyResult)
    marks: list[str] = field(default_factory=list)
    there: set[str] = field(default_factory=set)
    noted: set[str] | None = None
    found: list[str] = field(default_factory=list)  # all that were there, also foreign ones

    def __post_init__(self) -> None:
        self.files = layout.files_path(self.folder)
        self.transfers = CopyTransfers(self.source, self.target, self.folder, self.options, self.on_progress, self.done)
        self.compared = ComparedFiles(self.target, self.folder)

    def bring(self, newest: str, recorded: Collection[str]) -> None:
        found = runs.points(self.source, self.folder)
        check_is_there(newest, found, self.folder)
        names = self.target.names(f"{self.folder}/{layout.MANIFESTS}")
        self.found = runs.points_among(names)
        points = self.done.points = sure_points(self.target, self.folder, self.found, recorded)
        self.marks = runs.named_among(names, layout.UNFINISHED)
        # no copy of ours has noted anything of a point that is yet to come
        forged = amiss.later_than(names, layout.by_time([*found[-1:], *points[-1:]])[-1])
        before = self._newest(points, found)
        for point in points:
            if point not in recorded:
                self._note_exceptions(point)
        if wanted := later_than(points, found):
            self.there = set(self.target.names(self.files, folders=True))
            self.noted = amiss.noted_by_others(self.target, self.folder, {*names} - forged, points)
            self.transfers.refusals.altered |= self.noted or set()
            self.compared.read(names, points)
            remove_pieces(self.target, self.folder, points, self.there)
        for point in wanted:
            self.source.check_stop()
            try:
                manifest = self._fetched(self.source, point)
                copied = self._bring_point(point, manifest, before)
            except ManifestDamaged as error:
                self.done.note(f"point {point} is left out of the copy: {error}")
                continue
            points.append(point)
            self.done.new.append(point)
            for each in {before or manifest, manifest} - {copied}:
                each.unlink()
            before = copied
        if self.marks or forged or self.compared.is_any_there:
            with suppress(StorageFailed):  # such as by credentials that may not delete
                remove_marks(self.target, self.folder, forged)
                ours = {each: [digest] for each, digest in self.done.digests.items()}
                known_now = None if self.target.known is None else {**self.target.known, **ours}
                sweep_left(replace(self.target, known=known_now), self.folder)

    def _note_exceptions(self, point: str) -> None:
        file = self._file(self.target, point)
        is_needed = file.exists()  # the newest one is read again
        try:
            warnings = warnings_in(self._fetched(self.target, point))
        except ManifestDamaged as error:  # a check reports it; it must not count as whole until then
            warnings = [str(error)]
        if warnings:
            self.done.incomplete[point] = warnings
        if not is_needed:
            file.unlink(missing_ok=True)

    def mend(self, point: str, places: set[str]) -> None:
        """Copy files of a point of the copy once more, as far as the first repository has them whole."""
        if point not in self.done.points:
            return
        self.transfers.point = point
        with suppress(ManifestDamaged):  # a check reports it
            manifest = self._fetched(self.target, point)
            entries = {each.place: each for each in manifests.read(manifest) if each.folder and each.place in places}
            try:
                look = overwritten_files.look_near(self.source, self.target, self.files, manifest, entries.values())
                for place in sorted(entries.keys() & look.overwritten.keys()):  # the other file would be lost instead
                    self.done.note(look.overwritten[place])
                    del entries[place]
                for each in self.transfers.replace(entries.values()):
                    self.done.note(NOT_AS_WRITTEN.format(each.path))
            except StorageFailed as error:
                self.done.note(NOT_AGAIN.format(several(len(entries), "file"), error))

    def _newest(self, points: list[str], found: list[str]) -> Path | None:
        """The manifest of the newest point of the copy that can be read. Newer unreadable points are brought again, if
        the first repository has them.
        """
        for point in points[::-1]:
            try:
                return self._fetched(self.target, point)
            except ManifestDamaged as error:
                if point == points[-1] and point in found:
                    points.remove(point)
                else:
                    self.done.note(f"in the copy, {error}: look at its disk")
        return None

    def _bring_point(self, point: str, manifest: Path, before: Path | None) -> Path:
        """Make a point of the copy. Returns its manifest. Raises: ManifestDamaged, before it does anything."""
        transfers = self.transfers
        transfers.point, transfers.left_out, transfers.renamed = point, {}, {}
        there = self.there, self.marks, self.noted is None
        left = CopyLeftovers(self.target, self.folder, *there, self.compared, transfers)
        named = named_by_one_alone(manifest, before, self._is_same)
        packed = ((*entry, is_there) for entry, is_there in left.looked_for(named))
        with sorted_items.written(packed) as found:
            header = replace(manifests.read_header(manifest), boot=runs.boot())
            is_marked = any(_read(found)) and self._mark(point, header, found)
            unlike = self._bring_files(entry for entry, is_there in _read(found) if not is_there)
            manifest = self._excepted(point, manifest, before)
            without = transfers.left_out.keys() | transfers.renamed.keys()
            look = overwritten_files.look(self.source, self.target, self.files, lambda: _entries(found, without))
            for text in {**look.others, **unlike, **look.overwritten}.values():
                self.done.note(text)
            expected = {*self.found, *self.done.new, point}
            with alone(self.target, self.folder, point, expected, _point_of(before), is_marked=is_marked):
                self._write_last(manifest, point, found)
        runs.end(self.target, self.folder, point)
        return manifest

    def _bring_files(self, entries: Iterable[Entry]) -> dict[str, str]:
        """Copy files, list by list. Returns texts about those that are not whole there, by place."""
        over, unlike, equal = "--ignore-times" if self.marks else "--no-check-dest", dict[str, str](), set[str]()
        for batch in batches(entries, OF_A_LIST, AT_ONCE, lambda each: each.size):
            self.compared.add(self.transfers.point, equal)  # not those of the last list: the point follows them
            unlike |= {each.place: NOT_AS_WRITTEN.format(each.path) for each in self.transfers.bring(batch, over)}
            equal = set()
            if self.transfers.is_clean and self.target.location.directory is None:
                refused = self.transfers.left_out.keys() | self.transfers.refusals.altered
                equal = {each.place for each in batch} - unlike.keys() - refused
        return unlike

    def _is_same(self, old: Entry, new: Entry) -> bool:
        """True if the copy's point before this one has the file of an entry, perhaps under the name that it got
        there. Notes the file if it arrived with another content.
        """
        if old.why.startswith(NOT_COPIED) and is_altered(old.why):
            other = with_another_name(new)
            self.transfers.refusals.altered.update([new.place, *([other.place] if other else [])])
        if old.place == new.place:
            return True
        other = with_another_name(new) if old.stored else None
        if other is None or other.place != old.place:
            return False
        self.transfers.renamed[new.place] = old.place
        return True

    def _excepted(self, point: str, manifest: Path, before: Path | None) -> Path:
        """The manifest for the copy. Raises: StorageFailed if too many of its files were refused."""
        left_out, renamed = self.transfers.left_out, self.transfers.renamed
        if not (left_out or renamed):
            return manifest
        made = CopiedManifest(point, left_out, renamed)
        made.write(file := self._file(self.target, point), manifest, before, _point_of(before))
        if warnings := made.warnings:
            self.done.incomplete[point] = warnings
        return file

    def _mark(self, point: str, header: manifests.Header, found: IO[bytes]) -> bool:
        """Returns False if a server refuses it, such as over that of a killed copy: there a size is enough."""
        with nullcontext() if self.target.location.directory else suppress(StorageFailed):
            runs.mark(self.target, self.folder, point, header, _entries(found), again=point in self.marks)
            return True
        return False

    def _file(self, store: Store, point: str) -> Path:
        """The file for a manifest, see `_point_of`."""
        return self.scratch / f"{'source' if store is self.source else 'target'}-{point}"

    def _fetched(self, store: Store, point: str) -> Path:
        file = self._file(store, point)
        try:
            if not file.exists() and not store.manifest(self.folder, point, file):
                raise StorageFailed(f"point {point} of {self.folder} went while it was copied; it is tried again")
            # otherwise its digest shows that the scheduler wrote it
            for _ in manifests.read(file) if store.known is None else ():
                store.check_stop()
        except ManifestDamaged:
            file.unlink(missing_ok=True)
            raise
        return file

    def _write_last(self, manifest: Path, point: str, found: IO[bytes]) -> None:
        """Make the point. If a disk on this host refuses the manifest, its files may be whole in memory alone, and the
        next copy would consider them copied: they are deleted again. On a server they stay: there the point may exist
        in spite of an error, since the answer was lost or another machine has made it.
        """
        self.done.digests[point] = digest = known.digest_of(manifest)
        known.keep(self.target.known, point, digest)
        try:
            self.target.put_last(manifest, layout.manifest_path(self.folder, point), is_over=True)
        except OSError:
            if self.target.location.directory:
                with suppress(OSError, StorageFailed):
                    self.target.remove(layout.manifest_path(self.folder, point))
                    for batch in batches(_read(found), OF_A_LIST):
                        self.target.delete(self.files, [each.place for each, _ in batch])
            raise


def _point_of(file: Path | None) -> str:
    return file.name.partition("-")[2] if file else ""


def _entries(found: IO[bytes], without: Collection[str] = ()) -> Iterator[Entry]:
    return (entry for entry, _ in _read(found) if entry.place not in without)


def _read(found: IO[bytes]) -> Iterator[Found]:
    packed: Iterator[tuple[Any, ...]] = sorted_items.read(found)
    return ((Entry._make(each[:-1]), each[-1]) for each in packed)
