"""Deletes files below `files` of an assignment, and the folders that this leaves empty."""

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from storage import layout
from storage.folders.beneath import Beneath, LinkOnTheWay
from storage.points.batches import batches
from storage.points.files import relative
from storage.points.store import StorageFailed, Store

BATCH = 50_000
"""The most paths for one rclone."""
WORTH = 10
"""The most files that are listed for each deleted file, to see which folders are empty now."""
LITTLE = 1_000
MANY = 20
"""Folders of runs that are requested by name at once."""

OnProgress = Callable[[int, int], None]


@dataclass
class Deletion:
    """A deletion of files of one assignment. `on_progress` gets their number and their bytes."""

    store: Store
    assignment: str
    on_progress: OnProgress = lambda files, freed: None
    files: int = field(default=0, init=False)
    freed: int = field(default=0, init=False)

    @property
    def top(self) -> str:
        return layout.files_path(self.assignment)

    def delete(self, sizes: Mapping[str, int]) -> None:
        """Delete these files, by their places below `files`. Raises: StorageFailed, StorageStopped."""
        for places in batches(sizes, BATCH):
            self.store.delete(self.top, places)
            self.files += len(places)
            self.freed += sum(sizes[each] for each in places)
            self.on_progress(self.files, self.freed)

    def remove_empty(self, places: Collection[str], left: Mapping[str, int]) -> None:
        """Remove the folders that deleted files have left empty. `left`: the number of files that are still in each
        folder of a run, as far as it is known. A remote has to list all of such a folder, so there it is done only if
        it is worthwhile: an empty folder does no harm.
        """
        if self.store.location.is_plain:
            _remove_empty_here(Path(self.store.location.at(self.top)), places)
            return
        deleted = Counter(each.partition("/")[0] for each in places)
        worth = [run for run, number in deleted.items() if left.get(run, 0) <= WORTH * number + LITTLE]
        for some in batches(worth, MANY):
            with suppress(StorageFailed):
                self.store.remove_empty_folders(self.top, among=some)


def _remove_empty_here(top: Path, places: Iterable[str]) -> None:
    folders = {relative(each).rpartition(b"/")[0] for each in places}
    for each in list(folders):
        while b"/" in each and (each := each.rpartition(b"/")[0]) not in folders:
            folders.add(each)
    with suppress(OSError, LinkOnTheWay), Beneath.opened(top) as below:
        for each in sorted(folders, key=lambda path: path.count(b"/"), reverse=True):
            with suppress(OSError, LinkOnTheWay):
                name, above = below.at(each)
                os.rmdir(name, dir_fd=above)
