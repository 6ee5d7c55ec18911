"""A process of ours that does one thing and can be killed meanwhile; `backups.repository_orders` starts it. Its one
order is a JSON object on standard input; a line of JSON with the answer comes out.
"""

import json
import os
import resource
import select
import sys
import time
from collections.abc import Mapping
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any

from external import guarded

ROOT = Path(__file__).parents[2]
"""The folder of the packages."""
KEPT, NOT_KEPT = b"+", b"-"
KEEP_SECONDS = 30.0
"""For the answer whether it was kept. A database that is away does not end a backup."""
LONGEST_ANSWER = 2**26
"""Bytes of its line: the tables of a database, the points of years, a hundred damaged files by their whole names."""


def argv_of(module: str) -> tuple[str, ...]:
    """The command line of a process that calls `main` of `module`, and takes nothing from its surroundings."""
    main = f"import sys; sys.path.insert(0, sys.argv[1]); from {module} import main; main()"
    return sys.executable, "-I", "-c", main, str(ROOT)


def answer(orders: Mapping[str, str]) -> None:
    """Do what the order says, and print what comes of it. `orders`: the name of a function → its module."""
    order = received()
    do = order.pop("do")
    say({"answer": getattr(import_module(orders[do]), do)(**order)})


def received() -> dict[str, Any]:
    """The order, whose umask, bound of memory and rule of loopback are this process's from now on."""
    order: dict[str, Any] = json.load(sys.stdin)
    os.umask(order.pop("umask"))
    if memory := order.pop("memory"):
        bound_memory(memory)
    guarded.loopback_is_open = order.pop("loopback", True)
    global _heard_at, reserve_percent
    _heard_at, reserve_percent = order.pop("heard_at", None), order.pop("reserve_percent", 0.0)
    return order


reserve_percent = 0.0
"""Of the file systems that this process writes to; 0: nothing has to stay free, as in `recover`."""
_heard_at: int | None = None
"""The descriptor at which whoever gave the order says that something was kept."""


def keep(facts: dict[str, str]) -> bool:
    """Have whoever gave the order keep something before this goes on. Returns whether it was kept; True where there is
    no such process, as in a test."""
    if _heard_at is None:
        return True
    say({"keep": facts})
    until = time.monotonic() + KEEP_SECONDS
    while time.monotonic() < until:
        if select.select([_heard_at], [], [], 1.0)[0]:
            return os.read(_heard_at, 1) == KEPT
        say({})
    return False


def say(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line, default=plain) + "\n")
    sys.stdout.flush()


def plain(value: object) -> str:
    return value.value if isinstance(value, Enum) else str(value)


def bound_memory(size: int) -> None:
    """Let no program started here have more than `size` bytes. What a source lists ends up in its engine's memory."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (size if hard == resource.RLIM_INFINITY else min(size, hard), hard))
    os.environ["GOMEMLIMIT"] = str(size * 9 // 10)  # rclone would let twice as much pile up as it uses
