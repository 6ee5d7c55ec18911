"""Upkeep of a restic repository: points are forgotten, data that only they held is pruned, and everything is read.

Each of these locks the repository exclusively; while another restic works there, it is busy and tries again later. A
prune that is killed anywhere has deleted nothing that a snapshot needs, and the next one finishes it. Snapshots are
forgotten first, so a removal that is killed between the two leaves data that no point names; the points are gone.
"""

import math
import re
from collections.abc import Collection
from dataclasses import replace

from storage.places.location import RESTIC
from storage.points.checking import CheckResult, Damage
from storage.points.removal import RemovalResult
from storage.points.store import StorageFailed
from storage.restic.program import Restic, ResticFailed
from storage.restic.snapshots import snapshots, with_marks
from storage.restic.verdicts import ResticTrouble

TOTAL = re.compile(r"total prune: +\d+ blobs / ([\d.]+) ([KMGT]?i?B)")
UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
BATCH = 500
"""The most snapshots that one `forget` names."""
ALL_POINTS = "any point"
MOST_SHOWN = 10
SUM_OF_ALL = "repository contains errors"
PACKS = re.compile(r"read group #\d+ of (\d+) data packs")
DAMAGED = re.compile(r"pack [0-9a-f]+|blob [0-9a-f]+|tree [0-9a-f]+|does not match|not referenced|error", re.IGNORECASE)


def remove_points(restic: Restic, assignment: str, points: Collection[str], stay: Collection[str]) -> RemovalResult:
    """Remove points of an assignment, as `removal.remove` does; data that only they held stays until it is pruned.

    Raises: StorageFailed, also before any change if no point would stay; Busy, StorageStopped.
    """
    found = snapshots(restic, assignment)
    names = {each.point for each in found}
    points = points if found and set(stay) <= names else ()
    if not names - set(points):
        raise StorageFailed(f"no point of {assignment} would stay, so none is removed: check whether they are there")
    return _forget(restic, assignment, points)


def remove_all(restic: Restic, assignment: str) -> RemovalResult:
    """Remove all points of an assignment, and the data that only they held. Missing ones are fine. Raises:
    StorageFailed, Busy, StorageStopped.
    """
    return replace(_forget(restic, assignment, None), freed=pruned(restic))


def _forget(restic: Restic, assignment: str, points: Collection[str] | None) -> RemovalResult:
    found, alone = with_marks(restic, assignment)
    gone = [each for each in found if points is None or each.point in points]
    ids = [*alone, *(name for each in gone for name in each.ids[::-1])]
    for number in range(0, len(ids), BATCH):
        restic.run("forget", *ids[number : number + BATCH])
    names = {each.point for each in gone}
    return RemovalResult(tuple(sorted(names)), tuple(each.point for each in found if each.point not in names), 0)


def pruned(restic: Restic) -> int:
    """Delete data that no snapshot holds. Returns its bytes, as restic reports them."""
    freed = 0

    def take(line: str) -> None:
        nonlocal freed
        if found := TOTAL.search(line):
            freed = round(float(found[1]) * UNITS.get(found[2], 1))

    _patient(restic).run("prune", on_line=take)
    return freed


def _patient(restic: Restic) -> Restic:
    """A restic that may be silent while it lists all files of a large repository: the time limit of its
    record ends it.
    """
    return replace(restic, stall_timeout=math.inf)


def check(restic: Restic, part: str, share: float, known: Collection[Damage]) -> CheckResult:
    """Read further: `part` is the part to read, such as 3/21, or the first one of a new round if it is empty. The parts
    are of `share` of everything; nothing is read if `share` is 0. Files that are known to be damaged are read again
    before that. Raises: StorageFailed if the repository is out of reach; Busy, StorageStopped.
    """
    number, _, parts = part.partition("/")
    current, of = (int(number), int(parts)) if parts else (1, max(1, math.ceil(1 / share)) if share else 1)
    done = CheckResult(f"{current + 1}/{of}" if current < of else "", "", 0)
    here = [f"{current}/{of}"] if share else []
    for each in dict.fromkeys([*(damage.path for damage in known), *here]):
        packs, problems = _read(restic, each)
        done.files += packs
        done.damaged += [Damage(ALL_POINTS, each, RESTIC, problem) for problem in problems[:MOST_SHOWN]]
    return done


def _read(restic: Restic, subset: str) -> tuple[int, list[str]]:
    """Check the structure of everything, and read a subset of the data. Returns the number of files that were read, and
    the damage, in sentences of restic.
    """
    lines: list[str] = []
    packs = 0

    def take(line: str) -> None:
        nonlocal packs
        if found := PACKS.match(line):
            packs = int(found[1])
        elif DAMAGED.search(line) and not line.startswith(("check ", "[", "no errors", "load ", "create ", "read ")):
            lines.append(line.strip())

    try:
        _patient(restic).run("check", f"--read-data-subset={subset}", on_line=take)
    except ResticFailed as error:
        if error.trouble not in (ResticTrouble.OTHER, ResticTrouble.DAMAGED) or not lines:
            raise
    return packs, [each for each in lines if SUM_OF_ALL not in each] or lines
