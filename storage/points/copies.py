"""What a copy of a repository is to bring, and what it comes to."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from storage import layout
from storage.points import manifests
from storage.points.manifests import Entry
from storage.points.store import StorageFailed

SHOWN = 20
LONGEST = 143
"""Bytes of a name that encryption leaves within the 255 of most file systems."""


@dataclass
class Copied:
    """`points`: all that the copy has now; `new`: those that this run brought, with so many `files` and bytes (`size`),
    where a file is a `unit`.

    `wrong_files`: files that are not what their manifest says, in the first repository and so in the copy, and points
    that are left out; `wrong`: the first of them, in words. `untried`: points that are not there either, since so many
    others were damaged. `digests`: new point → that of the manifest which was written.
    """

    points: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    files: int = 0
    unit: str = "file"
    size: int = 0
    wrong_files: int = 0
    wrong: list[str] = field(default_factory=list)
    untried: list[str] = field(default_factory=list)
    digests: dict[str, str] = field(default_factory=dict)

    def note(self, text: str) -> None:
        """Keep what is wrong."""
        self.wrong_files += 1
        if len(self.wrong) < SHOWN:
            self.wrong.append(text)


def check_is_there(newest: str, found: list[str], folder: str) -> None:
    """Raises: StorageFailed, where the first repository, with these points, has lost its `newest` one, or all."""
    if not found or (newest and newest not in found):
        what = f"point {newest} of {folder} is" if newest else f"there is no point of {folder}"
        raise StorageFailed(f"{what} not in the repository that is to be copied; the copy stays as it is")


def later_than(points: list[str], found: list[str]) -> list[str]:
    """What is to be brought to a copy with `points`: those of the first repository that are later. Earlier ones were
    removed from the copy by its rules."""
    last = layout.order_of(points[-1]) if points else ("", 0)
    return [each for each in found if layout.order_of(each) > last]


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
