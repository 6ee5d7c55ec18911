"""Files that have arrived in the folders of runs below `files`, brought by a backup or by a copy."""

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any

from storage import layout
from storage.points.store import PARTIAL_SUFFIX, PIECE, StorageFailed, Store

Arrived = tuple[int, str]
"""Bytes of a file in the repository, and its time there, which rclone sets to that of the source as it copies. The time
is empty if it is not known.
"""


def look(store: Store, folder: str, folders: Iterable[str], take: Callable[[str, Arrived], object]) -> None:
    """Pass each file in these folders to `take`, by its place. The remains of files that were being fetched are
    deleted, as far as these credentials may.
    """
    top, is_here, pieces = layout.files_path(folder), store.location.directory is not None, list[str]()

    def sort(row: Mapping[str, Any]) -> None:
        path = row["Path"]
        if path.endswith(PARTIAL_SUFFIX) and PIECE.search(path):
            pieces.append(path)
        else:
            take(path, (row["Size"], row["ModTime"] if is_here else ""))

    if among := sorted(folders):
        store.walk(top, sort, among=among, files_only=True, times=is_here)
    if pieces:
        with suppress(StorageFailed):
            store.delete(top, pieces)


def of_runs(store: Store, folder: str, some: Collection[str]) -> dict[str, Arrived]:
    """Files that these runs have brought, by place. The remains of others are deleted, as by `look`."""
    there, found = store.names(layout.files_path(folder), folders=True), dict[str, Arrived]()
    look(store, folder, (each for each in folders_among(there) if layout.run_of(each) in some), found.__setitem__)
    return found


def remove_pieces(store: Store, folder: str, some: Collection[str]) -> None:
    """Delete the remains of files that these runs were fetching, as far as these credentials may."""
    of_runs(store, folder, some)


def folders_among(names: Iterable[str]) -> list[str]:
    """The names that are folders of runs."""
    return [each for each in names if layout.FOLDER.fullmatch(each)]
