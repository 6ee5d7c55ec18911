"""Restores to where it came from: an SFTP host, a share, a bucket, a folder of this host. Without Django.

What is there as in the backup is left alone, so an interrupted restore goes on; what differs is replaced only if that
was asked for. rclone puts a file there under a partial name, where the protocol can rename. Each file is looked at
again afterwards: its size, and whether a run moved it meanwhile (`storage.restoring.restoring`).
"""

import dataclasses
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from engines.base import SourceSpec
from engines.not_kept import not_kept
from engines.rclone.remotes import remote_path, way_to
from external.formatting import several
from storage.places.location import Location
from storage.points import places
from storage.points.batches import batches
from storage.points.files import is_time_of, nanoseconds, path_in
from storage.points.manifests import Entry
from storage.points.places import KEPT_TEXTS, Refused, Report, Restoring, Step, Wish
from storage.points.store import StorageFailed, Store, rows_to
from storage.points.trees import Tree, opened
from storage.restoring import restoring, targets
from storage.restoring.restoring import BATCH_FILES, SHOWN, TRIES

OPTIONS = ("--contimeout=60s", "--timeout=300s", "--low-level-retries=3")
WITH_EMPTY_FOLDERS = ("sftp", "webdav")

Found = dict[str, tuple[int, str]]
"""Path → size and time of what is there."""


def put_back(wish: Wish, store: Store, source: SourceSpec, cache: Path, on_step: Callable[[Step], None]) -> Report:
    """Restore below `wish.target` in the source ("." is the source itself); block until done.

    Raises: what `restoring.restore` does.
    """
    if source.kind == "local":
        folder = Path(source.path) / wish.target  # whose path has no link in it, or the restore is refused
        if not Path(source.path).is_dir():
            raise Refused(f"there is no directory {source.path} here: is its volume mounted?")
        return restoring.restore_to_stay(dataclasses.replace(wish, target=folder, among=True), store, cache, on_step)
    with opened(store, wish.assignment, wish.point, cache) as tree, way_to(source, store.location) as environment:
        location = dataclasses.replace(store.location, environment=environment)
        reaching = dataclasses.replace(store, location=location)
        below = "" if str(wish.target) == "." else str(wish.target)
        target = Location(remote_path(source), "").at(below) if below else remote_path(source)
        return _Back(wish, reaching, tree, source, target, on_step).run()


