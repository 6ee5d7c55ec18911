"""Judgement of a backup that looks wrong next to the ones before it: a sudden shrink or a mass change, such as
ransomware leaves. Pure.

A change is sudden if none of the last runs was like it. So a source that changes completely every day is not suspicious
for that, nor is the run after one that an operator has accepted.
"""

from collections.abc import Sequence
from typing import NamedTuple

LAST_RUNS = 5
SHRUNK_BELOW = 0.5
"""A factor of the least files or bytes that any of the last runs had."""
CHANGED_ABOVE = 0.5
"""A share of the files of the run before."""
LEAST_FILES, LEAST_BYTES, LEAST_ROWS = 10, 10 * 2**20, 100
"""Sizes below which the deletion of a file or two may halve a run. A fall to zero is suspicious at any size."""
LEAST_CHANGED_FILES = 100


class Counts(NamedTuple):
    """The counts of a run: its files and their bytes; files against the run before it, and tables and rows of a
    database. None if a count is not known.
    """

    files: int
    size: int
    changed: int | None = None
    unchanged: int | None = None
    removed: int | None = None
    tables: int | None = None
    rows: int | None = None


def suspicion(run: Counts, before: Sequence[Counts]) -> str:
    """The reason why a run looks wrong next to those `before` it. Empty if it does not, or if it is the first one."""
    if not before:
        return ""
    reasons = []
    for what, now, earlier, floor in (
        ("files", run.files, [each.files for each in before], LEAST_FILES),
        ("bytes", run.size, [each.size for each in before], LEAST_BYTES),
        ("tables", run.tables, [each.tables for each in before], LEAST_FILES),
        ("rows", run.rows, [each.rows for each in before], LEAST_ROWS),
    ):
        known = [each for each in earlier if each is not None]
        if now is None or not known:
            continue
        then = min(known)
        if (then and not now) or (then >= floor and now < SHRUNK_BELOW * then):
            reasons.append(f"it has {now:,} {what}, and each run before had {then:,} or more")
    if _is_mass_change(run) and not any(_is_mass_change(each) for each in before):
        lost = (run.changed or 0) + (run.removed or 0)
        reasons.append(f"{lost:,} of {lost + (run.unchanged or 0):,} files were changed or removed")
    return "; ".join(reasons)


def _is_mass_change(run: Counts) -> bool:
    if run.changed is None or run.unchanged is None or run.removed is None:
        return False
    lost = run.changed + run.removed
    return lost + run.unchanged >= LEAST_CHANGED_FILES and lost > CHANGED_ABOVE * (lost + run.unchanged)
