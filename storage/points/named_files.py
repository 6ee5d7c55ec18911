"""The files that the points of an assignment name, from their manifests, each fetched once and read as a stream."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from unicodedata import normalize

from storage.points import manifests
from storage.points.manifests import Entry, ManifestDamaged
from storage.points.store import StorageFailed, Store

FOLDER, STORED = b',"folder":"', b',"stored":"'
"""Parts of a line that no text in it can contain, since quotes are escaped in texts."""
BETWEEN_LOOKS = 1_000
"""The number of entries before a stop is noticed."""
REPLACED = re.compile(r'[\x00-\x1f\x7f\\:*?"<>|]')
"""Characters that Windows has in no name, for which a server puts another one, usually `_`."""
Key = Callable[[str], int]
"""A number for a place."""


class UnreadablePoint(Exception):
    """The files of a point are not known: its manifest is damaged or lost."""

    def __init__(self, point: str) -> None:
        super().__init__(point)
        self.point = point


@dataclass
class NamedFiles:
    """The files that points name. `lost`: points whose manifests are known to be missing. `scratch`: a folder for
    fetched manifests.
    """

    store: Store
    folder: str
    scratch: Path
    lost: frozenset[str] = frozenset()
    _files: dict[str, Path] = field(default_factory=dict, init=False)
    _bases: dict[str, str] = field(default_factory=dict, init=False)
    _damaged: set[str] = field(default_factory=set, init=False)

    def by(self, point: str) -> Iterator[Entry]:
        """The entries of files of a known point, sorted by path. Raises: UnreadablePoint, at the latest after the last
        one; StorageFailed, StorageStopped.
        """
        file = self._fetched(point)
        try:
            for number, entry in enumerate(manifests.read(file)):
                if number % BETWEEN_LOOKS == 0:
                    self.store.check_stop()
                if entry.folder:
                    yield entry
        except ManifestDamaged:
            raise UnreadablePoint(point) from None

    def ends(self, point: str, following: str | None) -> Iterator[Entry]:
        """The files that a point names and the `following` one does not under the same path. Raises: as `by`."""
        pairs = manifests.side_by_side(self._lines(point), self._lines(following) if following else ())
        for old, new in pairs:
            if old and old != new:
                entry = self._parsed(point, old[1])
                if entry.folder and (not new or not following or self._parsed(following, new[1]).place != entry.place):
                    yield entry

    def among(self, point: str, places: Collection[str], key: Key, count: Counter[str]) -> Iterator[str]:
        """The places that a point names, some twice, and that have the `key` of one of `places`. `count` counts its
        files, by folder. Raises: as `by`.
        """
        keys, paths = {key(each) for each in places}, {key(each.partition("/")[2]) for each in places}
        for path, line in self._lines(point):
            if (at := line.find(FOLDER)) >= 0:
                count[line[at + len(FOLDER) : line.find(b'"', at + len(FOLDER))].decode()] += 1
                if STORED in line or (paths and key(path) in paths):
                    entry = self._parsed(point, line)
                    if key(entry.place) in keys:
                        yield entry.place

    def _lines(self, point: str) -> Iterator[tuple[str, bytes]]:
        try:
            for number, each in enumerate(manifests.lines(self._fetched(point))):
                if number % BETWEEN_LOOKS == 0:
                    self.store.check_stop()
                yield each
        except ManifestDamaged:
            raise UnreadablePoint(point) from None

    def _parsed(self, point: str, line: bytes) -> Entry:
        try:
            return manifests.parsed(line, self._fetched(point))
        except ManifestDamaged:
            raise UnreadablePoint(point) from None

    def by_foreign(self, point: str) -> Iterator[Entry]:
        """The same for a foreign point, as far as it can be read: a user may accept it later."""
        file = self.scratch / f"foreign-{point}"
        try:
            with suppress(ManifestDamaged):
                if self.store.any_manifest(self.folder, point, file):
                    yield from (entry for entry in manifests.read(file) if entry.folder)
        finally:
            file.unlink(missing_ok=True)

    def base(self, point: str) -> str:
        """The point whose entries a point took over, empty if none. Raises: as `by`."""
        if point not in self._bases:
            self._fetched(point)
        return self._bases[point]

    def is_readable(self, point: str) -> bool:
        """Raises: StorageFailed, StorageStopped."""
        try:
            return bool(self._fetched(point))
        except UnreadablePoint:
            return False

    def forget(self, *points: str) -> None:
        """Free the disk space of manifests that are not read again soon."""
        for each in points:
            if file := self._files.pop(each, None):
                file.unlink(missing_ok=True)

    def _fetched(self, point: str) -> Path:
        if point in self.lost or point in self._damaged:
            raise UnreadablePoint(point)
        if point in self._files:
            return self._files[point]
        file = self.scratch / point
        try:
            if not self.store.manifest(self.folder, point, file):
                raise StorageFailed(
                    f"the manifest of point {point} of {self.folder} went while points were removed; it is tried again"
                )
            if self.store.known is None:  # otherwise its digest shows that the scheduler wrote it
                for _ in manifests.read(file):
                    self.store.check_stop()
            self._bases[point] = manifests.read_header(file).base
        except ManifestDamaged:
            self._damaged.add(point)
            raise UnreadablePoint(point) from None
        self._files[point] = file
        return file


def key_of(place: str) -> int:
    """A number that is equal for two spellings of a path that a disk may confuse: a hash of the path in NFC, with case
    folded. A number instead of a text, since there may be a million; if two have the same one by accident, both are
    kept.
    """
    return hash(folded(place))


def wide_key_of(place: str) -> int:
    """The same for a disk that replaces characters as well: such a disk may keep `a:b` and `a_b` as one file."""
    return hash(REPLACED.sub("_", folded(place)))


def folded(place: str) -> str:
    """A path in NFC, with case folded: the same text for all spellings that a disk may confuse."""
    return place.lower() if place.isascii() else normalize("NFC", normalize("NFC", place).casefold())
