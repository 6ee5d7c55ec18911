"""Whether a backup looks wrong beside the ones before it: a sudden shrink or a mass change, as ransomware leaves. Pure.

Sudden is what none of the last runs was like. So what changes as a whole every day is not suspicious for it, nor is the
run after one that a person has accepted.
"""

from collections.abc import Sequence
from typing import NamedTuple

LAST_RUNS = 5
SHRUNK_BELOW = 0.5
"""Of the files or bytes that each of the last runs had at the least."""
CHANGED_ABOVE = 0.5
"""Of the files of the run before."""
LEAST_FILES, LEAST_BYTES, LEAST_ROWS = 10, 10 * 2**20, 100
"""What has less may halve by the deletion of one file or two. A fall to zero is suspicious at any size."""
LEAST_CHANGED_FILES = 100


class Counts(NamedTuple):
    """Of a run: its files and their bytes; files against the run before it, and tables and rows of a database; None
    where that is not known."""

    files: int
    size: int
    changed: int | None = None
    unchanged: int | None = None
    removed: int | None = None
    tables: int | None = None
    rows: int | None = None


def suspicion(run: Counts, before: Sequence[Counts]) -> str:
    """Why a run looks wrong beside those `before` it; empty: it does not, or it is the first one."""
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