class _Back(Restoring):
    def __init__(
        self, wish: Wish, store: Store, tree: Tree, source: SourceSpec, target: str, on_step: Callable[[Step], None]
    ) -> None:
        super().__init__(wish, store, tree, f"{source.name}: {source.path}/{wish.target}".removesuffix("/."), on_step)
        self.source, self.target = source, Location(target, target)

    def run(self) -> Report:
        there = self._look()
        same = self._same_bytes([each for each in self.entries("file") if self._may_be_same(each, there)])
        wanted = [each for each in self.entries("file") if not self._is_same(each, there) and each.path not in same]
        collisions = [each.path for each in wanted if each.path in there]
        report = self.report
        report.collisions, report.replaced = collisions[:KEPT_TEXTS], len(collisions)
        report.present = sum(1 for _ in self.entries("file")) - len(wanted)
        self.files, self.size = len(wanted), sum(each.size for each in wanted)
        self._note_what_is_not_set()
        if self.wish.dry_run:
            report.files, report.size = self.files, self.size
            return report
        if collisions and not self.wish.overwrite:
            names = ", ".join(collisions[:SHOWN]) + (", …" if len(collisions) > SHOWN else "")
            raise Refused(
                f"{len(collisions):,} files at {self.source.name} differ from this point ({names}): restore into a "
                "folder beside them, or choose to replace what differs"
            )
        if self.store.location.is_restic:  # through files of this host
            sizes = [sum(each.size for each in batch) for batch in batches(wanted, BATCH_FILES)]
            way_out = "name a larger one in the worker's TMPDIR"
            targets.check_room(Path(tempfile.gettempdir()), max(sizes, default=0), way_out)
        for batch in batches(wanted, BATCH_FILES):
            self._copy(batch, set(collisions))
        self._make_empty_folders()
        return report

    def _look(self) -> Found:
        """What is there of what was asked for."""
        found: Found = {}
        for top in self.tops:
            entry = self.tree.entry(top)
            is_file = entry is not None and entry.kind != "folder"

            def take(row: dict[str, Any], top: str = top, is_file: bool = is_file) -> None:
                path = top if is_file else f"{top}/{row['Path']}".lstrip("/")
                found[path] = (row["Size"], row["ModTime"])

            options = ("--recursive", "--files-only", "--no-mimetype", *OPTIONS)
            at = self.target.at(top) if top else self.target.root
            try:
                self.store.run("lsjson", *options, at, missing_ok=True, on_line=rows_to(take))
            except StorageFailed as error:
                raise places.TargetFailed(str(error)) from error
        return found

    def _is_same(self, entry: Entry, there: Found) -> bool:
        size, modified = there.get(entry.path, (-1, ""))
        return size == entry.size and bool(modified) and is_time_of(entry, nanoseconds(modified))

    def _may_be_same(self, entry: Entry, there: Found) -> bool:
        return entry.path in there and there[entry.path][0] == entry.size and not self._is_same(entry, there)

    def _same_bytes(self, entries: list[Entry]) -> set[str]:
        """Those whose bytes are there, although their time is not: it cannot be set everywhere. Reads both."""
        found: set[str] = set()

        def take(line: str) -> None:
            if line.startswith("= "):
                found.add(line[2:])

        lying = self.places({each.path for each in entries})
        for place, paths in places.by_place(lying).items():
            with suppress(StorageFailed):  # they differ
                at = self.store.location.at(f"{self.wish.assignment}/{place}")
                self.store.with_paths(
                    paths,
                    "check",
                    "--download",
                    "--one-way",
                    "--combined=-",
                    *OPTIONS,
                    at,
                    self.target.root,
                    on_line=take,
                )
        return found

    def _copy(self, batch: list[Entry], differing: set[str]) -> None:
        """Copy a batch; copy again what a run moved meanwhile, or what has another size then."""
        left, ours = {each.path: each for each in batch}, set[str]()
        trouble: StorageFailed | None = None
        for _ in range(TRIES):
            lying = self.places(left)
            for place, paths in places.by_place(lying).items():
                replaced = [each for each in paths if each in differing or each in ours]
                for chosen, option in (
                    (replaced, "--ignore-times"),
                    ([each for each in paths if each not in set(replaced)], "--ignore-existing"),
                ):
                    try:
                        size = sum(left[each].size for each in chosen)
                        self.fetch(place, self.target.root, chosen, option, *OPTIONS, size=size)
                    except StorageFailed as error:
                        trouble = error
            ours |= set(left)
            there, now = self._look(), self.places(left)
            places.check_point(self.store, self.wish)
            for path, entry in list(left.items()):
                if there.get(path, (-1, ""))[0] == entry.size and now[path] == lying[path]:
                    del left[path]
                    self.count(entry)
            if not left:
                break
            if trouble:
                raise trouble
            if self.store.location.is_restic:
                break  # as in `restoring`
        self.report.files, self.report.size = self.done_files, self.done_size
        self.report.lost += len(left)
        for path in left:
            self.fail(path, "it does not come out with the size that the manifest says")

    def _make_empty_folders(self) -> None:
        empty = [each.path for each in self.entries("folder") if self.tree.total(each.path) == (0, 0)]
        if not empty or self.source.kind not in WITH_EMPTY_FOLDERS:
            return
        with tempfile.TemporaryDirectory() as scratch:
            for path in empty:
                os.makedirs(path_in(Path(scratch), path), exist_ok=True)
            self.store.run("copy", "--create-empty-src-dirs", *OPTIONS, scratch, self.target.root)

    def _note_what_is_not_set(self) -> None:
        links = sum(1 for _ in self.entries("link"))
        modes = sum(1 for each in self.entries("file") if each.mode is not None)
        if links:
            self.report.not_set.append(f"{several(links, 'symbolic link')} not made: {self.source.kind} takes none")
        if modes:
            self.report.not_set.append(
                f"the modes of {several(modes, 'file')} were not set: {self.source.kind} takes none"
            )
        lost = "; ".join(not_kept(self.source.kind))
        self.report.not_set.append(f"as the server makes them, since backups of {self.source.kind} lack them: {lost}")
