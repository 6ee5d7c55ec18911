"""Brings what an assignment has in one repository into another one, which is then a whole repository of its own, with a
key of its own.

Points are played onto the copy in the order of time, each like the run that made it: what it replaces is moved from
`current` to `versions/<point>`, what is new is copied to `current`, and last comes its manifest, byte for byte. What
differs follows from the manifests of two neighbours, so nothing is listed, and what did not change costs nothing but to
read them.

While files come, the copy holds a mark, `manifests/<point>.unfinished`, which is the manifest of the point under way.
Until its own is there, a file of an earlier point lies in `current` as before, or was moved to `versions/<point>`,
where it is looked for first: a copy that is killed at any step has harmed no point. The next one lists `current`,
deletes what neither an earlier point nor the mark accounts for, and goes on, with the same point or with a later one:
what was copied stays.

A name may be too long for the copy, since encryption makes names longer. Where that ends a copy, it begins again
without the long names that are not there: they are named, and all else comes.

Nothing that a point holds is deleted here. What the copy need not keep is removed as everywhere (`merging.py`).
"""

import re
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from storage import layout
from storage.places.rclone import expected
from storage.points import known, manifests, runs
from storage.points.copies import Copied, Left, check_is_there, differing, files_of, is_long, later_than, unaccounted
from storage.points.digests import digests_of_copy
from storage.points.manifests import Entry, ManifestDamaged
from storage.points.places import RCLONE, by_place
from storage.points.store import MANIFEST, PARTIAL_SUFFIX, Stopped, StorageFailed, Store

QUICK = {"RCLONE_LOCAL_HASHES": "xxh3"}
"""How the two streams of a copy between folders are compared; MD5 would take most of the time."""

TOO_LONG = re.compile(r"file ?name too long|KeyTooLong", re.IGNORECASE)

OnProgress = Callable[[int, int], None]


def copy(
    source: Store,
    target: Store,
    folder: str,
    *,
    newest: str = "",
    again: Collection[str] = (),
    options: tuple[str, ...] = (),
    on_progress: OnProgress = lambda files, size: None,
) -> Copied:
    """Bring the points of an assignment that are later than those of `target` there. Both stores reach both places.

    `newest`: a point that has to be in the first one: where it is not, something is wrong there, and nothing is done.
    `again`: paths in `current` of the copy that a check found damaged: they are copied once more. `options`: of rclone,
    for what is transferred. Raises: StorageFailed, Stopped, ProgramMissing, OSError.
    """
    with tempfile.TemporaryDirectory() as scratch:
        work = _Copying(source, target, folder, options, on_progress, Path(scratch))
        try:
            return work.do(newest, set(again))
        except StorageFailed as error:
            if not TOO_LONG.search(str(error)):
                raise
        work.done = replace(work.done, points=[], wrong_files=0, wrong=[], untried=[])
        work.long_there = {each for each in target.sizes(f"{folder}/{layout.CURRENT}") if is_long(each)}
        return work.do(newest, set(again))


