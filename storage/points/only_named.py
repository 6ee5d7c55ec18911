"""The stored files that one point names and another one does not."""

from collections.abc import Callable, Iterator
from pathlib import Path

from storage.points import manifests
from storage.points.manifests import Entry, Pair

IsSame = Callable[[Entry, Entry], bool]
"""True if two entries of one path name the same stored file."""


def have_one_place(old: Entry, new: Entry) -> bool:
    """True if two entries name the same place."""
    return bool(old.folder) and old.place == new.place


def named_by_one_alone(manifest: Path, other: Path | None, is_same: IsSame = have_one_place) -> Iterator[Entry]:
    """The entries of files that a point names and the `other` one does not, sorted by path: one for each stored file,
    though it may have several paths (hard links). Both manifests are read whole before the first entry is yielded.
    `is_same` gets the other point's entry first, which may be without a file.

    Raises: ManifestDamaged, OSError.
    """
    # a file that is stored under another name than its path may have another path in the other point
    elsewhere = {new.place for _, new in _differing(manifest, other, is_same) if new.stored}
    if elsewhere:
        for old, new in _pairs(manifest, other):
            if old and old.folder:
                elsewhere.discard(old.place)
            if new and new.folder and not new.stored:
                elsewhere.discard(new.place)
    for _, new in _differing(manifest, other, is_same):
        if not new.stored:
            yield new
        elif new.place in elsewhere:
            elsewhere.remove(new.place)
            yield new


def _differing(manifest: Path, other: Path | None, is_same: IsSame) -> Iterator[tuple[Entry | None, Entry]]:
    for old, new in _pairs(manifest, other):
        if new and new.folder and not (old and is_same(old, new)):
            yield old, new


def _pairs(manifest: Path, other: Path | None) -> Iterator[Pair]:
    return manifests.side_by_side(manifests.read(other) if other else (), manifests.read(manifest))
