"""Snapshots that are points of the scheduler, found by their tags.

restic also makes a snapshot if it could not read everything, and adding a tag would need exclusive access to the
repository. So an incomplete point has a mark: a small snapshot tagged `incomplete=<point>`, whose one file names the
missing parts. It is a second older than its point, so that restic's `latest` is never a mark.
"""

import json
import re
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from external.processes.rows import text
from storage import layout
from storage.points.known import Known
from storage.restic import program
from storage.restic.program import Restic, ResticFailed
from storage.restic.verdicts import ResticTrouble

INCOMPLETE = "incomplete"
_IDS = re.compile("[0-9a-f]{64}")
TOO_LONG = (
    f"its list of snapshots cannot be read: it is read up to {program.LONGEST_LINE >> 20} MiB, which is some "
    "100,000 snapshots. Let retention keep fewer, or back some sources up to another repository"
)


@dataclass(frozen=True)
class Snapshot:
    """A point. `id`: restic's, in full; `time`: ISO 8601, the start of its run; `tags`: its source, assignment and the
    like; `marks`: the ids of the snapshots that name its missing parts.
    """

    id: str
    time: str
    tags: Mapping[str, str]
    marks: tuple[str, ...] = ()

    @property
    def point(self) -> str:
        return self.tags["point"]

    @property
    def assignment(self) -> str:
        return self.tags["assignment"]

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of its marks before its own: a copy that ends in between has no point that seems complete."""
        return *self.marks, self.id


def tag_arguments(**tags: str) -> tuple[str, ...]:
    """restic's arguments for tags. For restic a comma ends a tag."""
    return tuple(f"--tag={name}={value.replace(',', ' ')}" for name, value in tags.items())


def snapshots(restic: Restic, assignment: str | None = None) -> list[Snapshot]:
    """All points, or those of an assignment, the earliest first. Raises: the errors of `Restic.run`."""
    return with_marks(restic, assignment)[0]


def known_among(found: Iterable[Snapshot], known: Known | None) -> list[Snapshot]:
    """The snapshots of an assignment, without any that takes the place of another one that is known. restic 0.14 names
    a new snapshot by the first eight digits of its id.
    """
    return [each for each in found if not (ids := (known or {}).get(each.point)) or each.id.startswith(tuple(ids))]


def with_marks(restic: Restic, assignment: str | None = None) -> tuple[list[Snapshot], list[str]]:
    """The same points, and the ids of marks whose points are missing, such as after a killed copy or removal."""
    only = () if assignment is None else tag_arguments(assignment=assignment)
    rows = [(row, tags) for row in _rows(restic, *only) if "assignment" in (tags := _tags(row))]
    ours = [(row, tags) for row, tags in rows if assignment in (None, tags["assignment"])]
    marks = defaultdict[tuple[str, str], list[str]](list)
    for row, tags in ours:
        if INCOMPLETE in tags:
            marks[tags["assignment"], tags[INCOMPLETE]].append(str(row["id"]))
    found = [
        Snapshot(str(row["id"]), str(row["time"]), tags, tuple(marks.get((tags["assignment"], tags["point"]), ())))
        for row, tags in ours
        if layout.NAME.fullmatch(tags.get("point", ""))
    ]
    ordered = sorted(found, key=lambda each: (each.assignment, layout.order_of(each.point), each.time))
    known = {(each.assignment, each.point) for each in found}
    return ordered, [name for of, ids in marks.items() if of not in known for name in ids]


def note_incomplete(restic: Restic, assignment: str, point: str, warnings: Iterable[str]) -> None:
    """Mark a point as lacking the parts that the warnings name. Raises: the errors of `Restic.run`."""
    at = layout.instant_of(point) - timedelta(seconds=1)
    back_up_text(restic, "\n".join(warnings), time_argument(at), assignment=assignment, **{INCOMPLETE: point})


def back_up_text(restic: Restic, text: str, *arguments: str, **tags: str) -> str:
    """Make a snapshot of one file, `/written`, that holds a text. Returns its id. Raises: the errors of
    `Restic.run`.
    """
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "written").write_text(text)
        lines: list[str] = []
        tagged = ("backup", "--json", *arguments, *tag_arguments(**tags))
        restic.run(*tagged, ".", directory=folder, on_line=lines.append)
    return next(line.split('"snapshot_id":"')[1].split('"')[0] for line in lines if '"snapshot_id":"' in line)


def time_argument(at: datetime) -> str:
    """restic's argument for the start of a run, in the zone of its environment."""
    return f"--time={at:%Y-%m-%d %H:%M:%S}"


def repository_of(restic: Restic) -> str | None:
    """The identity of the repository, where only a snapshot can hold it."""
    named = (_tags(row).get("repository") for row in _rows(restic))
    return next((each for each in named if each), None)


def is_empty(restic: Restic) -> bool:
    """True if there are no snapshots at all."""
    return not _rows(restic)


def _rows(restic: Restic, *only: str) -> list[dict[str, object]]:
    lines: list[str] = []
    restic.run("snapshots", "--json", *only, on_line=lambda line: lines.append(line) if line.startswith("[") else None)
    try:
        rows = json.loads(lines[-1] if lines else "[]") or []
    except (ValueError, RecursionError):
        raise ResticFailed(ResticTrouble.OTHER, TOO_LONG) from None
    if not all(isinstance(row, dict) and _IDS.fullmatch(text(row, "id")) and text(row, "time") for row in rows):
        raise ResticFailed(
            ResticTrouble.OTHER, "its list of snapshots has an entry that is not a snapshot: is the repository damaged?"
        )
    return list(rows)


def _tags(row: Mapping[str, object]) -> dict[str, str]:
    tags = row.get("tags")
    return dict(str(each).partition("=")[::2] for each in tags) if isinstance(tags, list) else {}
