"""Whole files that a killed copy has left in its repository, as far as that is known."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from storage import layout
from storage.points import runs
from storage.points.batches import OF_A_LIST, batches
from storage.points.copies import whole_among
from storage.points.entries import Entry
from storage.points.store import Store

Found = tuple[Entry, bool]
"""A file that should be in the copy, and True if it is there already."""


@dataclass
class CopyLeftovers:
    """The files of an assignment in a copy, in these folders of runs; `marks`: the runs that have a mark there;
    `altered`: places of files that arrived with a wrong content; those that a killed copy has left are added.
    `is_any_altered`: any file there may be one of these. `confirmed`: gets the sizes of files on a server, by place,
    and returns the places of those that equal the first repository's.
    """

    target: Store
    folder: str
    there: Collection[str]
    marks: Collection[str]
    altered: set[str] = field(default_factory=set)
    is_any_altered: bool = False
    confirmed: Callable[[Mapping[str, int]], Collection[str]] = lambda sizes: sizes

    def __post_init__(self) -> None:
        self.files = layout.files_path(self.folder)

    def looked_for(self, entries: Iterable[Entry]) -> Iterator[Found]:
        """Yield the files that should be in the copy, each with True if a killed copy has brought it whole."""
        for batch in batches(entries, OF_A_LIST):
            self.target.check_stop()
            left = [each for each in batch if each.folder in self.there]
            sizes = self.target.sizes(self.files, [each.place for each in left]) if left else {}
            left = [each for each in left if sizes.get(each.place) == each.size]
            if self.is_any_altered:
                self.altered.update(each.place for each in left)
            whole = {each.place for each in self._whole_of_left(left)}
            if self.target.location.directory is None:
                self.altered.update(each.place for each in left if each.place not in whole)
            whole -= self.altered
            doubtful = {each.place for each in left} - whole
            for each in batch:
                yield each._replace(doubtful=each.place in doubtful), each.place in whole

    def _whole_of_left(self, left: Sequence[Entry]) -> list[Entry]:
        """The files among `left`, all there with the right size, whose content is right as far as that is known."""
        location = self.target.location
        if not left:
            return []
        if location.directory is None:
            same = self.confirmed({each.place: each.size for each in left})
            return [each for each in left if each.place in same]
        read = [each for each in left if each.digest] if location.is_plain else []
        others = {each.place for each in left}.difference(each.place for each in read)
        trusted = self._brought_since_the_start(others) if others else set()
        return [*self._whole(read), *(each for each in left if each.place in trusted)]

    def _brought_since_the_start(self, places: Collection[str]) -> set[str]:
        """The places that a mark of this boot names: a file of its size there is the one that the mark was about to
        bring, since nothing else is ever written to its place. On a disk that treats two names as one it may be the
        other file, which the check at the end finds (`overwritten_files.py`).
        """
        found = set[str]()
        for each in self.marks:
            with runs.marked(self.target, self.folder, each) as mark:
                if mark and mark[0].boot and mark[0].boot == runs.boot():
                    found.update(each.place for each in mark[1]() if not each.doubtful and each.place in places)
        return found

    def _whole(self, entries: Sequence[Entry]) -> list[Entry]:
        return whole_among(entries, self.target, self.files, can_be_read=self.target.location.is_plain)
