"""Restores to the source: an SFTP host, a share, a bucket, a folder on this host. Without Django.

Files that are already as in the backup are left alone, so an interrupted restore continues; files that differ are
replaced only if that was requested. Files are first copied to scratch space on this host, in batches, and compared with
the manifest there; a large one goes straight from the repository to the source. rclone writes a file there under a
partial name, where the protocol can rename. At the end the sizes of all files are checked.
"""

import dataclasses
import re
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

from engines.base import SourceSpec
from engines.rclone.remotes import is_bucket, remote_path, servers_of, times_arguments, way_to
from engines.restores.at_source import FILE_THERE, FOLDER_THERE, OPTIONS, of_the_target
from engines.restores.besides_files import NOT_MADE, make_empty_folders, note_what_is_not_set
from engines.restores.replacing import Replacement, is_needed
from engines.restores.scratch_batch import ScratchBatch
from external.processes.rows import row_of
from storage import layout
from storage.folders.scratch import remove_left, scratch_in
from storage.places.location import Location
from storage.places.rclone import expected, rows_to
from storage.places.servers import DAMAGED_OR_FOREIGN
from storage.points.batches import batches
from storage.points.manifests import Entry
from storage.points.refusals import ONE_AT_A_TIME
from storage.points.store import StorageFailed, Store
from storage.points.trees import Tree, opened
from storage.restoring import into_folder, targets
from storage.restoring.base import KEPT_TEXTS, Report, RestoreProgress, RestoreRefused, RunningRestore, Wish
from storage.restoring.into_folder import BATCH_FILES, SHOWN
from storage.restoring.shared_names import key_of

SIZE = attrgetter("size")
SCRATCH_BYTES = 2**30
"""Bytes of files that are on their way at a time. A larger file goes straight from the repository."""
DAMAGED = re.compile(rf"{re.escape(DAMAGED_OR_FOREIGN)}|decrypt|bad magic", re.IGNORECASE)
"""Messages about a file of an encrypted repository whose content is wrong, and not about the source."""
REPLACED_THERE = "its server gave another file of this point the same name, and holds that one: restore it by itself"

Found = dict[str, tuple[int, str]]
"""Path → size and time of an existing file."""


def put_back(
    wish: Wish, store: Store, source: SourceSpec, cache: Path, on_step: Callable[[RestoreProgress], None]
) -> Report:
    """Restore below `wish.target` in the source ("." is the source itself); block until done.

    Raises: what `into_folder.restore` raises.
    """
    if source.kind == "local":
        folder = Path(source.path) / wish.target  # its path must not contain a link, or the restore is refused
        if not Path(source.path).is_dir():
            raise RestoreRefused(f"there is no directory {source.path} here: is its volume mounted?")
        return into_folder.restore_to_stay(dataclasses.replace(wish, target=folder, among=True), store, cache, on_step)
    with opened(store, wish.assignment, wish.point, cache) as tree, way_to(source, store.location) as environment:
        hidden = (*store.location.secrets, *source.hidden)
        location = dataclasses.replace(store.location, environment=environment, secrets=hidden)
        reaching = dataclasses.replace(store, location=location)
        below = "" if str(wish.target) == "." else str(wish.target)
        target = Location(remote_path(source), "").at(below) if below else remote_path(source)
        return _SourceRestore(wish, reaching, tree, source, target, on_step).run()


