"""The files that a program may open while it handles data from others, by Landlock: `Command.readable`; and the folders
in which a process may write.

A link in a repository, or in files out of one, leads such a program to no other file on this host, no matter who
changes it, or when.
"""

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from external.processes import launcher

SYSTEM = (
    "/usr", "/lib", "/lib64", "/nix/store", "/dev/null", "/dev/zero", "/dev/urandom", "/dev/random",
    "/etc/ld.so.cache", "/etc/alternatives", "/etc/nsswitch.conf", "/etc/hosts", "/etc/host.conf", "/etc/gai.conf",
    "/etc/resolv.conf", "/etc/services", "/etc/passwd", "/etc/group", "/etc/localtime", "/etc/ssl", "/etc/pki",
    "/etc/crypto-policies",
)  # fmt: skip
"""Files that a program needs to start, find a host and check its certificate. They hold no one's secrets."""


def readable_by(program: str, *more: str) -> tuple[str, ...]:
    """The files that a program needs, including the program's, and `more`."""
    home = Path(program).resolve().parent
    its_own = (home, *(home.parent / each for each in ("lib", "lib64", "share")), f"{home.parents[1]}.libs")
    found = (*SYSTEM, *map(str, its_own), sys.prefix, sys.base_prefix, *more)
    return tuple(each for each in found if each != "/")


OF_A_WRITER = 0b1 << 1 | 0b111_1111_1111 << 4
"""The rights to write, remove, make, move and truncate: all that `launcher.RIGHTS` counts, without those to read."""
WITH_MOVES = 2
"""The first version of Landlock that can allow files to move between folders."""
WRITTEN_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/tty")


def confine_writes(folders: Iterable[str]) -> bool:
    """Let this process, and the programs that it starts, write only below these folders from now on, wherever a link
    leads. Reading is not confined. Call it while the process has one thread.

    Returns False if the kernel cannot do that: nothing is confined then.
    """
    if (version := launcher.version()) < WITH_MOVES:
        return False
    handled = OF_A_WRITER & ((1 << launcher.RIGHTS.get(version, launcher.RIGHTS_SINCE_5)) - 1)
    of_files = handled & (0b1 << 1 | 0b1 << 14)
    rules: list[tuple[int, int]] = []
    # a folder by its `.`: one that is mounted when it is entered would be opened as it is without that
    wanted = [(os.path.join(each, "."), handled) for each in folders] + [(each, of_files) for each in WRITTEN_DEVICES]
    for path, rights in wanted:
        with suppress(OSError):  # nothing can be written there anyway
            rules.append((os.open(path, os.O_PATH | os.O_CLOEXEC), rights))
    return launcher.restrict(handled, rules, is_optional=True)
