"""Of two neighbouring points in a copy: what has to leave `current`, and what has to come there."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sources.storage import manifests
from sources.storage.manifests import Entry

LONGEST = 143
"""Bytes of a name that encryption leaves within the 255 of most file systems."""


@dataclass(frozen=True)
class Left:
    """What a killed copy left. `there`: what `current` holds; `moved`: what lies in folders of `versions` behind the
    newest point; `half`: what it was to become, by path, as the last of its `marks` says."""

    there: Collection[str]
    moved: Collection[str]
    half: Mapping[str, Entry]
    marks: list[str]


def files_of(manifest: Path) -> Iterator[Entry]:
    """The files and links of a point. Raises: ManifestDamaged."""
    return (each for each in manifests.read(manifest) if each.kind != "folder")


def is_long(path: str) -> bool:
    """Whether it has a name that some places cannot take, as encrypted ones."""
    return len(path) > LONGEST // 4 and any(len(each.encode()) > LONGEST for each in path.split("/"))


def differing(before: Iterable[Entry], after: Iterable[Entry], left: Left | None) -> tuple[list[str], list[Entry]]:
    """Of two neighbouring points: what has to leave `current`, and what has to come there."""
    out: list[str] = []
    wanted: list[Entry] = []
    for old, new in manifests.side_by_side(before, after):
        lies = old is not None and (
            left is None or (old.stored_path in left.there and old.stored_path not in left.moved)
        )
        if old and new and lies and old.is_same(new):
            continue
        if old and lies:
            out.append(old.stored_path)
        if new:
            wanted.append(new)
    return out, wanted


def unaccounted(before: Path | None, wanted: list[Entry], left: Left) -> list[str]:
    """What lies in `current` and is neither the newest point's nor what is wanted there, as the mark says."""
    known = {each.stored_path for each in files_of(before)} - set(left.moved) if before else set[str]()
    coming = {each.stored_path: each for each in wanted}
    unknown = []
    for path in left.there:
        new, half = coming.get(path), left.half.get(path)
        if path not in known and not (new and half and half.is_same(new)):
            unknown.append(path)
    return unknown
