"""A walk through a tree of folders of this host, however deep it is: a thousand levels are too many for functions that
call themselves, and their path is too long for any call that gets one.
"""

import os
from collections.abc import Iterator
from contextlib import suppress

from storage.folders.beneath import LIST, open_to_owner

Found = tuple[list[str], int, list[os.DirEntry[str]]]
"""The names that lead to a folder, its descriptor, and what is in it; all valid until the next folder."""


def folders_below(top: int, *, opening: bool = False) -> Iterator[Found]:
    """The open folder `top`, and then each one below it, behind no link. One that cannot be read, or vanishes, is
    passed over; names that are taken out of the list are not entered. `opening`: each is opened to its owner before.
    Raises: OSError, also if another process moves a folder elsewhere while the walk is in it.
    """
    here, way, waiting = os.open(".", LIST, dir_fd=top), list[str](), list[tuple[list[str], tuple[int, int]]]()
    try:
        while True:
            with os.scandir(here) as found:
                entries = list(found)
            yield way, here, entries
            facts = os.fstat(here)
            waiting.append((_folders_among(entries), (facts.st_dev, facts.st_ino)))
            while (below := _next(waiting[-1][0], here, opening=opening)) is None:
                waiting.pop()
                if not waiting:
                    return
                here = _replaced(here, os.open("..", LIST, dir_fd=here))
                way.pop()
                facts = os.fstat(here)
                if (facts.st_dev, facts.st_ino) != waiting[-1][1]:
                    raise FileNotFoundError(2, "another process moves folders here", "/".join(way))
            name, descriptor = below
            here = _replaced(here, descriptor)
            way.append(name)
    finally:
        os.close(here)


def _folders_among(entries: list[os.DirEntry[str]]) -> list[str]:
    found = list[str]()
    for each in entries:
        with suppress(OSError):
            if each.is_dir(follow_symlinks=False):
                found.append(each.name)
    return found[::-1]


def _next(names: list[str], above: int, *, opening: bool) -> tuple[str, int] | None:
    """The next of these folders that can be read, without the names before it; and its descriptor."""
    while names:
        name = names.pop()
        with suppress(OSError):
            if opening:
                open_to_owner(name, above)
            return name, os.open(name, LIST, dir_fd=above)
    return None


def _replaced(old: int, new: int) -> int:
    os.close(old)
    return new
