"""Which points of an assignment in a repository are ours: those whose manifest has a SHA-256 that our database keeps.

Who can write to a repository's storage can put points there, and change those that are there. So no name in a listing
and no manifest is believed for what it is: whatever reads points gets what is `Known`, a point that is not among it is
passed over, and a manifest is compared before its first line is read. What fails is *foreign*. None stands for a
reader without a database, as `recover`, and for one who was told to read a foreign point.

A point has two digests while its manifest is replaced: the new one is kept before it is written (`keep`), and the old
one is forgotten after. So whatever is killed, what lies there is known.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path

from external.processes import serving
from storage import layout
from storage.points.manifests import ManifestDamaged

Known = Mapping[str, Collection[str]]
"""Point → the digests that its manifest may have. Of restic, whose snapshots cannot be made without the key: the ids
that its snapshot may have; none: any, as for a point that is not named."""
OF_A_MARK = ".mark"
"""Ends the name by which the mark of a run is known (`runs.py`)."""
AHEAD = timedelta(hours=1)
"""Of a run: a later name that is not known was not given by a clock of ours."""
FOREIGN = "its manifest is not one that a backup or copy of ours has written there"


class Foreign(ManifestDamaged):
    """A manifest is not what was written there. The message says of which point."""

    def __init__(self, point: str) -> None:
        super().__init__(f"point {point} is foreign: {FOREIGN}")


def digest_of(file: Path) -> str:
    """SHA-256 in hex of a manifest as it lies in a repository."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def compare(file: Path, point: str, known: Known | None) -> None:
    """Raises: Foreign, where the manifest in `file` is not that of this point; the file is deleted then."""
    if known is not None and digest_of(file) not in known.get(point, ()):
        file.unlink()
        raise Foreign(point)


def taken(names: Iterable[str], known: Known | None, started_at: datetime) -> list[str]:
    """Those names of points and runs after which a run that starts then has to come: one that is foreign, and in the
    future, would put all later ones there, or make their names longer and longer."""
    last = layout.order_of(layout.name_of(started_at + AHEAD))
    return [
        each
        for each in names
        if known is None or each in known or each + OF_A_MARK in known or _may_be_ours(layout.order_of(each), last)
    ]


def _may_be_ours(found: tuple[str, int], last: tuple[str, int]) -> bool:
    return found <= last and found[1] < layout.MOST_OF_A_SECOND


def keep(known: Known | None, point: str, digest: str) -> bool:
    """Have the database keep a digest, before the manifest that has it is written. Returns whether it does."""
    return known is None or serving.keep({"point": point, "digest": digest})
