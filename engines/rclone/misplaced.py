"""Files that a repository keeps under other names than it was given: HFS+ takes accents apart, Samba may have one case
for all names, and some servers trim names or replace characters.

The names of a run's files are compared both ways. A file that was asked for and is not there, or is refused because of
its name, is copied once more, under a name that any repository keeps (`Wanted.rename`); its manifest maps that to its
true name. A file that is there and was not asked for is deleted. If there is none that a missing file can be, that one
may have replaced another file of its size and time: such files are copied once more as well.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from engines.rclone.bringing import Came, Problems
from engines.rclone.comparing import Item, is_wanted
from storage import layout
from storage.points.arrived import Arrived
from storage.points.manifests import Line, side_by_side

OF_A_NAME = re.compile(
    r"invalid argument|name too long|multibyte|(invalid|illegal|bad|unsupported)\W.{0,30}(name|path|character)"
    r"|(name|path|character).{0,30}\W(invalid|illegal|not (valid|allowed|supported))",
    re.IGNORECASE,
)
"""Messages about a file whose name a repository refuses."""


def strays(items: Iterable[Item | Line], came: Came, run: str) -> Iterator[tuple[str, Arrived]]:
    """The files in the folders of a run for which no item asked, by place."""
    main, others = layout.folder_of(run), dict(came.others)

    def asked() -> Iterator[tuple[str]]:
        for item in items:
            if not is_wanted(item):
                continue
            if item.entry.folder == main and not item.entry.stored:
                yield (item.path,)
            else:
                others.pop(item.entry.place, None)

    for wanted, found in side_by_side(asked(), came.first):
        if wanted is None and found is not None:
            yield f"{main}/{found[0]}", found[1]
    yield from others.items()


def may_be_renamed(path: str, problems: Problems, *, is_any_stray: bool) -> bool:
    """True if a missing file may come under another name: rclone gave no reason, or its name, or there are files that
    were not asked for.
    """
    why = problems.by_path.get(path, "")
    return is_any_stray or not (why or problems.unnamed) or OF_A_NAME.search(why) is not None


def unexplained(missing: Iterable[Arrived], there: Iterable[Arrived]) -> set[Arrived]:
    """The sizes and times of missing files that no file which was not asked for has. Empty files are all the same."""
    return {each for each in Counter(missing) - Counter(there) if each[0]}
