"""The point before a run, fetched and read through while the source is listed."""

import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from storage.points import manifests
from storage.points.manifests import Entry, ManifestDamaged
from storage.points.runs import BegunRun
from storage.points.store import Store

LOST = (
    "point {} is not in the repository, although a backup made it: all files are copied again, so that it can be put "
    "back"
)
MAY_LACK = "point {} may lack files, since its run was killed while others were removed: all files are copied again"


@dataclass(frozen=True)
class LastPoint:
    """The point before a run. `name`: empty if there is none, or it is lost or cannot be read, which `problem` reports:
    then nothing is taken over, not even from an earlier point, since the points that name a file follow one another.
    """

    name: str = ""
    file: Path | None = None
    problem: str = ""

    def lines(self) -> Iterator[tuple[str, bytes]]:
        """The path and line of each entry, sorted by path."""
        return manifests.lines(self.file) if self.file else iter(())

    def parse(self, line: bytes) -> Entry:
        """The entry of a line. Raises: ManifestDamaged."""
        return manifests.parsed(line, self.file or Path())


class PointFetch:
    """A point that is being fetched."""

    def __init__(self, store: Store, folder: str, begun: BegunRun, file: Path) -> None:
        self._store, self._folder, self._begun, self._file = store, folder, begun, file
        self._thread = ThreadPoolExecutor(1)
        self._found = self._thread.submit(self._fetch)

    def wait(self) -> LastPoint:
        """Wait for the point. Raises: the exceptions of stores."""
        return self._found.result()

    def close(self) -> None:
        self._thread.shutdown()

    def _fetch(self) -> LastPoint:
        if lost := self._begun.lost:
            return LastPoint(problem=(MAY_LACK if lost in self._begun.there else LOST).format(lost))
        point = self._begun.base
        try:
            if not point or not self._store.manifest(self._folder, point, self._file):
                return LastPoint()
            if self._store.known is None:  # otherwise its digest was compared, and it need not be read to be trusted
                for _ in manifests.read(self._file):
                    pass
            return LastPoint(point, self._file)
        except ManifestDamaged as error:
            return LastPoint(problem=f"{error}: its point cannot be restored whole, and all files are copied again")


@contextmanager
def coming(store: Store, folder: str, begun: BegunRun) -> Iterator[PointFetch]:
    """Fetch the point before a run in the background. The file of the point exists until the block ends."""
    with tempfile.TemporaryDirectory() as scratch:
        found = PointFetch(store, folder, begun, Path(scratch) / "manifest")
        try:
            yield found
        finally:
            found.close()
