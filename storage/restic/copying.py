"""Brings the points of an assignment into a second restic repository, by `restic copy`.

A snapshot is written there last, as in a backup: a copy that ends at any moment leaves no half of a point, and the data
that it has brought, except for the last ten minutes, is not sent again. The existing points are read from the copy.
restic compares each blob with its SHA-256, so data that is damaged in the first repository does not come into the copy:
the point is left out and named, and each later copy tries it again, until it has come.
"""

import random
import re
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from storage import layout
from storage.points.copies import CopyResult, check_is_there, later_than
from storage.points.known import Known
from storage.points.store import StorageFailed
from storage.restic.program import Restic, ResticFailed
from storage.restic.snapshots import Snapshot, known_among, snapshots
from storage.restic.verdicts import ResticTrouble

PACKS = re.compile(r"(\d+) / \d+ packs copied")
PACK_BYTES = 16 * 2**20
"""The approximate size of restic's files of data."""
MOST_LEFT_OUT = 3
"""The most points left out, of new ones, and of those that are tried again: everything that a damaged one has read and
sent is wasted.
"""


def copy(
    source: Restic,
    target: Restic,
    folder: str,
    *,
    newest: str = "",
    again: Collection[str] = (),
    known: Known | None = None,
    options: tuple[str, ...] = (),
    on_progress: Callable[[int], None] = lambda packs: None,
) -> CopyResult:
    """Do what `storage.points.copying.copy` does, but `on_progress` gets the number of restic's files so far, and
    `source` is the second repository of `target`. `again`: points that were left out of the copy, if known: those that
    are missing there are tried again, after the new ones. `known`: those of `source`. Raises: StorageFailed, Busy,
    StorageStopped, ProgramMissing, OSError.
    """
    with _naming("the first repository"):
        found = known_among(snapshots(source, folder), known)
    names = [each.point for each in found]
    check_is_there(newest, names, folder)
    with _naming("the second repository"):
        before = [each.point for each in snapshots(target, folder)]
    work = _SnapshotCopying(target, folder, options, CopyResult(before, unit="pack"), _Packs(on_progress))
    wanted = {*later_than(before, names)}
    work.bring_new([each for each in found if each.point in wanted])
    if not wanted or names[-1] in work.done.points:
        missing = {*again} - wanted - {*before}
        work.bring_old([each for each in found if each.point in missing])
    work.done.new = [each for each in work.done.points if each not in before]
    return work.done


@dataclass
class _SnapshotCopying:
    target: Restic
    folder: str
    options: tuple[str, ...]
    done: CopyResult
    packs: "_Packs"

    def bring_new(self, left: list[Snapshot]) -> None:
        """Bring new points. If many are damaged, at least the newest one."""
        rest = self._bring(left)
        if rest:
            self._bring(rest[-1:])
        self.done.untried += [each.point for each in rest[:-1]]

    def bring_old(self, left: list[Snapshot]) -> None:
        """Bring missing points. If many are damaged, other ones at each run."""
        if len(left) > MOST_LEFT_OUT:
            left = random.sample(left, len(left))
        rest = self._bring(left, may_fail=True)
        self.done.untried += sorted((each.point for each in rest), key=layout.order_of)

    def _bring(self, left: list[Snapshot], *, may_fail: bool = False) -> list[Snapshot]:
        """Bring points; a damaged one is left out. One that fails for a reason that is not a trouble of a repository,
        such as a killed restic, is tried once more, and then left out if it `may_fail`. Returns the points that were
        not tried.
        """
        if not left:
            return []
        number, is_tried_again = 0, False
        while left and number < MOST_LEFT_OUT:
            ids = [name for each in left for name in each.ids]
            try:
                self.target.run("copy", *self.options, *ids, on_line=self.packs.take, sign_of_life=self.packs.sign)
                left = []
            except ResticFailed as error:
                is_killed = error.trouble is ResticTrouble.OTHER and not is_tried_again
                is_damaged = error.trouble is ResticTrouble.DAMAGED or (
                    may_fail and error.trouble is ResticTrouble.OTHER
                )
                if not is_killed and not is_damaged:
                    raise
                left = self._still_left(left)
                if not is_killed and left:
                    self.done.note(f"point {left.pop(0).point} is left out of the copy: {error}")
                    number += 1
                is_tried_again = is_killed
            finally:
                self.done.files = self.packs.total
        self.done.points = [each.point for each in snapshots(self.target, self.folder)]
        return left

    def _still_left(self, left: list[Snapshot]) -> list[Snapshot]:
        there = {each.point for each in snapshots(self.target, self.folder)}
        return [each for each in left if each.point not in there]


class _Packs:
    """The number of packs so far; restic counts those of each snapshot separately."""

    def __init__(self, on_progress: Callable[[int], None]) -> None:
        self._on_progress = on_progress
        self._before = self._now = self._lines = 0

    @property
    def total(self) -> int:
        return self._before + self._now

    def take(self, line: str) -> None:
        if found := PACKS.search(line):
            self._now = int(found[1])
            self._on_progress(self.total)
        elif line.startswith("snapshot "):  # one begins, or is there
            self._before, self._now = self.total, 0
            self._lines += 1

    def sign(self) -> object:
        return self.total, self._lines


@contextmanager
def _naming(which: str) -> Iterator[None]:
    """Name the repository in errors, since both would give the same message."""
    try:
        yield
    except ResticFailed as error:
        raise StorageFailed(f"of {which}: {error}") from error
