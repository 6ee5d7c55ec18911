"""The point before a run, fetched and read through while the source is listed."""

import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from storage.places.servers import DAMAGED_OR_FOREIGN
from storage.points import manifests
from storage.points.manifests import Entry, ManifestDamaged
from storage.points.store import StorageFailed, Store


@dataclass(frozen=True)
class LastPoint:
    """`name`: empty: there is none, or it cannot be read, and `problem` says why: then nothing is taken over from it,
    nor from an earlier one, since the points that name a file follow one another."""

    name: str = ""
    file: Path | None = None
    problem: str = ""

    def lines(self) -> Iterator[tuple[str, bytes]]:
        """Path and line of each entry, sorted by path."""
        return manifests.lines(self.file) if self.file else iter(())

    def parse(self, line: bytes) -> Entry:
        """The entry of a line. Raises: ManifestDamaged."""
        return manifests.parsed(line, self.file or Path())


class Coming:
    """A point that is being fetched."""

    def __init__(self, store: Store, folder: str, point: str, file: Path) -> None:
        self._store, self._folder, self._point, self._file = store, folder, point, file
        self._thread = ThreadPoolExecutor(1)
        self._found = self._thread.submit(self._fetch)

    def wait(self) -> LastPoint:
        """Raises: what stores do."""
        return self._found.result()

    def close(self) -> None:
        self._thread.shutdown()

    def _fetch(self) -> LastPoint:
        try:
            if not self._point or not self._store.manifest(self._folder, self._point, self._file):
                return LastPoint()
            if self._store.known is None:  # else its digest is ours
                for _ in manifests.read(self._file):
                    pass
            return LastPoint(self._point, self._file)
        except (ManifestDamaged, StorageFailed) as error:
            if isinstance(error, StorageFailed) and DAMAGED_OR_FOREIGN not in str(error):
                raise
            return LastPoint(problem=f"{error}: its point cannot be restored whole, and all files are copied again")


@contextmanager
def coming(store: Store, folder: str, point: str | None) -> Iterator[Coming]:
    """For as long as the block lasts. `point`: None: there is none."""
    with tempfile.TemporaryDirectory() as scratch:
        found = Coming(store, folder, point or "", Path(scratch) / "manifest")
        try:
            yield found
        finally:
            found.close()
