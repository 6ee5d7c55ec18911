"""The layout of a repository, version 2.

    RECOVER.txt                      a description, and how to get files back with plain rclone
    repository.json                  the layout's version, the repository's id and name, whether it is encrypted
    [encrypted/]                     in an encrypted repository: all that follows, its names and contents encrypted
    <source>-<id>/<policy>/          one assignment
        files/<run>/<path>           the files of a run: written once, never moved, never replaced
        files/<run>.2/<path> …       files of the same run that would collide there
        files/<run>.0/<name>         files of the same run whose names not every repository keeps
        manifests/<point>.jsonl.gz   one point in time: its contents, file by file (`points/manifests.py`)
        manifests/<run>.unfinished   the files that a run under way is about to bring (`points/runs.py`)
        manifests/<run>.<digest>.amiss  places whose files may have another content (`points/amiss.py`)
        manifests/<point>.<digest>.compared  files that a copy need not compare again (`points/compared_files.py`)
        manifests/<point>.removing   the point is being removed (`points/removal.py`)
        incoming/<place>             files that a copy is about to move over damaged ones (`points/copying.py`)
        lock                         held by the run, where the repository is a folder on this host

**A point exists if, and only if, its manifest exists.** The manifest is written last and removed first. So a run that
failed or was killed leaves no point, only files that no point names.

For each file, a manifest names the folder of `files` that stores it. A run takes over unchanged files from the previous
point, by name: so **the points that name a stored file follow one another**, and the two points next to the removed
ones show whether a file can go.

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
INCOMING = "incoming"
UNFINISHED = ".unfinished"
AMISS = ".amiss"
COMPARED = ".compared"
REMOVING = ".removing"
RENAMED = 0
"""The number of a run's folder that holds files under other names."""

NAME = re.compile(r"([0-9]{8}T[0-9]{6}Z)(?:-([0-9]{1,9}))?")
FOLDER = re.compile(rf"({NAME.pattern})(?:\.([0-9]{{1,9}}))?")
MOST_OF_A_SECOND = 100_000
"""The most runs whose names have the same second. No clock of the scheduler has made more."""
FORMAT = "%Y%m%dT%H%M%SZ"
OURS = re.compile(rf"{NAME.pattern}(?:\.[0-9a-z.]+)?", re.IGNORECASE)


def name_of(started_at: datetime, taken: Collection[str] = ()) -> str:
    """The name of a run that started at that time, such as 20261121T065755Z. It sorts after all that are taken: where
    another run has that second, or the clock has gone back since, it is numbered.

    `started_at` is aware.
    """
    name = started_at.astimezone(UTC).strftime(FORMAT)
    second, number = max(map(order_of, taken), default=("", 0))
    return name if name > second else f"{second}-{number + 1}"


def instant_of(name: str) -> datetime:
    """The start of the run with that name (aware, UTC, whole seconds). Raises: ValueError if it is not such a name."""
    if not (found := NAME.fullmatch(name)):
        raise ValueError(f"{name!r} is not the name of a point, such as 20261121T065755Z")
    return datetime.strptime(found[1], FORMAT).replace(tzinfo=UTC)


def order_of(name: str) -> tuple[str, int]:
    """The key that sorts names of points and runs by time. Raises: ValueError if it is not such a name."""
    if not (found := NAME.fullmatch(name)):
        raise ValueError(f"{name!r} is not the name of a point, such as 20261121T065755Z")
    return found[1], int(found[2] or 1)


def is_later(name: str, other: str) -> bool:
    """True if a point or run came after another one. Raises: ValueError if one is not such a name."""
    return order_of(name) > order_of(other)


def point_of(snapshot: str) -> str | None:
    """The name of the point in a backup's `snapshot`. None if it has none."""
    return next((part for part in reversed(snapshot.split("/")) if NAME.fullmatch(part)), None)


def manifest_path(assignment: str, point: str) -> str:
    """The path of a point's manifest. `assignment`: its folder, such as `nas-7/nightly`."""
    return f"{assignment}/{MANIFESTS}/{point}{MANIFEST_ENDING}"


def by_time(names: Iterable[str]) -> list[str]:
    """The names of points and runs among `names`, the earliest first. Other names are not the scheduler's and are left
    alone, including one with a day that no calendar has.
    """
    return sorted(filter(is_name, names), key=order_of)


def is_name(name: str) -> bool:
    with suppress(ValueError):
        return bool(instant_of(name))
    return False


def folder_of(run: str, number: int = 1) -> str:
    """A run's folder of `files`; `number`: the first one, or a further one for files that would collide."""
    return run if number == 1 else f"{run}.{number}"


def as_given(name: str) -> str:
    """The name of a file or folder of a run or point, as it was given to a repository that has one case for all names,
    and finds it by either.
    """
    if not OURS.fullmatch(name):
        return name
    run, dot, ending = name.partition(".")
    return run.upper() + dot + ending.lower()


def run_of(folder: str) -> str:
    """The run that a folder of `files` belongs to. Raises: ValueError if it is not a folder of a run."""
    if not (found := FOLDER.fullmatch(folder)):
        raise ValueError(f"{folder!r} is not a folder of a run, such as 20261121T065755Z or 20261121T065755Z.2")
    return found[1]


def files_path(assignment: str) -> str:
    """The folder that stores the files of all points of an assignment."""
    return f"{assignment}/{FILES}"
