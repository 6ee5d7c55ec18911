"""The steps of a history (`histories.py`), each of which may be killed before any step of its own."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Backup:
    """`edits`: of the source before it. `kill`: the step before which it is killed. `is_cut`: so is the power.
    `pieces`: of the files that came before it was killed, which did not come whole. `away`: files that are not there
    while they are copied. `damage`: a file of the newest point that a check found missing. `overtaken`: the newest
    point is removed meanwhile."""

    edits: list[tuple[Any, ...]]
    kill: int | None = None
    is_cut: bool = False
    pieces: frozenset[int] = frozenset()
    away: frozenset[int] = frozenset()
    damage: int | None = None
    overtaken: bool = False


@dataclass(frozen=True)
class Removal:
    """`of_the_copy`: it is thinned by rules of its own."""

    points: frozenset[int]
    kill: int | None = None
    is_cut: bool = False
    of_the_copy: bool = False


@dataclass(frozen=True)
class Copy:
    kill: int | None = None
    is_cut: bool = False


@dataclass(frozen=True)
class Check:
    """A whole round."""

    kill: int | None = None
    is_cut: bool = False
    of_the_copy: bool = False


@dataclass(frozen=True)
class Restore:
    """A restore of a point, by its number; and once more into the same folder."""

    point: int
    kill: int | None = None
    is_cut: bool = False


Step = Backup | Removal | Copy | Check | Restore