class _SourceRestore(RunningRestore):
    def __init__(
        self,
        wish: Wish,
        store: Store,
        tree: Tree,
        source: SourceSpec,
        target: str,
        on_step: Callable[[RestoreProgress], None],
    ) -> None:
        super().__init__(wish, store, tree, f"{source.name}: {source.path}/{wish.target}".removesuffix("/."), on_step)
        self.source, self.target = source, Location(target, target)
        self.files_path = layout.files_path(wish.assignment)
        location = dataclasses.replace(
            self.target,
            environment=store.location.environment,
            servers=tuple(servers_of(source)),
            secrets=store.location.secrets,
        )
        self.at_target = Store(location, store.stop, store.stall_timeout, store.grace)
        self.replacing = Replacement(self.at_target, is_needed(source), self.report.not_set.append)
        self.failed = set[str]()  # the report has the first ones alone

    def fail(self, path: str, why: str) -> bool:
        """Note a file that is not restored, once. Returns False."""
        if path not in self.failed:
            self.failed.add(path)
            super().fail(path, why)
        return False

    def run(self) -> Report:
        folders = None if is_bucket(self.source) else set[str]()  # there a file may have the name of a folder
        there = self._look(*times_arguments(self.source), folders=folders)
        same = self._same(there)
        wanted = [each for each in self.entries("file") if each.path not in same]
        if blocked := self._behind_folders(wanted, folders or set()):
            # rclone would delete one, with all it holds, after it has failed to write over it
            for path in sorted(blocked):
                self.fail(path, FOLDER_THERE)
            wanted = [each for each in wanted if each.path not in blocked]
        collisions = [each.path for each in wanted if each.path in there]
        report = self.report
        report.collisions, report.replaced = collisions[:KEPT_TEXTS], len(collisions)
        report.present = sum(1 for _ in self.entries("file")) - len(wanted) - len(blocked)
        self.files, self.size = len(wanted), sum(each.size for each in wanted)
        note_what_is_not_set(self, self.source.kind)
        if self.wish.dry_run:
            report.files, report.size = self.files, self.size
            return report
        if collisions and not self.wish.overwrite:
            names = ", ".join(collisions[:SHOWN]) + (", …" if len(collisions) > SHOWN else "")
            raise RestoreRefused(
                f"{len(collisions):,} files at {self.source.name} differ from this point ({names}): restore into a "
                "folder next to them, or choose to replace what differs"
            )
        left = self.replacing.left_behind(there, folders or ())
        with self.replacing.cleared():
            self._bring(wanted, set(collisions))
        there = self._check(wanted, make_empty_folders(self, self.target, self.source.kind))
        self.replacing.clear_left(left, there.keys() - self.failed)
        return report

    def _behind_folders(self, wanted: list[Entry], folders: set[str]) -> set[str]:
        """The paths of files where a folder is, also on a server that finds it by another name than it lists."""
        keys = {key_of(Entry(each)) for each in folders}
        alike, found = [each.path for each in wanted if key_of(each) in keys], set[str]()
        for path in alike:
            with suppress(StorageFailed):  # it is tried, and its failure is named then
                if path in folders or self._row_of(self.target.at(path)).get("IsDir"):
                    found.add(path)
        return found

    def _look(self, *times: str, folders: set[str] | None = None) -> Found:
        """The requested files that already exist at the source. `times`: rclone's arguments for the times to list;
        `folders`: collects the paths of folders.
        """
        found: Found = {}

        def take(row: dict[str, Any], top: str, is_top: bool = False) -> None:
            path = top if is_top else f"{top}/{row['Path']}".lstrip("/")
            if not row["IsDir"]:
                found[path] = (row["Size"], row["ModTime"])
            elif folders is not None:
                folders.add(path)

        with of_the_target():
            for top in self.tops:
                entry, at = self.tree.entry(top), self.target.at(top) if top else self.target.root
                if entry is not None and entry.kind != "folder":
                    if row := self._row_of(at, *times):
                        take(row, top, is_top=True)
                    continue
                options = ("--recursive", "--no-mimetype", *times, *OPTIONS)
                self.store.run("lsjson", *options, at, missing_ok=True, on_line=rows_to(partial(take, top=top)))
        return found

    def _row_of(self, at: str, *options: str) -> dict[str, Any]:
        """The file or folder there, as rclone lists it; empty if there is none. Raises: TargetFailed."""
        lines: list[str] = []
        with of_the_target():
            self.store.run("lsjson", "--stat", *options, *OPTIONS, at, missing_ok=True, on_line=lines.append)
        return row_of("".join(lines)) or {}

    def _same(self, there: Found) -> set[str]:
        """The paths of the files that need not come back."""
        same = {each.path for each in self.entries("file") if self._is_same(each, there)}
        others = (each for each in self.entries("file") if each.path not in same)
        unsure = [each for each in others if there.get(each.path, (-1, ""))[0] == each.size]
        return same | self._same_bytes(unsure) if unsure else same

    def _is_same(self, entry: Entry, there: Found) -> bool:
        """True if size and time are the same: reading all of a source would take as long as bringing it back. The
        source lists the same instant again, so any other one is a reason to compare the bytes.
        """
        size, modified = there.get(entry.path, (-1, ""))
        return size == entry.size and modified != "" and modified == entry.modified

    def _same_bytes(self, entries: list[Entry]) -> set[str]:
        """The paths whose bytes are there, although their time is not: it cannot be set everywhere. Reads these files,
        and, where the manifest has no digest, the repository's copies.
        """
        wanted = {each.path: each.digest for each in entries}
        unknown = {each.place: each.path for each in entries if not each.digest}
        try:
            if unknown and not self.store.location.is_restic:
                digests, _ = self.store.read(self.files_path, list(unknown))
                wanted |= {unknown[place]: digest for place, digest in digests.items() if place in unknown}
            there, _ = self.at_target.read("", [path for path, digest in wanted.items() if digest])
        except StorageFailed:  # they count as different
            return set()
        return {path for path, digest in there.items() if wanted.get(path) == digest}

    def _bring(self, wanted: list[Entry], differing: set[str]) -> None:
        """Copy files to the source."""
        scratch = Path(tempfile.gettempdir())
        remove_left(scratch)  # before its room is measured
        most = min(SCRATCH_BYTES, shutil.disk_usage(scratch).free // 2)
        large = {each.path for each in wanted if each.size > most and self._goes_straight(each)}
        small = [each for each in wanted if each.path not in large]
        sizes = [sum(each.size for each in batch) for batch in batches(small, BATCH_FILES, most, SIZE)]
        targets.check_room(scratch, max(sizes, default=0), "name a larger one in the worker's TMPDIR")
        for batch in batches(small, BATCH_FILES, most, SIZE):
            with scratch_in(scratch) as folder:
                on_its_way = (folder, differing, self.replacing, self._same_bytes)
                ScratchBatch(self, self.target.root, *on_its_way).bring(batch)
        for entry in wanted:
            if entry.path in large:
                self._copy_straight(entry, differing)

    def _check(self, wanted: list[Entry], empty: dict[str, str]) -> Found:
        """Check the sizes of files at the source, which it returns, and that it has these empty folders (path → why it
        may not).
        """
        folders = set[str]()
        there = self._look("--no-modtime", folders=folders)
        for path in self._replaced(wanted, there):
            self.fail(path, REPLACED_THERE)
        self.report.files = self.report.size = 0
        for entry in wanted:
            if there.get(entry.path, (-1, ""))[0] != entry.size:
                self.fail(entry.path, "it does not arrive with the size in its manifest")
            elif entry.path not in self.failed:  # a file that was not replaced may have the same size
                self.report.files, self.report.size = self.report.files + 1, self.report.size + entry.size
        for number, path in enumerate(sorted(empty.keys() - folders)):
            # its server may list it by another name; after an error it is likely to have none
            row = self._row_of(self.target.at(path)) if empty[path] == NOT_MADE or number < SHOWN else {}
            if not row.get("IsDir"):
                self.fail(path, FILE_THERE if row else empty[path])
        return there

    def _replaced(self, wanted: list[Entry], there: Found) -> set[str]:
        """The paths that a server which changes names, or folds their case, gave another file of the point as well, and
        now hold that file: it may have the same size. A file that is found by its name, and not listed under it, shows
        such a server; one that is not found was merely not accepted.
        """
        unlisted = {each.path: key_of(each) for each in wanted if each.path not in there}
        keys = {*unlisted.values()}
        doubtful = [each for each in self.entries("file") if each.path in there and key_of(each) in keys]
        alike = {key_of(each) for each in doubtful}
        with suppress(StorageFailed):
            found = self.at_target.sizes("", [each for each, key in unlisted.items() if key in alike], by_name=True)
            alike = {unlisted[each] for each in found if each in unlisted}
            doubtful = [each for each in doubtful if key_of(each) in alike]
        return {each.path for each in doubtful} - self._same_bytes(doubtful) if doubtful else set()

    def _goes_straight(self, entry: Entry) -> bool:
        """True if rclone can copy it from its place: it gives a file that it copies no other name."""
        same_name = entry.place.rpartition("/")[2] == entry.path.rpartition("/")[2]
        return same_name and not self.store.location.is_restic

    def _copy_straight(self, entry: Entry, differing: set[str]) -> None:
        (folder, _, name), problems = entry.place.rpartition("/"), dict[str, str]()
        there = self.replacing.beside(entry.path) if entry.path in differing else entry.path
        home = there.rpartition("/")[0]

        def fetch(entries: list[Entry]) -> None:
            begun_files, begun_size = self.done_files, self.done_size
            for tries in ((), ONE_AT_A_TIME):
                problems.clear()
                self.store.copy_out(
                    f"{self.files_path}/{folder}", self.target.at(home) if home else self.target.root, [name],
                    lambda files, size: self.say(begun_files + files, begun_size + size),
                    "--ignore-times" if entry.path in differing else "--ignore-existing", *OPTIONS, *tries,
                    most=expected(entry.size), problems=problems,
                )  # fmt: skip
                if all(map(DAMAGED.search, problems.values())):  # or there are none
                    break

        def take(entries: list[Entry]) -> list[Entry]:
            size, why = self._row_of(self.target.at(there)).get("Size"), next(iter(problems.values()), "")
            if DAMAGED.search(why) or (size != entry.size and not why):
                return entries
            if there != entry.path and not why and (not_moved := self.replacing.move([entry])):
                why = "" if self._same_bytes([entry]) else not_moved[entry.path]
            if why:
                self.fail(entry.path, why)
            else:
                self.count(entry)
            return []

        self.bring([entry], fetch, take)
