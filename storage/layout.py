"""The layout of a repository, version 2.

    RECOVER.txt                      what this is, and how to get files back with plain rclone
    repository.json                  the layout's version, the repository's id and name, whether it is encrypted
    [encrypted/]                     of an encrypted repository: all that follows, its names and contents encrypted
    <source>-<id>/<policy>/          one assignment
        files/<run>/<path>           what a run brought: written once, never moved, never replaced
        files/<run>.2/<path> …       of the same run, what would collide there
        files/<run>.0/<name>         of the same run, what no repository is sure to hold under its own name
        manifests/<point>.jsonl.gz   one point in time: what it holds, file by file (`points/manifests.py`)
        manifests/<run>.unfinished   what a run under way wants to bring (`points/runs.py`)
        manifests/<point>.removing   the point is being removed (`points/removal.py`)
        lock                         held by the run, where the repository is a folder of this host

**A point is there if, and only if, its manifest is.** The manifest is written last, and is the first to go. So a run
that failed or was killed leaves no point, only files that no point names.

A manifest says of each file in which folder of `files` it lies. A run takes over what has not changed from the point
before it, by name: so **the points that name a stored file follow one another**, and whether one can go is seen from
the two points beside those that are removed.

Points and runs are named by the start of their run. Folders, symbolic links, modes, times and owners are in the
manifest alone.
"""

import re
from collections.abc import Collection, Iterable
from contextlib import suppress
from datetime import UTC, datetime

VERSION = 2
REPOSITORY = "repository.json"
LOST = f"there is no {REPOSITORY} in {{}}, which each backup leaves there: is it mounted?"
RECOVER = "RECOVER.txt"
ENCRYPTED = "encrypted"

MANIFESTS = "manifests"
MANIFEST_ENDING = ".jsonl.gz"
FILES = "files"
UNFINISHED = ".unfinished"
REMOVING = ".removing"
RENAMED = 0
"""The number of the folder of a run that holds what has another name there."""

NAME = re.compile(r"([0-9]{8}T[0-9]{6}Z)(?:-([0-9]{1,9}))?")
FOLDER = re.compile(rf"({NAME.pattern})(?:\.([0-9]{{1,9}}))?")
MOST_OF_A_SECOND = 100_000
"""Runs whose names have the same second: no clock of ours made more."""
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
    return sorted(filter(is_name, names), key=order_of)


def is_name(name: str) -> bool:
    with suppress(ValueError):
        return bool(instant_of(name))
    return False


def folder_of(run: str, number: int = 1) -> str:
    """The folder of `files` for what a run brings; `number`: the first one, or a further one for what would collide."""
    return run if number == 1 else f"{run}.{number}"


def run_of(folder: str) -> str:
    """The run whose folder of `files` it is. Raises: ValueError for what is none."""
    if not (found := FOLDER.fullmatch(folder)):
        raise ValueError(f"{folder!r} is no folder of a run, as 20261121T065755Z or 20261121T065755Z.2")
    return found[1]


def files_path(assignment: str) -> str:
    """Where the files of all points of an assignment lie."""
    return f"{assignment}/{FILES}"
