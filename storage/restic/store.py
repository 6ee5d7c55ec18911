"""A restic repository as the layout of `storage.layout`, so that browsing, restores, drills and `recover` need not know
which format it has:

    <source>-<id>/<policy>/manifests/<point>.jsonl.gz    made of a snapshot when it is read; deleted: `restic forget`
    <source>-<id>/<policy>/files/<point>/                the files of a snapshot, as far as they are copied out

All other files are next to restic's folder, unchanged: RECOVER.txt, repository.json, the scheduler's own backups.
"""

import math
import os
import tempfile
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from storage import layout
from storage.folders.beneath import LIST, passing_over_names
from storage.folders.scratch import remove
from storage.folders.staged_attributes import BARE, copy_attributes, inherit_nothing
from storage.folders.walking import folders_below
from storage.places import identity
from storage.places.identity import Identity
from storage.places.location import Location
from storage.places.locks import held
from storage.places.rclone import ANY
from storage.points.bounds import MOST_PARTS
from storage.points.files import path_in
from storage.points.manifests import Header, ManifestDamaged
from storage.points.moving import check_room
from storage.points.reading import SMALL
from storage.points.store import StorageFailed, Store
from storage.restic import listing
from storage.restic.fetching import Growth, fetch_files
from storage.restic.program import Restic, ResticFailed
from storage.restic.snapshots import Snapshot, known_among, snapshots
from storage.restic.verdicts import ResticTrouble

MAKING_SECONDS = 30.0
ANSWER_SECONDS = 20.0
"""The wait for an answer from the repository whose parameters a new one adopts."""
INCOMING = ".restic-incoming-"


@dataclass(frozen=True)
class ResticStore(Store):
    """See `Store`. Raises Busy, too, if another restic has locked the repository, and, in `fetch`, ManifestDamaged for
    a point whose folders cannot be read.
    """

    @property
    def restic(self) -> Restic:
        return Restic(self.location, self.stop, self.stall_timeout, self.grace, inherited=self.inherited)

    def make(self, ours: Identity | None, like: Location | None = None, *, must_be_like: bool = False) -> str | None:
        """Make restic's repository in a place that has no identity yet: a place that has one has a repository, or has
        lost it. `like`: another repository, whose cuts of files into pieces the new one adopts if it answers: data that
        is backed up to both, and copied from one to the other, is then stored once there. `must_be_like`: if `like`
        does not answer, no repository is made.

        Two that are made at the same time in the same place get two keys, one of which opens nothing: a lock on this
        host prevents that, and a repository is made when it is added.
        """
        if not self.location.keeps_files or identity.read(self):
            return None
        cache = Path(self.location.environment.get("RESTIC_CACHE_DIR", tempfile.gettempdir()))
        folder = self.location.directory or cache
        with held(folder / "locks" / "making", self.location.outside, MAKING_SECONDS):
            if identity.read(self):
                return None
            unlike = None
            try:
                unlike = self._init(like, must_be_like)
            except ResticFailed as error:
                if (
                    error.trouble is not ResticTrouble.EXISTS
                ):  # an earlier process was killed before it wrote the identity
                    raise
            if ours:
                identity.write(self, ours)
            return unlike

    def _init(self, like: Location | None, must_be_like: bool) -> str:
        """Returns the reason why it differs from `like`; empty if it does not."""
        unlike = ""
        if like:
            alike = replace(self.restic, second=like, stall_timeout=ANSWER_SECONDS)
            try:
                alike.run("init", "--copy-chunker-params")
                return ""
            except ResticFailed as error:
                if must_be_like or error.trouble is ResticTrouble.EXISTS:
                    raise
                unlike = str(error)
        self.restic.run("init")
        return unlike

    def names(self, path: str, *, folders: bool = False) -> list[str]:
        assignment, _, last = path.rpartition("/")
        if last == layout.MANIFESTS and not folders:
            found = known_among(snapshots(self.restic, assignment), self.known)
            return [each.point + layout.MANIFEST_ENDING for each in found]
        if last in (layout.FILES, layout.MANIFESTS):
            return []
        return super().names(path, folders=folders)

    def present(self, paths: Collection[str]) -> set[str]:
        """Manifests only: restic lists all of its snapshots, however few are requested."""
        return {layout.manifest_path(each.assignment, each.point) for each in snapshots(self.restic)} & set(paths)

    def assignments(self) -> list[str]:
        return sorted({each.assignment for each in snapshots(self.restic)})

    def fetch(self, path: str, file: Path, most: int = SMALL) -> bool:
        folder, _, name = path.rpartition("/")
        if not folder.endswith(f"/{layout.MANIFESTS}"):
            return super().fetch(path, file, most)
        found = self._snapshot(folder.removesuffix(f"/{layout.MANIFESTS}"), name.removesuffix(layout.MANIFEST_ENDING))
        if found is None:
            return False
        try:
            listing.write_manifest(self.restic, found, file)
        except ResticFailed as error:
            if error.trouble is ResticTrouble.DAMAGED:
                raise ManifestDamaged(f"of point {found.point}, {error}") from None
            raise
        return True

    def ours(self, points: Iterable[str]) -> list[str]:
        """All points: no one can make one without the key, and `names` leaves out any that takes the place of another
        one.
        """
        return list(points)

    def manifest(self, assignment: str, point: str, file: Path) -> bool:
        """Made of a snapshot that is known by its id, which is a digest of its contents."""
        return self.fetch(layout.manifest_path(assignment, point), file)

    def header(self, assignment: str, point: str) -> Header | None:
        """The header of a point, from its tags, without its contents."""
        found = self._snapshot(assignment, point)
        return listing.header_of(found) if found else None

    def copy_out(
        self,
        path: str,
        target: str,
        paths: Collection[str],
        on_progress: Callable[[int, int], None],
        *options: str,
        environment: Mapping[str, str] = MappingProxyType({}),
        tops: Collection[str] = ("",),
        most: int = ANY,
        problems: dict[str, str] | None = None,
    ) -> None:
        """Copy files out of snapshots. `path` is the folder of an assignment's files; the first part of each of `paths`
        and `tops` is a point. `tops`: folders that hold all wanted files; fetched at once, since every restic reads the
        indexes again. `paths` may have folders, which come with everything in them. Existing files in `target` are
        whole: they get there by a rename.
        """
        if ":" in target.partition("/")[0]:  # a remote: through files here, as far as there is room for them
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
                self.copy_out(path, scratch, paths, on_progress, tops=paths)
                here = [each for each in paths if os.path.lexists(path_in(Path(scratch), each))]
                self.with_paths(here, "copy", "--no-traverse", *options, scratch, target, environment=environment)
            return
        missing = defaultdict[str, list[str]](list)
        for each in paths:
            if not os.path.lexists(path_in(Path(target), each)):
                point, _, below = each.partition("/")
                missing[point].append(below)
        for point, wanted in missing.items():
            above = [below for each in tops for name, _, below in [each.partition("/")] if name in (point, "")]
            self._fetch_files(path.rpartition("/")[0], point, Path(target), wanted, above, on_progress, most)

    def _fetch_files(
        self,
        assignment: str,
        point: str,
        target: Path,
        paths: Collection[str],
        tops: Collection[str],
        on_progress: Callable[[int, int], None],
        most: int,
    ) -> None:
        """Copy files of a point into the folder of its name in `target`."""
        if (snapshot := self._snapshot(assignment, point)) is None:
            raise StorageFailed(f"there is no point {point} of {assignment} any more")
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
        for left in target.glob(f"{INCOMING}*"):
            remove(left)

        def grows(files: int, size: int) -> None:
            check_room(target, size)
            if size > most:
                raise StorageFailed(f"it was ended because more than {most:,} bytes came, more than there can be")
            on_progress(files, size)

        incoming = Path(tempfile.mkdtemp(prefix=INCOMING, dir=target))
        if snapshot.tags.get("kind") == listing.LOCAL:
            inherit_nothing(incoming)
        try:
            growth = Growth(incoming, grows)
            patient = replace(self.restic, stall_timeout=math.inf)  # restic reads all indexes before the first byte
            fetch_files(patient, snapshot.id, incoming, paths, tops, growth)
            _take_over(incoming, str(target / point))
        finally:
            remove(incoming)

    def delete(self, path: str, paths: Collection[str] | None = None) -> None:
        folder, _, last = path.rpartition("/")
        if last != layout.MANIFESTS:
            super().delete(path, paths)
            return
        points = None if paths is None else {each.removesuffix(layout.MANIFEST_ENDING) for each in paths}
        found = (each for each in snapshots(self.restic, folder) if points is None or each.point in points)
        gone = [name for each in found for name in each.ids]
        if gone:
            self.restic.run("forget", *gone)

    def _snapshot(self, assignment: str, point: str) -> Snapshot | None:
        found = known_among(snapshots(self.restic, assignment), self.known)
        return next((each for each in reversed(found) if each.point == point), None)


