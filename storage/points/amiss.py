"""Notes in a repository about places whose files may have a wrong content despite the right size.

Such a file may have arrived altered or incomplete on a server that allows neither to delete nor to replace it. The run
that knows this may fail or be killed, and the next one would trust the size. So the run notes the places before it
brings anything else, each time in a new file, since it cannot overwrite one either: `manifests/<run>.<digest>.amiss`. A
note whose content does not match the digest in its name was not completely written.
"""

import hashlib
import tempfile
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path

from storage import layout
from storage.points.batches import batches
from storage.points.moving import LostContent
from storage.points.store import StorageFailed, Store

IN_A_NOTE = 10_000
"""The places in one note; each has a few thousand bytes at most."""
MOST_NOTES = 1_000
MOST_PLACES = 500_000
MOST = 2**26
"""The limit in bytes of all notes that are read together: anyone who can write to a repository can add notes."""
DIGITS = 16
NOT_NOTED = (
    "{} arrived with another content or in part, and the repository accepts no note about it, so the next run would "
    "consider it whole: {}"
)


def note(store: Store, folder: str, run: str, places: Collection[str]) -> None:
    """Note places of an assignment's files. `run`: the run or point that they were brought for. Raises: StorageFailed,
    StorageStopped.
    """
    for some in batches(sorted(places), IN_A_NOTE):
        content = "\0".join(some).encode("utf-8", "surrogatepass")
        name = f"{run}.{digits(content)}{layout.AMISS}"
        with tempfile.TemporaryDirectory() as scratch:
            (file := Path(scratch, name)).write_bytes(content)
            try:
                store.put(file, f"{folder}/{layout.MANIFESTS}/{name}")
            except StorageFailed as error:
                if not _is_there(store, folder, name):
                    raise StorageFailed(NOT_NOTED.format(some[0], error)) from error


def noted(store: Store, folder: str, notes: Iterable[str]) -> set[str] | None:
    """The places in these notes. None if a note is incomplete, or there are too many or too large ones: any file of
    their run may be wrong then. Raises: StorageFailed, StorageStopped.
    """
    found, notes, at = set[str](), list(notes), f"{folder}/{layout.MANIFESTS}"
    sizes = store.sizes(at, notes) if len(notes) <= MOST_NOTES else {}
    if any(sizes.get(name, -1) < 0 for name in notes) or sum(sizes.values()) > MOST:
        return None
    for name in notes:
        with tempfile.TemporaryDirectory() as scratch:
            file = Path(scratch, name)
            content = b""
            with suppress(LostContent):
                content = file.read_bytes() if store.fetch(f"{at}/{name}", file, MOST) else b""
        if name.split(".")[1] != digits(content) or len(found) + content.count(b"\0") >= MOST_PLACES:
            return None
        try:
            found.update(content.decode("utf-8", "surrogatepass").split("\0"))
        except UnicodeDecodeError:
            return None
    return found


def noted_by_others(store: Store, folder: str, names: Iterable[str], points: Collection[str]) -> set[str] | None:
    """The places that runs without a point have noted, as in `noted`. `names`: those of an assignment's `manifests`;
    `points`: its points.
    """
    return noted(store, folder, [name for run, notes in by_run(names).items() if run not in points for name in notes])


def later_than(names: Iterable[str], point: str) -> set[str]:
    """The notes, among the names of an assignment's `manifests`, of runs that are later than a point."""
    return {name for run, notes in by_run(names).items() if layout.is_later(run, point) for name in notes}


def by_run(names: Iterable[str], *endings: str) -> dict[str, list[str]]:
    """The notes among the names of an assignment's `manifests`, by run. `endings`: of notes; if none, of these."""
    found = dict[str, list[str]]()
    for name in names:
        run, *rest = name.split(".")
        if name.endswith(endings or layout.AMISS) and len(rest) == 2 and layout.is_name(run):
            found.setdefault(run, []).append(name)
    return found


def _is_there(store: Store, folder: str, name: str) -> bool:
    """True if the same note was written before, and cannot be overwritten."""
    with suppress(StorageFailed):
        return noted(store, folder, [name]) is not None
    return False


def digits(content: bytes) -> str:
    """The digest in the name of a note."""
    return hashlib.sha256(content).hexdigest()[:DIGITS]
