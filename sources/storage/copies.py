"""What a copy of a repository brings and comes to, whatever its format."""

from dataclasses import dataclass, field

from sources.storage import layout
from sources.storage.store import StorageFailed

SHOWN = 20


@dataclass
class Copied:
    """`points`: all that the copy has now; `new`: those that this run brought, with so many `files` and bytes (`size`),
    where a file is a `unit`.

    `wrong_files`: files that are not what their manifest says, in the first repository and so in the copy, and points
    that are left out; `wrong`: the first of them, in words. `untried`: points that are not there either, since so many
    others were damaged.
    """

    points: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    files: int = 0
    unit: str = "file"
    size: int = 0
    wrong_files: int = 0
    wrong: list[str] = field(default_factory=list)
    untried: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        """Keep what is wrong."""
        self.wrong_files += 1
        if len(self.wrong) < SHOWN:
            self.wrong.append(text)


def check_is_there(newest: str, found: list[str], folder: str) -> None:
    """Raises: StorageFailed, where the first repository, with these points, has lost its `newest` one, or all."""
    if not found or (newest and newest not in found):
        what = f"point {newest} of {folder} is" if newest else f"there is no point of {folder}"
        raise StorageFailed(f"{what} not in the repository that is to be copied; the copy stays as it is")


def later_than(points: list[str], found: list[str]) -> list[str]:
    """What is to be brought to a copy with `points`: those of the first repository that are later. Earlier ones were
    removed from the copy by its rules."""
    last = layout.order_of(points[-1]) if points else ("", 0)
    return [each for each in found if layout.order_of(each) > last]
