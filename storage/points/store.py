"""Reads and changes the contents of a repository, by rclone. Paths are relative to the folder of all assignments."""

import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from storage import layout
from storage.folders.flushing import flush, remove_left_behind
from storage.places import locks
from storage.places.identity import Identity
from storage.places.location import OVER, Location
from storage.places.rclone import ANY, StorageFailed, StorageStopped, path_list
from storage.points import known, own_names
from storage.points.known import Known
from storage.points.manifests import Header, ManifestDamaged, read_header
from storage.points.moving import LostContent, TransferProgress, delete_here, stay_within
from storage.points.reading import MANIFEST, ReadableStore, only_in

__all__ = ["PARTIAL_SUFFIX", "StorageFailed", "StorageStopped", "Store", "path_list"]

MOVED = "{} is not where it was when this began: it was moved, or its disk was unmounted; is it mounted?"
PARTIAL_SUFFIX = ".rclone-partial"
"""The end of the name of a file that is being fetched. Not more than 16 characters."""
REWRITTEN = ".new"
"""The end of the name of a file that is to be moved over the old one."""
PIECE = re.compile(rf"\.[0-9a-f]{{8}}{re.escape(PARTIAL_SUFFIX)}$")


@dataclass(frozen=True)
class Store(ReadableStore):
    """A repository at work. Each call blocks, and may raise the errors of `Rclone`. `known`: the points of the
    assignment in question, as the database has them; None if all points found are accepted.
    """

    known: Known | None = None

    def make(self, ours: Identity | None, like: Location | None = None, *, must_be_like: bool = False) -> str | None:
        """Make everything that the format needs before the first backup: here nothing, in a subclass a repository of
        restic with the parameters of `like`. Returns None if nothing was made, otherwise the way in which it differs
        from `like`, empty if it does not.
        """
        return None

    def ours(self, points: Iterable[str]) -> list[str]:
        """The points that are known, by their names."""
        return [each for each in points if self.known is None or each in self.known]

    def manifest(self, assignment: str, point: str, file: Path) -> bool:
        """Copy the manifest of a point out of the repository. Returns True if it was there. Raises, in addition to the
        others: Foreign if it is not the known one; without known ones, ManifestDamaged if it is that of another point.
        """
        if not self.any_manifest(assignment, point, file):
            return False
        known.compare(file, point, self.known)
        if self.known is None:
            own_names.check_is_of(file, point)
        return True

    def any_manifest(self, assignment: str, point: str, file: Path) -> bool:
        """`manifest`, whoever wrote it, and for whatever point: to describe it, or to keep the files that it names.
        Raises, in addition to the others: ManifestDamaged if its content is lost, or if a link or
        the like is in its place.
        """
        try:
            return self.fetch(layout.manifest_path(assignment, point), file, MANIFEST)
        except LostContent as error:
            raise ManifestDamaged(f"the manifest of point {point} cannot be read: {error}") from None

    def header(self, assignment: str, point: str) -> Header | None:
        """The header of a point. None if it is missing. Raises: ManifestDamaged, StorageFailed, StorageStopped."""
        with tempfile.TemporaryDirectory() as scratch:
            file = Path(scratch) / point
            return read_header(file) if self.manifest(assignment, point, file) else None

    def put(self, file: Path, path: str) -> None:
        """Copy a file into the repository, where it is seen whole or not at all."""
        if (here := self._here(path)) is not None:
            here.parent.mkdir(parents=True, exist_ok=True)
            # a unique name: the first backups of two sources write RECOVER.txt at the same time
            new = here.with_name(f".{here.name}.{secrets.token_hex(4)}.new")
            try:
                with file.open("rb") as read, new.open("xb") as written:
                    shutil.copyfileobj(read, written)
                    written.flush()
                    os.fsync(written.fileno())
                remove_left_behind(new)
                new.replace(here)
            finally:
                new.unlink(missing_ok=True)
            return
        # `file` may be a descriptor, which systems show as a link
        self.run("copyto", "--ignore-times", "--copy-links", str(file), self.location.at(path))

    def put_last(self, file: Path, path: str, *, is_over: bool = False) -> None:
        """`put` a file that names other files, once these are on this host's disk: after a power cut it would otherwise
        name empty files. Afterwards it is on the disk, too. A server's disk is not known. `is_over`: `put_over` it.
        """
        self._check_place(path)
        self.flush()
        (self.put_over if is_over else self.put)(file, path)
        self.flush()
        self._check_place(path)

    def put_over(self, file: Path, path: str) -> None:
        """`put` a file where an older one may be, which stays until the new one is whole."""
        if self.location.loses_replaced and self.run("lsf", self.location.at(path), missing_ok=True):
            self.put(file, new := path + REWRITTEN)
            self.run("moveto", *OVER, self.location.at(new), self.location.at(path))
        else:
            self.put(file, path)

    def move_over(self, path: str, to: str, paths: Collection[str]) -> None:
        """Move files of a folder into another one, each in place of an older one that may be there."""
        self.with_paths(paths, "move", "--no-traverse", *OVER, self.location.at(path), self.location.at(to))

    def _check_place(self, path: str) -> None:
        """Check that the folder of an assignment, which `path` is two levels below, is where it was locked. Raises:
        StorageFailed if it is not: a point would be written where none of its files are.
        """
        folder = path.rpartition("/")[0].rpartition("/")[0]
        if self.inherited and not locks.is_in_place(self.location, folder):
            raise StorageFailed(MOVED.format(self.location.outside))

    def put_all(self, folder: Path, path: str) -> None:
        """`put` all files that are directly in a folder into a folder of the repository, as far as it lacks them."""
        if self._here(path) is not None:
            for each in sorted(folder.iterdir()):
                self.put(each, f"{path}/{each.name}")
        else:
            self.run("copy", "--ignore-existing", str(folder), self.location.at(path))

    def remove(self, path: str) -> None:
        """Delete a file that `put` made. A missing file is fine."""
        if (here := self._here(path)) is not None:
            here.unlink(missing_ok=True)
        else:
            self.run("deletefile", self.location.at(path), missing_ok=True)

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
        """Copy files out of a folder, as far as they exist, into `target`, an argument of rclone.

        `on_progress` gets the number of copied files and bytes, twice a second. `environment`: more of rclone's
        variables. `tops`: folders that hold all of `paths`. `most`: bytes that may come. `problems`: collects errors of
        single files, as in `Rclone.run`. Raises: TargetFailed, too, if they fill the disk of a target on this host.
        """
        moved = TransferProgress(Path(target) if target.startswith("/") else None)

        def take(line: str) -> None:
            if moved.take(line):
                on_progress(moved.files, moved.size)

        arguments = ("copy", "--no-traverse", "--stats=500ms", "--stats-log-level=ERROR", *options)
        watched: dict[str, Any] = {"on_line": take, "sign_of_life": moved, "environment": environment, "most": most}
        watched["problems"] = problems
        if (here := self._here(path)) is not None:
            watched["confined"] = stay_within(Path(self.location.root), here, target)
        self.with_paths(self.files_among(path, paths), *arguments, self.location.at(path), target, **watched)

    def copy_as(
        self, path: str, target: str, names: Mapping[str, str], problems: dict[str, str], *options: str, most: int = ANY
    ) -> None:
        """`copy_out` these files, each to the name that it has in `names`. `problems` gets the reasons why some did not
        come, by path, also if it raises.
        """
        from storage.places.remote_control import Statistics, obeyed  # with http.client, a tenth of a child's start

        at, moved = self.location.at(path), TransferProgress()
        watched: dict[str, Any] = {"most": most, "problems": {}}
        if (here := self._here(path)) is not None:
            watched["confined"] = stay_within(Path(self.location.root), here, target)
        names = {each: names[each] for each in self.files_among(path, names)}
        orders = (
            (each, "operations/copyfile", {"srcFs": at, "srcRemote": each, "dstFs": target, "dstRemote": name})
            for each, name in names.items()
        )

        def take(each: str, answer: dict[str, Any]) -> None:
            if error := answer.get("error"):
                problems[each] = error

        def serve(how: tuple[str, ...]) -> None:
            look = Statistics(how, moved.take)

            def sign_of_life() -> tuple[int, ...]:
                look()
                return moved()

            self.run(*how, *options, sign_of_life=sign_of_life, **watched)

        hidden = (*self.location.secrets, *(self.beside.secrets if self.beside else ()))
        if names and not obeyed(serve, orders, take, hidden):
            raise StorageFailed("rclone ended before it had copied all files")

    def delete(self, path: str, paths: Collection[str] | None = None) -> None:
        """Delete files in a folder; `paths`: only these, otherwise the folder with all its contents. Missing files are
        fine.
        """
        at, done = self.location.at(path), TransferProgress()  # a deleted file counts as a checked one
        watched: dict[str, Any] = {"missing_ok": True, "on_line": done.take, "sign_of_life": done}
        how = ("delete", "--stats=5s", "--stats-log-level=ERROR", at)
        if paths is not None and (here := self._here(path)) is not None:
            delete_here(here, paths, self.check_stop)
        elif paths is not None:
            self.with_paths(paths, *how, **watched)
        # a purge of a missing folder is an error like any other
        elif self.run("lsf", at, missing_ok=True):
            try:
                self.run("purge", at, missing_ok=True)
            except StorageFailed:  # in a bucket it deletes earlier versions, too, which may be locked
                self.run(*how, **watched)

    def remove_empty_folders(self, path: str, *, leave_root: bool = True, among: Collection[str] = ()) -> None:
        """Remove empty folders below a folder. `leave_root`: the folder itself stays. `among`: only within these
        folders below it.
        """
        at, kept = self.location.at(path), ("--leave-root",) if leave_root else ()
        if leave_root or self.run("lsf", at, missing_ok=True):
            self.run("rmdirs", *kept, *only_in(among), at, missing_ok=True)

    def flush(self) -> None:
        """Wait until this host's disk has everything that was written and deleted. A server's disk is not known."""
        if self.location.directory:
            flush(self.location.directory, self.stop, self.inherited)  # including the lock, held from the beginning
