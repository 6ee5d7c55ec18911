"""Brings an assignment's points from one repository into another one, which is then a whole repository by itself, with
a separate key.

Points are copied in the order of time: for each one, first the stored files that it names and the copy's newest point
does not, list by list, and then its manifest, byte for byte. A file has the same place in the copy as in the first
repository, and is never moved or replaced, so a copy that is killed at any step has harmed no point.

While files come, the copy holds a mark, `manifests/<point>.unfinished`, which names them. The next copy of them takes
over whole files: in a plain folder of this host those with the digest in the manifest; elsewhere those with the right
size. A folder of this host may have lost contents in a power cut, so there a size counts only where a mark shows that
the file came since this host was started. A file that did not, and is copied again, is *doubtful* in the new mark.

Credentials that may neither delete nor overwrite are enough, except for a file that a check found damaged in the copy:
it is fetched again over the damaged one, and only then is a stored file written twice.

No file of a point is deleted here. Points that the copy need not keep are removed in the same way as elsewhere
(`removal.py`).
"""

import re
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from external.formatting import several
from storage import layout
from storage.places.rclone import expected
from storage.places.servers import DAMAGED_OR_FOREIGN
from storage.points import known, manifests, overwritten_files, runs, sorted_items
from storage.points.batches import OF_A_LIST, batches
from storage.points.copies import CopyResult, check_is_there, later_than, remove_pieces, whole_among
from storage.points.manifests import Entry, ManifestDamaged
from storage.points.moving import check_inside
from storage.points.only_named import named_by_one_alone
from storage.points.store import PARTIAL_SUFFIX, StorageFailed, Store
from storage.points.sweeping import sweep_left

QUICK = {"RCLONE_LOCAL_HASHES": "xxh3"}
"""The comparison of the two streams of a copy between folders; MD5 would take most of the time."""
OF_A_FILE = re.compile(r"not an encrypted file|bad magic|truncated|input/output error", re.IGNORECASE)
"""Messages about a file whose content in the first repository is lost."""
NOT_AGAIN = (
    "{} that a check found damaged in the copy did not come again: {} (its credentials have to allow that a file is "
    "overwritten)"
)
NOT_AS_WRITTEN = "{!r:.200} differs from its manifest in the repository that is copied"

OnProgress = Callable[[int, int], None]
Found = tuple[Entry, bool]
"""A file that should be in the copy, and True if it is there already."""


