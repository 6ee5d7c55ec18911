"""The point that a manifest was written for, by the manifest itself. Readers without the database need it: they know no
digest by which they would notice that another point's manifest was put in place of the right one, and would restore
that point without a word.

A run that has its second for itself is named by its start, which is in the header. A numbered one started by that
second at the latest (`layout.name_of`). A base is earlier than its point. And the gzip file has the name under which it
was written, unless another program packed it again; this alone tells numbered points from each other.
"""

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from storage import layout
from storage.points.manifests import Header, ManifestDamaged, read_header

HEAD, LONGEST = 10, 100
"""Bytes of a gzip file before its optional parts (RFC 1952), and those of a name that are looked at."""
EXTRA, NAMED = 4, 8
"""Bits of the flags: there is an extra field; there is a name."""
OTHER = "the manifest under the name of point {point} is that of another one: {why}. It was moved or copied there"


def check_is_of(file: Path, point: str) -> None:
    """Raises: ManifestDamaged if the manifest in `file` was written for another point, or cannot be read; OSError."""
    if why := not_of(file, point):
        raise ManifestDamaged(why)


def not_of(file: Path, point: str) -> str:
    """A sentence without a full stop if the manifest in `file` was written for another point, otherwise empty. Raises:
    ManifestDamaged, OSError.
    """
    why = _unlike(read_header(file), point) or _named_otherwise(file, point)
    return why and OTHER.format(point=point, why=why)


def _unlike(header: Header, point: str) -> str:
    with suppress(ValueError, OverflowError):  # not a time
        started_at = datetime.fromisoformat(header.started_at)
        second = (started_at if started_at.tzinfo else started_at.replace(tzinfo=UTC)).astimezone(UTC)
        name, is_numbered = second.strftime(layout.FORMAT), "-" in point
        if name > point or (name != point and not is_numbered):
            return f"its run began at {second:%Y-%m-%d %H:%M:%S} UTC"
    if layout.is_name(header.base) and not layout.is_later(point, header.base):
        return f"it takes over files from point {header.base}, which is not earlier"
    return ""


def _named_otherwise(file: Path, point: str) -> str:
    with file.open("rb") as packed:
        head = packed.read(HEAD + LONGEST)
    flags = head[3]
    if flags & EXTRA or not flags & NAMED:
        return ""
    name = head[HEAD:].partition(b"\0")[0].decode("latin-1").partition(".")[0]
    return f"it was written as that of point {name}" if layout.is_name(name) and name != point else ""
