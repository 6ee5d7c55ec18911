"""The rest of a restore to a source: empty folders, and notes about everything that the source does not accept."""

import os
import tempfile
from pathlib import Path

from engines.not_kept import not_kept
from engines.restores.at_source import OPTIONS
from external.formatting import several
from storage.folders.beneath import passing_over_names
from storage.places.location import Location
from storage.points.files import path_in
from storage.points.store import StorageFailed
from storage.restoring.base import RunningRestore

WITH_EMPTY_FOLDERS = ("sftp", "webdav")
NOT_MADE = "its server did not make this folder"


def make_empty_folders(restore: RunningRestore, target: Location, kind: str) -> dict[str, str]:
    """Make the point's empty folders, where a source of this kind accepts them. Returns their paths, each with the
    reason why it may still be missing: rclone takes a file of that name for the folder.
    """
    empty = [each.path for each in restore.entries("folder") if restore.tree.total(each.path) == (0, 0)]
    if not empty or kind not in WITH_EMPTY_FOLDERS:
        return {}
    why = NOT_MADE
    with tempfile.TemporaryDirectory() as scratch:
        for path in empty:
            with passing_over_names():
                os.makedirs(path_in(Path(scratch), path), exist_ok=True)
        try:
            restore.store.run("copy", "--create-empty-src-dirs", *OPTIONS, scratch, target.root)
        except StorageFailed as error:
            why = str(error)
    return dict.fromkeys(empty, why)


def note_what_is_not_set(restore: RunningRestore, kind: str) -> None:
    """Note in the report what a source of this kind does not accept, or what its backups lack."""
    links = sum(1 for _ in restore.entries("link"))
    modes = sum(1 for each in restore.entries("file") if each.mode is not None)
    not_set = restore.report.not_set
    if links:
        not_set.append(f"{several(links, 'symbolic link')} not made: {kind} supports none")
    if modes:
        not_set.append(f"the modes of {several(modes, 'file')} were not set: {kind} supports none")
    not_set.append(f"as the server makes them, since backups of {kind} lack them: {'; '.join(not_kept(kind))}")
