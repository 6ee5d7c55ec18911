"""Known points of an assignment in a repository: their manifest has a SHA-256 that the scheduler's database keeps.

Anyone who can write to a repository's storage can put points there, and change existing ones. So no name in a listing
and no manifest is trusted: every reader of points gets the `Known` ones, passes over any other point, and compares a
manifest before its first line is read. A point that fails this is *foreign*. `None` is for a reader without a database,
such as `recover`, and for one that was asked to read a foreign point.

A point has two digests while its manifest is replaced: the new one is kept before it is written (`keep`), and the old
one is forgotten afterwards. So the stored manifest is known, whatever process is killed.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path

from external.processes import serving
from storage import layout
from storage.points.manifests import ManifestDamaged

Known = Mapping[str, Collection[str]]
"""Point → the digests that its manifest may have. For restic, whose snapshots cannot be made without the key: the ids
that its snapshot may have; any id if there are none, as for a point that is not named.
"""
OF_A_MARK = ".mark"
"""The end of the name by which the mark of a run is known (`runs.py`)."""
AHEAD = timedelta(hours=1)
"""The lead that a run's name may have over the clock. An unknown name that is later was given by no clock of the
scheduler.
"""
FOREIGN = "its manifest is not as this installation wrote it there: it was put there, changed or damaged"


class Foreign(ManifestDamaged):
    """A manifest is not the one that was written there. The message names the point."""

    def __init__(self, point: str) -> None:
        super().__init__(f"point {point} is foreign: {FOREIGN}")


def digest_of(file: Path) -> str:
    """SHA-256 in hex of a manifest as it is stored in a repository."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def compare(file: Path, point: str, known: Known | None) -> None:
    """Raises: Foreign if the manifest in `file` is not this point's; the file is then deleted."""
    if known is not None and digest_of(file) not in known.get(point, ()):
        file.unlink()
        raise Foreign(point)


def taken(names: Iterable[str], known: Known | None, started_at: datetime) -> list[str]:
    """The names of points and runs that a run which starts now must come after: a foreign name in the future is not
    among them, since it would put all later runs there, or make their names longer and longer.
    """
    last = layout.order_of(layout.name_of(started_at + AHEAD))
    return [
        each
        for each in names
        if has_mark(known, each) or (known and each in known) or _may_be_ours(layout.order_of(each), last)
    ]


def has_mark(known: Known | None, run: str) -> bool:
    """True if the mark of a run is one that the scheduler has written."""
    return known is None or run + OF_A_MARK in known


def _may_be_ours(found: tuple[str, int], last: tuple[str, int]) -> bool:
    return found <= last and found[1] < layout.MOST_OF_A_SECOND


def keep(known: Known | None, point: str, digest: str) -> bool:
    """Have the database keep a digest, before the manifest with it is written. Returns True if it does."""
    return known is None or serving.keep({"point": point, "digest": digest})