def copy(
    source: Store,
    target: Store,
    folder: str,
    *,
    newest: str = "",
    damaged: Mapping[str, Collection[str]] = {},
    options: tuple[str, ...] = (),
    on_progress: OnProgress = lambda files, size: None,
) -> CopyResult:
    """Bring the points of an assignment that are later than those of `target` there. Both stores reach both places.

    `newest`: a point that must be in the first repository: if it is not, something is wrong there, and nothing is done.
    `damaged`: point of the copy → the places of its files that a check found damaged there: they are copied once more.
    `options`: of rclone, for the transfers. Raises: StorageFailed, StorageStopped, ProgramMissing, OSError.
    """
    check_inside(target.location, folder)
    with tempfile.TemporaryDirectory() as scratch:
        work = _PointCopying(source, target, folder, options, on_progress, Path(scratch))
        work.bring(newest)
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

    def __post_init__(self) -> None:
        self.files = layout.files_path(self.folder)

    def bring(self, newest: str) -> None:
        found = runs.points(self.source, self.folder)
        check_is_there(newest, found, self.folder)
        names = self.target.names(f"{self.folder}/{layout.MANIFESTS}")
        points = self.done.points = self.target.ours(runs.points_among(names))
        self.marks = runs.named_among(names, layout.UNFINISHED)
        before = self._newest(points, found)
        if wanted := later_than(points, found):
            self.there = set(self.target.names(self.files, folders=True))
            remove_pieces(self.target, self.folder, points, self.there)
        for point in wanted:
            self.source.check_stop()
            try:
                manifest = self._fetched(self.source, point)
                self._bring_point(point, manifest, before)
            except ManifestDamaged as error:
                self.done.note(f"point {point} is left out of the copy: {error}")
                continue
            points.append(point)
            self.done.new.append(point)
            if before:
                before.unlink()
            before = manifest
        if self.marks:
            with suppress(StorageFailed):  # such as by credentials that may not delete
                ours = {each: [digest] for each, digest in self.done.digests.items()}
                known_now = None if self.target.known is None else {**self.target.known, **ours}
                sweep_left(replace(self.target, known=known_now), self.folder)

    def mend(self, point: str, places: set[str]) -> None:
        """Copy files of a point of the copy once more, as far as the first repository has them whole."""
        if point not in self.done.points:
            return
        with suppress(ManifestDamaged):  # a check reports it
            manifest = self._fetched(self.target, point)
            entries = {each.place: each for each in manifests.read(manifest) if each.folder and each.place in places}
            try:
                look = overwritten_files.look_near(self.source, self.target, self.files, manifest, entries.values())
                for place in sorted(entries.keys() & look.overwritten.keys()):  # the other file would be lost instead
                    self.done.note(look.overwritten[place])
                    del entries[place]
                for each in self._replace(self._whole(self.source, list(entries.values()))):
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

    def _bring_point(self, point: str, manifest: Path, before: Path | None) -> None:
        """Make a point of the copy. Raises: ManifestDamaged, before it does anything."""
        packed = ((*entry, is_there) for entry, is_there in self._looked_for(named_by_one_alone(manifest, before)))
        with sorted_items.written(packed) as found:
            header = replace(manifests.read_header(manifest), boot=runs.boot())
            if any(_read(found)):
                self._mark(point, header, found)
            over, unlike = "--ignore-times" if self.marks else "--no-check-dest", dict[str, str]()
            for batch in batches((entry for entry, is_there in _read(found) if not is_there), OF_A_LIST):
                unlike |= {each.place: NOT_AS_WRITTEN.format(each.path) for each in self._transfer(batch, over)}
            look = overwritten_files.look(self.source, self.target, self.files, lambda: _entries(found))
            for text in {**look.others, **unlike, **look.overwritten}.values():
                self.done.note(text)
            self._write_last(manifest, point, found)
        runs.end(self.target, self.folder, point)

    def _mark(self, point: str, header: manifests.Header, found: IO[bytes]) -> None:
        # a killed copy may have left one that may not be replaced: elsewhere than here a size is enough
        with nullcontext() if self.target.location.directory else suppress(StorageFailed):
            runs.mark(self.target, self.folder, point, header, _entries(found), again=point in self.marks)

    def _looked_for(self, entries: Iterable[Entry]) -> Iterator[Found]:
        """Yield the files that should be in the copy, each with True if a killed copy has brought it whole."""
        for batch in batches(entries, OF_A_LIST):
            self.target.check_stop()
            left = [each for each in batch if each.folder in self.there]
            sizes = self.target.sizes(self.files, [each.place for each in left]) if left else {}
            left = [each for each in left if sizes.get(each.place) == each.size]
            whole = {each.place for each in self._whole_of_left(left)}
            doubtful = {each.place for each in left} - whole
            for each in batch:
                yield each._replace(doubtful=each.place in doubtful), each.place in whole

    def _whole_of_left(self, left: Sequence[Entry]) -> list[Entry]:
        """The files among `left`, which are there with the right size, whose content is right as far as
        that is known.
        """
        location = self.target.location
        if location.directory is None or not left:
            return list(left)
        read = [each for each in left if each.digest] if location.is_plain else []
        others = {each.place for each in left}.difference(each.place for each in read)
        trusted = self._brought_since_the_start(others) if others else set()
        return [*self._whole(self.target, read), *(each for each in left if each.place in trusted)]

    def _brought_since_the_start(self, places: Collection[str]) -> set[str]:
        """The places that a mark of this boot names: a file of its size there is the one that the mark was about to
        bring, since nothing else is ever written to its place. On a disk that keeps two names as one it may be the
        other file, which the look at the end shows (`overwritten_files.py`).
        """
        found = set[str]()
        for each in self.marks:
            with runs.marked(self.target, self.folder, each) as mark:
                if mark and mark[0].boot and mark[0].boot == runs.boot():
                    found.update(each.place for each in mark[1]() if not each.doubtful and each.place in places)
        return found

    def _whole(self, store: Store, entries: Sequence[Entry], top: str = "") -> list[Entry]:
        can_be_read = store.location.is_plain or store is self.source
        return whole_among(entries, store, top or self.files, can_be_read=can_be_read)

    def _replace(self, entries: Sequence[Entry]) -> list[Entry]:
        """Copy files over those that are there, which stay until the new ones are whole: they may be better than they
        seemed. Returns those that are not whole there.
        """
        target, incoming = self.target, f"{self.folder}/{layout.INCOMING}"
        if not (entries and target.location.loses_replaced):
            return self._transfer(entries, "--ignore-times")
        target.delete(incoming)  # of a killed copy
        try:
            left = self._transfer(entries, "--no-check-dest", incoming)
            target.move_over(incoming, self.files, [each.place for each in entries if each not in left])
        finally:
            with suppress(StorageFailed):
                target.delete(incoming)
        return left

    def _transfer(self, entries: Sequence[Entry], over: str, top: str = "") -> list[Entry]:
        """Copy files to the places that they have in the first repository, in the folder `top`, by default that of the
        files. `over`: rclone's option for existing files. Returns those that are not whole there.
        """
        if not entries:
            return []
        top = top or self.files
        before, problems = (self.done.files, self.done.size), dict[str, str]()
        is_local = self.source.location.is_plain and self.target.location.is_plain

        def on_progress(files: int, size: int) -> None:
            self.on_progress(before[0] + files, before[1] + size)

        self.source.copy_out(
            self.files, self.target.location.at(top), [each.place for each in entries], on_progress,
            over, f"--partial-suffix={PARTIAL_SUFFIX}", *self.options,
            environment=QUICK if is_local else {}, most=expected(sum(each.size for each in entries)), problems=problems,
        )  # fmt: skip
        for path, why in problems.items():
            if DAMAGED_OR_FOREIGN not in why and not OF_A_FILE.search(why):
                raise StorageFailed(f"{path}: {why}")
        self.done.files += len(entries)
        self.done.size += sum(each.size for each in entries)
        whole = {each.place for each in self._whole(self.target, entries, top)}
        return [each for each in entries if each.place not in whole]

    def _fetched(self, store: Store, point: str) -> Path:
        file = self.scratch / f"{'source' if store is self.source else 'target'}-{point}"
        if not file.exists() and not store.manifest(self.folder, point, file):
            raise StorageFailed(f"point {point} of {self.folder} went while it was copied; it is tried again")
        try:
            for _ in (
                manifests.read(file) if store.known is None else ()
            ):  # otherwise its digest shows that the scheduler wrote it
                store.check_stop()
        except ManifestDamaged:
            file.unlink()
            raise
        return file

    def _write_last(self, manifest: Path, point: str, found: IO[bytes]) -> None:
        """Make the point. If a disk of this host refuses the manifest, its files may be whole in memory alone, and the
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


def _entries(found: IO[bytes]) -> Iterator[Entry]:
    return (entry for entry, _ in _read(found))


def _read(found: IO[bytes]) -> Iterator[Found]:
    packed: Iterator[tuple[Any, ...]] = sorted_items.read(found)
    return ((Entry._make(each[:-1]), each[-1]) for each in packed)
