"""A walk through a tree of folders on this host, however deep. A thousand levels are too many for recursive functions,
and their path is too long for a system call.
"""

import os
from collections.abc import Iterator
from contextlib import suppress

from storage.folders.beneath import LIST, open_to_owner

Found = tuple[list[str], int, list[os.DirEntry[str]]]
"""The names on the path to a folder, its descriptor, and its entries. All are valid until the next folder is
yielded."""
Identity = tuple[int, int]
"""The device and inode of a folder."""


def folders_below(top: int, *, opening: bool = False) -> Iterator[Found]:
    """Yield the open folder `top`, then each folder below it; links are not followed. A folder that cannot be read, or
    vanishes, is skipped, and so are the rest of one that is closed in the meantime, and one that the caller removes
    from the list. `opening`: give the owner access to each folder first. Raises: OSError, also if another process moves
    a folder while the walk is in it.
    """
    here, way, waiting = os.open(".", LIST, dir_fd=top), list[str](), list[tuple[list[str], Identity]]()
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
                way.pop()
                try:
                    here = _replaced(here, _above(here, top, way, waiting[-1][1]))
                except PermissionError:
                    waiting[-1][0].clear()
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
    """The name and descriptor of the next of these folders that can be read. Removes it, and those before it, from
    `names`."""
    while names:
        name = names.pop()
        with suppress(OSError):
            if opening:
                open_to_owner(name, above)
            return name, os.open(name, LIST, dir_fd=above)
    return None


def _above(here: int, top: int, way: list[str], known: Identity) -> int:
    """Open the folder above `here`; by its names, from `top`, if `here` may be read and not entered. Raises:
    PermissionError if it may not be read any more; FileNotFoundError if it is not there any more.
    """
    with suppress(PermissionError):
        if (found := _opened(here, [".."], known)) is not None:
            return found
    if (found := _opened(top, [".", *way], known)) is None:
        raise FileNotFoundError(2, "another process moves folders here", "/".join(way))
    return found


def _opened(start: int, names: list[str], known: Identity) -> int | None:
    """The folder at the end of these names, open; None if it is not the known one."""
    here = os.dup(start)
    try:
        for name in names:
            here = _replaced(here, os.open(name, LIST, dir_fd=here))
        facts = os.fstat(here)
        return os.dup(here) if (facts.st_dev, facts.st_ino) == known else None
    finally:
        os.close(here)


def _replaced(old: int, new: int) -> int:
    os.close(old)
    return new
