"""The points and files that a copy of a repository should bring or has brought, and its result."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from storage import layout
from storage.points import arrived_files, runs
from storage.points.digests import digests_of_copy
from storage.points.manifests import Entry
from storage.points.store import StorageFailed, Store

SHOWN = 20


@dataclass
class CopyResult:
    """The result of a copy. `points`: all points that the copy has now; `new`: the points that this run brought, with
    `files` and bytes (`size`), where a file is a `unit`.

    `wrong_files`: the number of files that differ from their manifest, in the first repository and so in the copy, and
    of points that are left out; `wrong`: the first of these, as text. `untried`: points that are not in the copy
    either, because so many others were damaged. `digests`: new point → the digest of the manifest that was written.
    `incomplete`: new point, or one that was not noted before → warnings about files that it lacks, or has as of an
    earlier point, since a server refused them.
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
    incomplete: dict[str, list[str]] = field(default_factory=dict)

    @property
    def as_json(self) -> dict[str, Any]:
        """The fields, for another process: without `incomplete` if that is empty, which 0.1.0 does not know."""
        return {name: value for name, value in asdict(self).items() if name != "incomplete" or value}

    def note(self, text: str) -> None:
        """Record a wrong file or point."""
        self.wrong_files += 1
        if len(self.wrong) < SHOWN:
            self.wrong.append(text)


def check_is_there(newest: str, found: list[str], folder: str) -> None:
    """Raises: StorageFailed if the first repository, with these points, has lost its `newest` one, or all."""
    if not found or (newest and newest not in found):
        what = f"point {newest} of {folder} is not" if newest else f"no point of {folder} is"
        raise StorageFailed(f"{what} in the repository that is to be copied; the copy stays as it is")


@contextmanager
def alone(
    copy: Store, folder: str, point: str, there: Collection[str], before: str, *, is_marked: bool
) -> Iterator[None]:
    """Check that a copy still has the points that were `there`, before the block makes another one of them, and on a
    remote once more afterwards: then the `point` goes again (see `runs.check_made`). `before`: the one whose files it
    has, empty if none; `is_marked`: True if it has a mark. Raises: BaseGone if the one before is gone; Overtaken if
    another run has brought points in the meantime, such as one of a cloned installation: it may have deleted the files
    that came since as remains; AllRemoved if, on a remote, its mark has gone, with its files; StorageFailed.
    """
    written = [runs.mark_path(folder, point)] if is_marked else []
    _check_alone(copy, folder, there, before, written)
    yield
    if copy.location.directory is None:  # elsewhere its lock excludes all others
        manifest = layout.manifest_path(folder, point)
        try:
            _check_alone(copy, folder, there, before, [*written, manifest])
        except (runs.BaseGone, runs.Overtaken):
            copy.remove(manifest)
            raise


def _check_alone(copy: Store, folder: str, there: Collection[str], before: str, written: list[str]) -> None:
    names = copy.names(f"{folder}/{layout.MANIFESTS}")
    now = runs.points_among(names)
    runs.check_written(copy, folder, written, names)
    if not set(now) <= set(there):
        raise runs.Overtaken(f"another run has brought points of {folder} to the copy in the meantime: {runs.OTHER}")
    if before and before not in now:
        raise runs.BaseGone(f"point {before} of {folder} was removed from the copy in the meantime; it is tried again")


def later_than(points: list[str], found: list[str]) -> list[str]:
    """The points to bring to a copy that has `points`: those of the first repository that are later. Earlier ones were
    removed from the copy by its rules.
    """
    last = layout.order_of(points[-1]) if points else ("", 0)
    return [each for each in found if layout.order_of(each) > last]


def whole_among(entries: Sequence[Entry], store: Store, top: str, *, can_be_read: bool) -> list[Entry]:
    """The files in the folder `top` that have the digest in the manifest, or the size where the manifest has no digest
    or the file cannot be read back.
    """
    read = [each.place for each in entries if each.digest and can_be_read]
    if store.location.is_plain:
        digests, _ = digests_of_copy(Path(store.location.at(top)), read, store.stop)
    else:
        digests, _ = store.read(top, read)
    is_read = set(read)
    others = [each.place for each in entries if each.place not in is_read]
    sizes = store.sizes(top, others, by_name=True) if others else {}
    return [
        each
        for each in entries
        if (digests.get(each.place) == each.digest if each.place in is_read else sizes.get(each.place) == each.size)
    ]


def remove_pieces(store: Store, folder: str, points: list[str], folders: Iterable[str]) -> None:
    """Delete the pieces of files that a killed copy has left, as far as these credentials may. They are in those
    `folders` of runs that are later than its `points`.
    """
    found = arrived_files.folders_among(folders)
    later = (each for each in found if not points or layout.is_later(layout.run_of(each), points[-1]))
    arrived_files.look(store, folder, later, lambda place, found: None)