@dataclass
class _Copying:
    source: Store
    target: Store
    folder: str
    options: tuple[str, ...]
    on_progress: OnProgress
    scratch: Path
    done: Copied = field(default_factory=Copied)
    long_there: Collection[str] | None = None
    versions: dict[str, Collection[str]] = field(default_factory=dict)
    _as_of: str | None = None

    def do(self, newest: str, again: set[str]) -> Copied:
        self.bring(newest)
        if again:
            self.mend(again)
        return self.done

    def mend(self, paths: set[str]) -> None:
        """Copy files of the newest point once more, where they are not under way there themselves."""
        if (manifest := self._newest(self.done.points[-1:], [])) and self._as_of:
            entries = [each for each in self._taken(manifest) if each.path in paths]
            self._find_versions([self._as_of])
            # written over, never deleted before: the first repository may have lost it
            self._transfer(layout.CURRENT, self._placed(self._as_of, entries), "--ignore-times")

    def bring(self, newest: str) -> None:
        found = runs.points(self.source, self.folder)
        check_is_there(newest, found, self.folder)
        files = self.target.names(f"{self.folder}/{layout.MANIFESTS}")
        points = self.done.points = self.target.ours(runs.points_among(files))
        marks = [each for each in files if each.endswith(runs.UNFINISHED)]
        manifest = self._newest(points, found)
        if wanted := later_than(points, found):
            left = self._left(self._as_of, marks)
            self._find_versions(wanted)
            for point in wanted:
                if self.source.stop.is_set():
                    raise Stopped
                try:
                    following = self._bring_point(point, manifest, left)
                except ManifestDamaged as error:
                    self.done.note(f"point {point} is left out of the copy: {error}")
                    continue
                points.append(point)
                self.done.new.append(point)
                if following is not manifest:
                    manifest, left = following, None

    def _newest(self, points: list[str], found: list[str]) -> Path | None:
        """The manifest of the point as of which `current` is in the copy. One that is damaged is brought once more."""
        for point in points[::-1]:
            try:
                manifest = self._fetched(self.target, point)
                if manifests.read_header(manifest).engine != RCLONE:
                    continue
                for _ in manifests.read(manifest):
                    pass
            except ManifestDamaged as error:
                if point != points[-1] or point not in found:
                    raise StorageFailed(
                        f"in the copy, {error}: look at its disk, and delete that manifest if it cannot be mended"
                    ) from None
                self.target.remove(layout.manifest_path(self.folder, point))
                points.remove(point)
                continue
            self._as_of = point
            return manifest
        return None

    def _left(self, newest: str | None, marks: list[str]) -> Left | None:
        names = self.target.names(f"{self.folder}/{layout.VERSIONS}", folders=True)
        behind = layout.later_runs(newest, names) if newest else layout.by_time(names)
        if not behind and not marks:
            return None
        runs.remove_pieces(self.target, self.folder)
        moved = {path for each in behind for path in self.target.sizes(f"{self.folder}/{layout.VERSIONS}/{each}")}
        half: dict[str, Entry] = {}
        for mark in marks:
            file = self.scratch / "mark"
            # one of an engine holds nothing; of two, the later one replaces the other, and either is right
            with suppress(ManifestDamaged):
                if self.target.fetch(f"{self.folder}/{layout.MANIFESTS}/{mark}", file, MANIFEST):
                    half = {each.stored_path: each for each in files_of(file)}
        return Left(self.target.sizes(f"{self.folder}/{layout.CURRENT}"), moved, half, marks)

    def _find_versions(self, wanted: list[str]) -> None:
        """What lies in the folders of `versions` that the wanted points need: each is listed once."""
        names = self.source.names(f"{self.folder}/{layout.VERSIONS}", folders=True)
        for run in layout.later_runs(wanted[0], names):
            self.versions[run] = self.source.sizes(f"{self.folder}/{layout.VERSIONS}/{run}").keys()

    def _bring_point(self, point: str, before: Path | None, left: Left | None) -> Path | None:
        """Make a point of the copy. Returns the manifest as of which `current` is then. Raises: ManifestDamaged, before
        anything."""
        manifest = self._fetched(self.source, point)
        if manifests.read_header(manifest).engine != RCLONE:
            place = f"{layout.POINTS}/{point}"
            files = list(files_of(manifest))
            self._transfer(place, {place: files}, "--size-only")
            self._write_last(manifest, point, place, files)
            return before
        long: list[Entry] = []
        out, wanted = differing(self._taken(before) if before else (), self._taken(manifest, long), left)
        self._look_at_long(long, wanted)
        current, mark = f"{self.folder}/{layout.CURRENT}", f"{point}{runs.UNFINISHED}"
        if left:
            self.target.delete(current, unaccounted(before, wanted, left))
        if out:
            # before its mark: a bucket moves by a copy, so that what was killed has a file in both places
            self.target.move(current, f"{self.folder}/{layout.VERSIONS}/{point}", out)
        self._write(manifest, mark)
        for each in left.marks if left else ():
            if each != mark:
                self.target.remove(f"{self.folder}/{layout.MANIFESTS}/{each}")
        self._transfer(layout.CURRENT, self._placed(point, wanted), "--size-only" if left else "--no-check-dest")
        self._write_last(manifest, point, layout.CURRENT, wanted)
        runs.end(self.target, self.folder, point)
        return manifest

    def _taken(self, manifest: Path, long: list[Entry] | None = None) -> Iterator[Entry]:
        """What is to come of a point: once a name was too long, no long one but those that are there. `long` gets all
        long ones, then those that are left out."""
        for each in files_of(manifest):
            if is_long(each.stored_path):
                is_left_out = self.long_there is not None and each.stored_path not in self.long_there
                if long is not None and (is_left_out or self.long_there is None):
                    long.append(each)
                if is_left_out:
                    continue
            yield each

    def _look_at_long(self, long: list[Entry], wanted: list[Entry]) -> None:
        """Name what is left out; also what an earlier copy has. Raises: StorageFailed."""
        if self.long_there is not None:
            for each in long:
                self.done.note(
                    f"{each.path!r:.200}: its name is too long for the copy; shorten it, or leave it out with `exclude`"
                )
            return
        lies = {each.stored_path for each in long} - {each.stored_path for each in wanted}
        if lies and len(self.target.sizes(f"{self.folder}/{layout.CURRENT}", lies)) < len(lies):
            raise StorageFailed("file name too long")

    def _placed(self, point: str, wanted: list[Entry]) -> dict[str, list[Entry]]:
        """Place in the first repository → what lies there of a point."""
        entries = {each.stored_path: each for each in wanted}
        places = layout.places_of(entries, point, self.versions)
        return {place: [entries[path] for path in paths] for place, paths in by_place(places).items()}

    def _transfer(self, to: str, placed: Mapping[str, list[Entry]], over: str) -> None:
        """Copy into a folder of the copy. `over`: rclone's option for what is there already."""
        target = self.target.location.at(f"{self.folder}/{to}")
        environment = QUICK if self.source.location.is_plain and self.target.location.is_plain else {}
        how = (over, f"--partial-suffix={PARTIAL_SUFFIX}", *self.options)
        for place, entries in placed.items():
            before, paths = (self.done.files, self.done.size), [each.stored_path for each in entries]

            def on_progress(files: int, size: int, before: tuple[int, int] = before) -> None:
                self.on_progress(before[0] + files, before[1] + size)

            copy = partial(
                self.source.copy_out, f"{self.folder}/{place}", target, paths, on_progress, environment=environment,
                most=expected(sum(each.size for each in entries)),
            )  # fmt: skip
            try:
                copy(*how)
            except StorageFailed:
                # an empty folder, which what was moved has left, lies where a file is to be
                self.target.remove_empty_folders(f"{self.folder}/{to}")
                how = ("--ignore-times" if over == "--ignore-times" else "--size-only", *how[1:])
                copy(*how)
            self.done.files += len(entries)
            self.done.size += sum(each.size for each in entries)
            self._compare(to, entries)

    def _compare(self, to: str, entries: list[Entry]) -> None:
        """Whether what was copied is what the manifest says: by digest where it can be read back here."""
        paths = [each.stored_path for each in entries]
        if self.target.location.is_plain:
            folder = Path(self.target.location.at(f"{self.folder}/{to}"))
            found, _ = digests_of_copy(folder, paths, self.target.stop)
            wrong = [
                each
                for each in entries
                if found.get(each.stored_path, "") != (each.digest or found.get(each.stored_path))
            ]
        else:
            sizes = self.target.sizes(f"{self.folder}/{to}", paths)
            wrong = [each for each in entries if sizes.get(each.stored_path) != each.size]
        for each in wrong:
            self.done.note(f"{each.path!r:.200} is not as its manifest says in the repository that is copied")

    def _fetched(self, store: Store, point: str) -> Path:
        file = self.scratch / f"{'source' if store is self.source else 'target'}-{point}"
        if not file.exists() and not store.manifest(self.folder, point, file):
            raise StorageFailed(f"point {point} of {self.folder} went while it was copied; it is tried again")
        return file

    def _write_last(self, manifest: Path, point: str, to: str, came: list[Entry]) -> None:
        """Make the point. What its disk did not take of the files that `came` is whole in memory alone, where the next
        copy would take it for copied: they go again."""
        self.done.digests[point] = digest = known.digest_of(manifest)
        known.keep(self.target.known, point, digest)
        try:
            self._write(manifest, f"{point}{layout.MANIFEST_ENDING}")
        except OSError:
            with suppress(OSError, StorageFailed):
                self.target.remove(layout.manifest_path(self.folder, point))
                self.target.delete(f"{self.folder}/{to}", [each.stored_path for each in came])
            raise

    def _write(self, manifest: Path, name: str) -> None:
        self.target.put_last(manifest, f"{self.folder}/{layout.MANIFESTS}/{name}")
