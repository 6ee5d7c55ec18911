"""Brings the points of an assignment into a second restic repository, by `restic copy`.

A snapshot is written there last, as in a backup: a copy that ends anywhere leaves no half of a point, and what it has
brought of one, but for the last ten minutes, is not sent again. Which points are there is read from the copy. restic
compares each blob with its SHA-256, so what is damaged in the first repository does not come into the copy: that point
is left out, and named.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sources.storage.copies import Copied, check_is_there, later_than
from sources.storage.restic.program import Restic, ResticFailed
from sources.storage.restic.snapshots import Snapshot, snapshots
from sources.storage.restic.verdicts import Trouble
from sources.storage.store import StorageFailed

PACKS = re.compile(r"(\d+) / \d+ packs copied")
PACK_BYTES = 16 * 2**20
"""The size that restic's files of data have, more or less."""
MOST_LEFT_OUT = 3


def copy(
    source: Restic,
    target: Restic,
    folder: str,
    *,
    newest: str = "",
    options: tuple[str, ...] = (),
    on_progress: Callable[[int], None] = lambda packs: None,
) -> Copied:
    """As `sources.storage.copying.copy`, where `on_progress` gets restic's files so far, and `target` has `source` for
    its second repository. Raises: StorageFailed, Busy, Stopped, ProgramMissing, OSError."""
    with _naming("the first repository"):
        found = snapshots(source, folder)
    names = [each.point for each in found]
    check_is_there(newest, names, folder)
    with _naming("the second repository"):
        before = [each.point for each in snapshots(target, folder)]
    done, wanted = Copied(before, unit="pack"), {*later_than(before, names)}
    if left := [each for each in found if each.point in wanted]:
        _bring(target, folder, left, options, done, on_progress)
    done.new = [each for each in done.points if each not in before]
    return done


def _bring(
    target: Restic,
    folder: str,
    left: list[Snapshot],
    options: tuple[str, ...],
    done: Copied,
    on_progress: Callable[[int], None],
) -> None:
    """A point that is damaged is left out. One that fails for what is no trouble of a repository, as when restic is
    killed, is tried once more."""
    packs, is_tried_again = _Packs(on_progress), False
    while left:
        ids = [name for each in left for name in each.ids]
        try:
            target.run("copy", *options, *ids, on_line=packs.take, sign_of_life=packs.sign)
            left = []
        except ResticFailed as error:
            is_damaged = error.trouble is Trouble.DAMAGED and done.wrong_files < MOST_LEFT_OUT
            if not is_damaged and (error.trouble is not Trouble.OTHER or is_tried_again):
                raise
            there = {each.point for each in snapshots(target, folder)}
            left = [each for each in left if each.point not in there]
            if is_damaged and left:
                done.note(f"point {left.pop(0).point} is left out of the copy: {error}")
            is_tried_again |= not is_damaged
        finally:
            done.files = packs.total
    done.points = [each.point for each in snapshots(target, folder)]


class _Packs:
    """restic counts those of each snapshot."""

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
    """Two repositories say the same of themselves."""
    try:
        yield
    except ResticFailed as error:
        raise StorageFailed(f"of {which}: {error}") from error
