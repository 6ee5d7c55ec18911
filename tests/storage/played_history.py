"""A history of five points and a killed run, and what is left of it."""

from collections.abc import Collection
from pathlib import Path

from storage import layout
from tests.storage.played_runs import Played

PATHS = ("a", "A", "b/c", "b/d", "e/f/g", "ä")


def points_of(played: Played, numbers: Collection[int]) -> list[str]:
    """The points of these numbers; never the newest one."""
    return [name for number, name in enumerate(played.points()[:-1]) if number in numbers]


def check(played: Played) -> None:
    for point in played.points():
        assert played.restored(point) == played.expected[point]


def unnamed(played: Played) -> set[str]:
    """Files of runs up to the newest point that no point names, and marks of these."""
    newest = played.points()[-1]
    files = {each for each in played.unnamed() if not layout.is_later(layout.run_of(each.partition("/")[0]), newest)}
    marks = {each.name for each in played.folder.glob(f"{layout.MANIFESTS}/*Z.*") if not each.name.endswith(".gz")}
    return files | {each for each in marks if not layout.is_later(each.partition(".")[0], newest)}


HISTORY = [
    {"a": "1", "A": "x", "b/c": "1", "e/f/g": "stays"},
    {"a": "2", "A": "x", "b/c": "1", "b/d": "2", "e/f/g": "stays"},
    {"a": "3", "b/d": "2", "e/f/g": "stays", "ä": "3"},
    {"a": "4", "b/c": "4", "b/d": "2", "e/f/g": "stays"},
    {"a": "5", "b/c": "4", "e/f/g": "stays"},
]


def played_at(folder: Path) -> Played:
    """Five points, two of which go in tests, and a killed run."""
    played = Played(folder)
    for number, tree in enumerate(HISTORY):
        if number == 2:
            played.back_up({"killed": "k", "a": "k"}, ends_after=1)
        played.back_up(tree, linked={"b/d": "a"} if number == 1 else None)
    return played
