"""The layout of a repository, version 1.

    RECOVER.txt                      what this is, and how to get files back with plain rclone
    repository.json                  the layout's version, the repository's id and name, whether it is encrypted
    [encrypted/]                     of an encrypted repository: all that follows, its names and contents encrypted
    <source>-<id>/<policy>/          one assignment
        manifests/<point>.jsonl.gz   one point in time: what it holds, file by file (`points/manifests.py`)
        current/                     rclone: the source as of the newest point
        versions/<run>/              rclone: what the run replaced or deleted in `current`, as it was before
        points/<point>/              other engines: the files of this point
        lock                         held by the run, where the repository is a folder of this host

**A point is there if, and only if, its manifest is.** The manifest is written last, and is the first to go. So a run
that failed or was killed leaves no point, only files that no point names.

Symbolic links lie in a repository as rclone writes them where there are none: a file `NAME.rclonelink`, which holds the
target. A real one in `current` could lead a later run out of the repository.

Points and runs are named by the start of their run. Where a file of an rclone point lies: in the first `versions/<run>`
of a later run that has its path, else in `current` (`places_of`). A folder in `versions` whose run has no manifest, be
it because the run failed or because its point was removed, belongs to the next later one, and may be merged into it.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime

VERSION = 1
REPOSITORY = "repository.json"
LOST = f"there is no {REPOSITORY} in {{}}, which each backup leaves there: is it mounted?"
RECOVER = "RECOVER.txt"
ENCRYPTED = "encrypted"

MANIFESTS = "manifests"
MANIFEST_ENDING = ".jsonl.gz"
CURRENT = "current"
VERSIONS = "versions"
POINTS = "points"

NAME = re.compile(r"(\d{8}T\d{6}Z)(?:-(\d+))?")
FORMAT = "%Y%m%dT%H%M%SZ"


def name_of(started_at: datetime, taken: Collection[str] = ()) -> str:
    """The name of the run that started then, as 20261121T065755Z. It sorts after all that are taken: where another run
    has that second, or the clock went back since, it is numbered.

    `started_at` is aware.
    """
    name = started_at.astimezone(UTC).strftime(FORMAT)
    second, number = max(map(order_of, taken), default=("", 0))
    return name if name > second else f"{second}-{number + 1}"


def instant_of(name: str) -> datetime:
    """When the run of that name started (aware, UTC, whole seconds). Raises: ValueError for what is no such name."""
    if not (found := NAME.fullmatch(name)):
        raise ValueError(f"{name!r} is no name of a point, as 20261121T065755Z")
    return datetime.strptime(found[1], FORMAT).replace(tzinfo=UTC)


def order_of(name: str) -> tuple[str, int]:
    """The key that sorts names of points and runs by time. Raises: ValueError for what is no such name."""
    if not (found := NAME.fullmatch(name)):
        raise ValueError(f"{name!r} is no name of a point, as 20261121T065755Z")
    return found[1], int(found[2] or 1)


def is_later(name: str, other: str) -> bool:
    """Whether a point or run came after another one. Raises: ValueError for what is no such name."""
    return order_of(name) > order_of(other)


def point_of(snapshot: str) -> str | None:
    """The name of the point in what a backup says of it; None: it has none."""
    return next((part for part in reversed(snapshot.split("/")) if NAME.fullmatch(part)), None)


def manifest_path(assignment: str, point: str) -> str:
    """Where the manifest of a point lies. `assignment`: its folder, as `nas-7/nightly`."""
    return f"{assignment}/{MANIFESTS}/{point}{MANIFEST_ENDING}"


def by_time(names: Iterable[str]) -> list[str]:
    """Those that are names of points and runs, the first one first. Others are none of ours, and left alone, also one
    of a day that no calendar has."""
    return sorted(filter(_is_name, names), key=order_of)


def _is_name(name: str) -> bool:
    with suppress(ValueError):
        return bool(instant_of(name))
    return False


def later_runs(point: str, names: Iterable[str]) -> list[str]:
    """The runs that came after a point, the first one first. Raises: ValueError for what is no name of a point."""
    own = order_of(point)
    return [each for each in by_time(names) if order_of(each) > own]


def places_of(paths: Iterable[str], point: str, versions: Mapping[str, Collection[str]]) -> dict[str, str]:
    """Path of a point → the folder, in that of its assignment, in which it lies, as `versions/20261121T065755Z`: that
    of the first later run that touched it. `versions`: the paths in the folder of each run.
    """
    later = later_runs(point, versions)
    return {path: next((f"{VERSIONS}/{run}" for run in later if path in versions[run]), CURRENT) for path in paths}
