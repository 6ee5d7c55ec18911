"""Files of a copy that its disk keeps under one name: a server that replaces characters takes `a:b` and `a_b` for one.

Such a disk finds a file by either name, and holds the content of the one that came last. A copy looks its files up by
name, so it has a second look, as a backup has (`engines/rclone/misplaced.py`): the names that the disk lists are
compared with those that it was given. A file that is not listed may have a new name, as on HFS+; then there is a file
of its size for which nothing asked. If there is none, all files of that size in that folder are read.

Encrypted names need no such look: each disk tells them apart.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from storage.points.batches import OF_A_LIST, batches
from storage.points.deletions import MANY
from storage.points.entries import Entry
from storage.points.manifests import side_by_side
from storage.points.sorted_items import SortedItems
from storage.points.store import PIECE, Store

OVERWRITTEN = (
    "{!r:.200} has the content of another file in the copy, whose disk keeps both under one name: rename one of them, "
    "or encrypt the copy, since each disk tells encrypted names apart"
)
Alike = tuple[str, int]
"""A folder of a run, and the size of files in it."""


def overwritten(source: Store, target: Store, top: str, entries: Callable[[], Iterable[Entry]]) -> Iterator[Entry]:
    """The files among `entries` that have the content of another one in `target`. `top`: the folder of both
    repositories that holds the places of the entries; `source` has their contents where no digest is known. Raises:
    what stores raise.
    """
    if target.location.is_encrypted or not (doubtful := _doubtful(target, top, entries)):
        return
    alike = (each for each in entries() if (each.folder, each.size) in doubtful)
    for batch in batches(alike, OF_A_LIST):
        there, _ = target.read(top, [each.place for each in batch])
        here, _ = source.read(top, [each.place for each in batch if not each.digest])
        for each in batch:
            right = each.digest or here.get(each.place)
            if right and there.get(each.place, right) != right:
                yield each


def _doubtful(target: Store, top: str, entries: Callable[[], Iterable[Entry]]) -> set[Alike]:
    """The files of which fewer are listed than were brought. Empty ones are all the same, and are left out."""
    folders, lacking = set[str](), Counter[Alike]()
    with SortedItems[tuple[str, int]]() as wanted, SortedItems[tuple[str, int]]() as listed:
        for each in entries():
            if each.size:
                wanted.add((each.place, each.size))
                folders.add(each.folder)

        def take(row: Mapping[str, Any]) -> None:
            if row["Path"].partition("/")[0] in folders and not PIECE.search(row["Path"]):
                listed.add((row["Path"], row["Size"]))

        if folders:
            target.walk(top, take, among=sorted(folders) if len(folders) <= MANY else (), files_only=True)
        for one, other in side_by_side(wanted, listed):
            if one is None or other is None:
                place, size = one or other or ("", 0)
                lacking[place.partition("/")[0], size] += 1 if one else -1
    return {each for each, number in lacking.items() if number > 0}
