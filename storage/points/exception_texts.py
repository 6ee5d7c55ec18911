"""Exceptions of a point, as text: the files that it has as of an earlier point, and those that it lacks."""

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from external.formatting import on_one_line, several
from storage import layout
from storage.points.entries import Entry
from storage.points.files import is_inside

SHOWN, KEPT_TEXTS = 3, 100
SHOWN_IN_WARNINGS = 20


@dataclass
class Exceptions:
    """The exceptions of a point, or of some of its paths, as in a `restoring.base.Report`."""

    old_files: int = 0
    old: list[str] = field(default_factory=list)
    missing_files: int = 0
    missing: list[str] = field(default_factory=list)


def exceptions_of(entries: Iterable[Entry], tops: Sequence[str] = ("",)) -> Exceptions:
    """The exceptions of a point, `entries`, that are at these paths, and below them."""
    found, old, counts = Exceptions(), dict[str, list[str]](), Counter[str]()
    for entry in entries:
        if not any(entry.path == top or is_inside(entry.path, top) for top in tops):
            continue
        if entry.as_of and entry.is_kept and entry.kind != "folder":
            found.old_files += 1
            counts[entry.as_of] += 1
            if len(named := old.setdefault(entry.as_of, [])) < SHOWN:
                named.append(entry.path)
            continue
        found.missing_files += 1
        if len(found.missing) < KEPT_TEXTS:
            what = f"{entry.path}/: it could not be listed" if entry.kind == "folder" else entry.path
            found.missing.append(on_one_line(f"{what}: {entry.why:.500}"))
    for as_of in layout.by_time(old)[:KEPT_TEXTS]:
        number, names = counts[as_of], ", ".join(old[as_of])
        since = f"since {'it' if number == 1 else 'they'} could not be read or copied later"
        more = ", …" if number > len(old[as_of]) else ""
        found.old.append(f"{several(number, 'file')} as of {when(as_of)}, {since}: {names}{more}")
    return found


def warnings_of(number: int, said: Sequence[str]) -> list[str]:
    """The warnings of a run about files that its point lacks, or has as of an earlier one: their number, and the first
    ones with the reason. None if there are none.
    """
    if not number:
        return []
    return ["1 file was not copied" if number == 1 else f"{number:,} files were not copied", *said]


def when(point: str) -> str:
    """The time of a point, such as 2026-11-20 06:00 UTC."""
    with suppress(ValueError):
        return f"{layout.instant_of(point):%Y-%m-%d %H:%M UTC}"
    return point