def _take_over(incoming: Path, target: str) -> None:
    """Move files to their places, and give each folder there the attributes that restic has set, by names that
    manifests can have. A link would make another folder of that name in a manifest lead out of `target`; links are made
    from manifests instead. What no manifest can name stays.
    """
    os.chmod(incoming, 0o700)  # it may be read-only
    top = os.open(incoming, LIST)
    try:
        for way, here, entries in folders_below(top, opening=True):
            below = b"/".join(_named(os.fsencode(each)) for each in way)
            folders = {_named(os.fsencode(each.name)) for each in entries if each.is_dir(follow_symlinks=False)}
            files = [each.name for each in entries if not (each.is_dir(follow_symlinks=False) or each.is_symlink())]
            home = os.path.join(os.fsencode(target), below)
            if len(way) < MOST_PARTS and _make_folder(home, here):
                for name in map(os.fsencode, files):
                    if _named(name) not in folders:  # as in the manifest
                        with passing_over_names():
                            os.replace(name, os.path.join(home, _named(name)), src_dir_fd=here)
    finally:
        os.close(top)


def _make_folder(home: bytes, like: int) -> bool:
    """Make a folder in the staging folder, with the attributes of an open one. Returns False if the file system does
    not take its name, or a file has it, whose name is another one in the snapshot.
    """
    with passing_over_names(), suppress(FileExistsError, NotADirectoryError):
        os.makedirs(home, mode=BARE, exist_ok=True)
        made = os.open(home, LIST)
        try:
            copy_attributes(like, made)
        finally:
            os.close(made)
        return True
    return False


def _named(name: bytes) -> bytes:
    return name.decode("utf-8", "replace").encode()
