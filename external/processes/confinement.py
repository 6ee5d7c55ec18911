"""The files that a program may open while it handles data from others: `Command.readable`, by Landlock.

A link in a repository, or in files out of one, leads such a program to no other file of this host, whoever changes it
at any moment.
"""

import sys
from pathlib import Path

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
