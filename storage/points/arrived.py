"""What has come into the folders of runs below `files`, whoever brings it: a backup, or a copy."""

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any

from storage import layout
from storage.points.store import PIECE, StorageFailed, Store

Arrived = tuple[int, str]
"""Bytes of a file in the repository, and its time there, to which rclone sets that of the source as it is copied;
empty: not known."""


def look(store: Store, folder: str, folders: Iterable[str], take: Callable[[str, Arrived], object]) -> None:
    """Hand over each file in these folders, by its place. What is left of files that were being fetched is deleted, as
    far as these credentials may."""
    top, is_here, pieces = layout.files_path(folder), store.location.directory is not None, list[str]()

    def sort(row: Mapping[str, Any]) -> None:
        if PIECE.search(row["Path"]):
            pieces.append(row["Path"])
        else:
            take(row["Path"], (row["Size"], row["ModTime"] if is_here else ""))

    if among := sorted(folders):
        store.walk(top, sort, among=among, files_only=True, times=is_here)
    if pieces:
        with suppress(StorageFailed):
            store.delete(top, pieces)


def of_runs(store: Store, folder: str, some: Collection[str]) -> dict[str, Arrived]:
    """What these runs have brought, by place."""
    there, found = store.names(layout.files_path(folder), folders=True), dict[str, Arrived]()
    look(store, folder, (each for each in folders_among(there) if layout.run_of(each) in some), found.__setitem__)
    return found


def folders_among(names: Iterable[str]) -> list[str]:
    """Those of these names that are folders of runs."""
    return [each for each in names if layout.FOLDER.fullmatch(each)]
