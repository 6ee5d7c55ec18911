"""Files of a copy that its disk keeps under one name: a server that replaces characters takes `a:b` and `a_b` for the
same name.

Such a disk finds a file by either name, and has the content of the one that was written last. A copy looks its files up
by name, so it checks them afterwards, as a backup does (`engines/rclone/misplaced.py`): the listed names and sizes are
compared with the given ones. A name in another case or with separate accents, as on HFS+, counts as the same. For each
file that is not listed, or has another size, all files of its size in that folder are read.

Encrypted names do not need this: every disk distinguishes them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from storage.points import manifests
from storage.points.batches import OF_A_LIST, batches
from storage.points.deletions import MANY
from storage.points.entries import Entry
from storage.points.named_files import folded
from storage.points.sorted_items import SortedItems
from storage.points.store import PIECE, Store

OVERWRITTEN = (
    "{!r:.200} has the content of another file in the copy, whose disk keeps both under one name: rename one of them, "
    "or encrypt the copy, since each disk tells encrypted names apart"
)
ANOTHER_CONTENT = "{!r:.200} has another content in the copy than it should have: look at its disk"
NOT_THERE = "{!r:.200} is not in the copy, although it was written: look at its disk"
NOT_READABLE = "{!r:.200} cannot be read back from the copy ({}): look at its disk"
Alike = tuple[str, int]
"""A folder of a run, and the size of files in it."""


@dataclass
class SecondLook:
    """Texts about wrong files, by place: those that have the content of another file of the copy, and others."""

    overwritten: dict[str, str] = field(default_factory=dict)
    others: dict[str, str] = field(default_factory=dict)


def look(source: Store, target: Store, top: str, entries: Callable[[], Iterable[Entry]]) -> SecondLook:
    """Find the files among `entries` that are wrong in `target`, if its list gives a reason to read them. `top`: the
    folder of both repositories with the places of the entries; `source` has their contents if no digest is known.
    Raises: what stores raise.
    """
    found = SecondLook()
    if target.location.is_encrypted or not (doubtful := _doubtful(target, top, entries)):
        return found
    wrong = list[tuple[Entry, str]]()
    for batch in batches((each for each in entries() if (each.folder, each.size) in doubtful), OF_A_LIST):
        there, problems = target.read(top, [each.place for each in batch])
        for each, right in _contents(source, top, batch):
            if not (read := there.get(each.place)):
                text = NOT_READABLE if each.place in problems else NOT_THERE
                found.others[each.place] = text.format(each.path, problems.get(each.place))
            elif right not in (None, read):
                wrong.append((each, read))
    sizes = target.sizes(top, [each.place for each, _ in wrong], by_name=True)
    held, of_others = {(each.folder, sizes.get(each.place, -1)) for each, _ in wrong}, dict[str | None, bool]()
    for batch in batches((each for each in entries() if (each.folder, each.size) in held), OF_A_LIST):
        for each, right in _contents(source, top, batch):
            of_others[right] = of_others.get(right, False) or doubtful.get((each.folder, each.size), False)
    for each, read in wrong:
        # one of two that share a name is not listed; a file that a power cut left empty is like any empty one
        if read in of_others and (of_others[read] or doubtful[each.folder, each.size]):
            found.overwritten[each.place] = OVERWRITTEN.format(each.path)
        else:
            found.others[each.place] = ANOTHER_CONTENT.format(each.path)
    return found


def look_near(source: Store, target: Store, top: str, manifest: Path, entries: Iterable[Entry]) -> SecondLook:
    """`look` at the files of a point, by its manifest, that are in the same folders as these. Raises: ManifestDamaged,
    too.
    """
    folders = {each.folder for each in entries}
    return look(source, target, top, lambda: (each for each in manifests.read(manifest) if each.folder in folders))


def _contents(source: Store, top: str, batch: list[Entry]) -> Iterator[tuple[Entry, str | None]]:
    """The digests that files should have. None if it is not known."""
    here, _ = source.read(top, [each.place for each in batch if not each.digest])
    return ((each, each.digest or here.get(each.place)) for each in batch)


def _doubtful(target: Store, top: str, entries: Callable[[], Iterable[Entry]]) -> dict[Alike, bool]:
    """The sizes of files that are not listed (True), or not with their size."""
    folders, doubtful = set[str](), dict[Alike, bool]()
    with SortedItems[tuple[str, str, int]]() as wanted, SortedItems[tuple[str, int]]() as listed:
        for each in entries():
            wanted.add((folded(each.place), each.folder, each.size))
            folders.add(each.folder)

        def take(row: Mapping[str, Any]) -> None:
            if row["Path"].partition("/")[0] in folders and not PIECE.search(row["Path"]):
                listed.add((folded(row["Path"]), row["Size"]))

        if folders:
            target.walk(top, take, among=sorted(folders) if len(folders) <= MANY else (), files_only=True)
        for one, other in manifests.side_by_side(wanted, listed):
            if one and (other is None or other[1] != one[2]):
                doubtful[one[1:]] = doubtful.get(one[1:], False) or other is None
    return doubtful
