"""Source and copy side by side, for what rclone's sync does not do well.

A remote may take a file that is written where a folder is for an order to delete the folder (WebDAV does, with all
that it holds), and one without times of files shows no change of a file whose size stays. So what is in the way goes
first, and the manifest of the last point says what has changed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sources.storage.manifests import Entry


@dataclass(frozen=True, slots=True)
class Seen:
    """A file or folder as rclone lists it."""

    size: int
    modified: str
    is_folder: bool


def seen(row: Mapping[str, Any]) -> Seen:
    """A row of lsjson."""
    return Seen(row["Size"], row.get("ModTime", ""), row["IsDir"])


def in_the_way(source: Mapping[str, Seen], copy: Iterable[str]) -> list[str]:
    """Those files of the copy that lie where the source has a folder, or below what is a file there."""
    return [path for path in copy if _is_folder(source, path) or any(_is_file(source, each) for each in _above(path))]


def changed(source: Mapping[str, Seen], copy: Iterable[str], point: Iterable[Entry]) -> list[str]:
    """Those files of the copy that the source has otherwise than the last point says, or that it does not name."""
    same = set()
    for entry in point:
        found = source.get(entry.stored_path)
        if found and (found.size, found.modified) == (entry.size, entry.modified):
            same.add(entry.stored_path)
    return [path for path in copy if _is_file(source, path) and path not in same]


def _is_folder(source: Mapping[str, Seen], path: str) -> bool:
    return (found := source.get(path)) is not None and found.is_folder


def _is_file(source: Mapping[str, Seen], path: str) -> bool:
    return (found := source.get(path)) is not None and not found.is_folder


def _above(path: str) -> Iterable[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path
