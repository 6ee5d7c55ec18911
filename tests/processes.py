"""Processes below ours, or below another: found by what is in their command lines."""

from contextlib import suppress

import psutil


def below(*arguments: str, part: str = "", pid: int | None = None) -> list[psutil.Process]:
    """The processes below `pid` (below us) that were started with all of `arguments`, and with `part` in one.

    One that ends, or is killed, while it is looked at is left out: a zombie has no command line.
    """
    found = []
    for each in psutil.Process(pid).children(recursive=True):
        with suppress(psutil.Error):
            argv = each.cmdline()
            if set(arguments) <= set(argv) and any(part in argument for argument in argv):
                found.append(each)
    return found
