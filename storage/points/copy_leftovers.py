"""Whole files that a killed copy has left in its repository, as far as that is known."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from storage import layout
from storage.points import runs
from storage.points.batches import OF_A_LIST, batches
from storage.points.compared_files import AT_ONCE, ComparedFiles
from storage.points.copies import whole_among
from storage.points.copy_transfers import CopyTransfers
from storage.points.entries import Entry
from storage.points.store import Store

Found = tuple[Entry, bool]
"""A file that should be in the copy, and True if it is there already."""


@dataclass
class CopyLeftovers:
    """The files of an assignment in a copy, in these folders of runs; `marks`: the runs that have a mark there;
    `is_any_altered`: any file there may have arrived with a wrong content. `compared`: files on a server that need not
    be compared; those that were are added. `transfers`: those of the copy, which know the altered files.
    """

    target: Store
    folder: str
    there: Collection[str]
    marks: Collection[str]
    is_any_altered: bool
    compared: ComparedFiles
    transfers: CopyTransfers

    def __post_init__(self) -> None:
        self.files, self.altered = layout.files_path(self.folder), self.transfers.refusals.altered

    def looked_for(self, entries: Iterable[Entry]) -> Iterator[Found]:
        """Yield the files that should be in the copy, each with True if a killed copy has brought it whole."""
        for batch in batches(entries, OF_A_LIST, AT_ONCE, lambda each: each.size):
            self.target.check_stop()
            left = [each for each in batch if each.folder in self.there]
            sizes = self.target.sizes(self.files, [each.place for each in left]) if left else {}
            left = [each for each in left if sizes.get(each.place) == each.size]
            lacking = (each.place for each in batch if sizes.get(each.place) != each.size)
            self.transfers.refusals.distrust(place for place in lacking if place in self.compared)
            if self.is_any_altered:
                self.altered.update(each.place for each in left)
            whole = {each.place for each in self._whole_of_left(left)}
            if self.target.location.directory is None:
                self.altered.update(each.place for each in left if each.place not in whole)
            whole -= self.altered
            if self.target.location.directory is None:
                self.compared.add(self.transfers.point, whole)
            doubtful = {each.place for each in left} - whole
            for each in batch:
                yield each._replace(doubtful=each.place in doubtful), each.place in whole

    def _whole_of_left(self, left: Sequence[Entry]) -> list[Entry]:
        """The files among `left`, all there with the right size, whose content is right as far as that is known."""
        location = self.target.location
        if not left:
            return []
        if location.directory is None:
            new = {each.place: each.size for each in left if each.place not in self.compared}
            same = self.transfers.confirmed(new) if new else ()
            return [each for each in left if each.place not in new or each.place in same]
        read = [each for each in left if each.digest] if location.is_plain else []
        others = {each.place for each in left}.difference(each.place for each in read)
        trusted = self._brought_since_the_start(others) if others else set()
        return [*self._whole(read), *(each for each in left if each.place in trusted)]

    def _brought_since_the_start(self, places: Collection[str]) -> set[str]:
        """The places that a mark of this boot names: a file of the right size there is the one that the mark announces,
        since nothing else is ever written to its place. On a disk that treats two names as one it may be the other
        file; the check at the end finds that (`overwritten_files.py`).
        """
        found = set[str]()
        for each in self.marks:
            with runs.marked(self.target, self.folder, each) as mark:
                if mark and mark[0].boot and mark[0].boot == runs.boot():
                    found.update(each.place for each in mark[1]() if not each.doubtful and each.place in places)
        return found

    def _whole(self, entries: Sequence[Entry]) -> list[Entry]:
        return whole_among(entries, self.target, self.files, can_be_read=self.target.location.is_plain)
