"""Puts restored files in their places in the target, out of the staging folder.

The names of one file (hard links) are put there one after another, each a link to the file in the staging folder, which
stays there until the end: so even an interrupted restore makes them one file.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from storage.folders.beneath import LIST, NOT_A_NAME, listed
from storage.folders.own_folders import OwnFolders
from storage.folders.staged_attributes import attributes_of_staged, takes_all_attributes
from storage.folders.staging import NotPlaced, StagingFolder
from storage.points.counted_paths import CountedPaths
from storage.points.files import PERMISSIONS, nanoseconds, relative, target_of
from storage.points.manifests import Entry
from storage.restoring.attributes import (
    Owner,
    Owners,
    attributes_of,
    not_ours_to_give,
    of_owners,
    put_attribute,
    put_on,
)
from storage.restoring.base import DENIED, NOT_TAKEN, RunningRestore
from storage.restoring.shared_names import SHARED, SharedNames

CHANGED = (NotADirectoryError, FileNotFoundError, IsADirectoryError, FileExistsError)
"""Errors of the system for a place that has changed."""

NOT_BY_RESTIC = "ACLs and other extended attributes of folders may be missing: `restic restore` as root brings them"


class FilePlacement:
    """The placing of files in an open target. `not_set`: everything that could not be set; `shared`: the names of
    files that are in their places.
    """

    def __init__(self, restoring: RunningRestore, target: OwnFolders, staging: StagingFolder) -> None:
        self.restoring, self.target, self.staging = restoring, target, staging
        self.wish, self.tree, self.report = restoring.wish, restoring.tree, restoring.report
        self.not_set = CountedPaths()
        self._owners = Owners(self.tree.header)
        self._is_of_restic = restoring.store.location.is_restic
        self._made = {""}
        self.shared = SharedNames(target, staging.files)

    def file(self, entry: Entry, *, is_last: bool) -> bool:
        """Put a file from the staging folder in its place. `is_last`: no other entry needs it there. Returns True if it
        was put.
        """
        home, staged = relative(entry.path), relative(entry.place)
        with self._unless_changed(entry):
            if not self._make_room(entry, home):
                return False
            if self.tree.is_shared(entry):
                self._put_shared(entry, staged, home)
            elif is_last:
                with self.staging.files.read(staged) as opened:
                    self._finish(entry, opened, home)
                self.staging.put(staged, home)
            else:
                self._put_copy(entry, staged, home)
            self.shared.note(entry)
            return True
        return False

    def link(self, entry: Entry) -> None:
        """Make a symbolic link."""
        home, time, owner = relative(entry.path), None, self._owners.of(entry)
        with suppress(ValueError, OverflowError):
            time = nanoseconds(entry.modified) if entry.modified else None

        def finish(made: str) -> None:
            if not_ours_to_give(owner):
                self.not_set.add(of_owners(), entry.path)
            for name, value in attributes_of(entry).items() if hasattr(os, "setxattr") else ():
                if why := put_attribute(made, name, value, follow_symlinks=False):
                    self.not_set.add(why, entry.path)

        with self._unless_changed(entry):
            if not self._make_room(entry, home):
                return
            try:
                self.staging.make_link(home, target_of(entry), time, owner if os.geteuid() == 0 else None, finish)
            except OSError as error:
                if isinstance(error, (*CHANGED, NotPlaced)):
                    raise
                self.not_set.add(f"links were not made: {error.strerror}", entry.path)
            self.shared.note(entry)
            self.report.files += 1

    def finish_folders(self) -> None:
        """Make the empty folders, and set the attributes of all folders as in the manifest, the innermost first."""
        folders = list(self.restoring.entries("folder"))
        made = list[Entry]()
        for entry in folders:
            with self._unless_changed(entry):
                made += [entry] if self._make_folder(entry, entry.path) else []
        with listed(self.staging.files.descriptor) as staging:
            is_certain = self._is_of_restic and takes_all_attributes(staging)
        for entry in reversed(made):
            is_set_by_restic = self._is_of_restic and entry.uid is not None
            known = self._with_staged(entry, is_certain=is_certain) if is_set_by_restic else entry
            try:
                with self.target.read(relative(entry.path), LIST) as folder:
                    put_on(known, folder, self._owners.of(entry), self.not_set)
                if entry.mode is not None:
                    self.target.keep_mode(relative(entry.path))
            except OSError as error:
                self.not_set.add(f"modes and times were not set: {error.strerror}", entry.path)

    def _with_staged(self, entry: Entry, *, is_certain: bool) -> Entry:
        """The entry of a folder with the attributes that restic has set in the staging folder. `is_certain`: it could
        set all kinds.
        """
        found = None
        with suppress(OSError), self.staging.files.read(relative(f"{self.wish.point}/{entry.path}"), LIST) as staged:
            found = attributes_of_staged(staged)
        if found is None or not is_certain:
            self.not_set.add(NOT_BY_RESTIC, entry.path)
        return entry._replace(attributes=found)

    def _finish(self, entry: Entry, opened: int, home: bytes) -> None:
        if (owner := self._owners.of(entry)) is None:
            self.staging.give(opened, home)
        put_on(entry, opened, owner, self.not_set, came_with_attributes=self._is_of_restic)

    def _put_shared(self, entry: Entry, staged: bytes, home: bytes) -> None:
        with self.staging.files.read(staged) as opened:
            self._finish(entry, opened, home)
        try:
            self.staging.link(staged, home)
        except OSError as error:
            if isinstance(error, (*CHANGED, NotPlaced)):
                raise
            self.not_set.add(f"hard links were not made, so that these are copies: {error.strerror}", entry.path)
            self._put_copy(entry, staged, home)

    def _put_copy(self, entry: Entry, staged: bytes, home: bytes) -> None:
        with self.staging.copied(staged, home) as made:
            self._finish(entry, made, home)

    @contextmanager
    def _unless_changed(self, entry: Entry) -> Iterator[None]:
        """Count an entry as failed if another process has changed its place in the meantime, this account may not enter
        or change its folder, or its disk does not accept its name; the rest continues.
        """
        replaced = self.report.replaced
        try:
            yield
        except CHANGED as error:
            text = f"another process has changed its folder in the meantime ({error.strerror})"
            self.restoring.fail(entry.path, text)
        except PermissionError:
            if self.report.replaced > replaced:
                self.report.replaced = replaced
                self.report.collisions = [each for each in self.report.collisions if each != entry.path]
            self.restoring.fail(entry.path, DENIED.format(self.target.reached))
        except OSError as error:
            if error.errno not in NOT_A_NAME:
                raise
            self.restoring.fail(entry.path, NOT_TAKEN)

    def _make_room(self, entry: Entry, home: bytes) -> bool:
        """Make the folders above; clear a file that is to be replaced. Returns True if the entry can be put."""
        if not self._make_folder(entry, entry.path.rpartition("/")[0]):
            return False
        if self.target.exists(home):
            if holder := self.shared.holder(entry):
                return self.restoring.fail(entry.path, SHARED.format(holder))
            if not self.wish.overwrite:
                return self.restoring.fail(entry.path, "a file of that name appeared in the meantime")
            if self.target.is_folder(home):
                return self.restoring.fail(entry.path, "there is a folder of that name")
            self.report.replaced += 1
        return True

    def _make_folder(self, entry: Entry, path: str) -> bool:
        """Make a folder with those above it, never through a link. Returns True if it is there."""
        if path in self._made:
            return True
        if not self._make_folder(entry, path.rpartition("/")[0]):
            return False
        folder = relative(path)
        if not self.target.is_folder(folder):
            if self.target.exists(folder):
                if not self.wish.overwrite:
                    where = Path(self.report.target) / os.fsdecode(folder)
                    return self.restoring.fail(entry.path, f"{where} is not a folder")
                self.target.unlink(folder)
            self.staging.make_folder(folder, *self._first_mode_of(path))
        self._made.add(path)
        return True

    def _first_mode_of(self, path: str) -> tuple[int, Owner | None]:
        """The mode until the folder is finished: open to this account, and never to more accounts than in the end; and
        its owner, where this account can give it away.
        """
        known = self.tree.entry(path)
        if known is None or known.kind != "folder":
            return 0o777, None
        mode = 0o777 if known.mode is None else known.mode & PERMISSIONS | stat.S_IRWXU
        return mode, self._owners.of(known) if os.geteuid() == 0 else None
