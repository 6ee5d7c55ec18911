"""The child's side of an order (`orders.py` has the protocol): it carries out the order on its standard input, and
answers.
"""

import json
import os
import re
import resource
import select
import sys
import time
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from enum import Enum
from importlib import import_module
from typing import Any

from external import special_addresses

ANSWER, RAISED, ARGUMENTS, UNKNOWN, KEEP = "answer", "raised", "with", "unknown", "keep"
KEPT, NOT_KEPT = b"+", b"-"
OF_A_CALL = re.compile(r"\) (got an unexpected keyword argument|missing \d+ required)")
"""Errors about a term, a fact, or one of their fields that only the other side knows."""
Prepare = Callable[[str, Mapping[str, Any]], object]
KEEP_SECONDS = 30.0
"""The time limit for the answer that something was kept. A database that is away does not end a backup."""


@dataclass(frozen=True)
class Program:
    """A child process: the `module` with its `main`; its `orders`, the name of a function → the module that has it; and
    the exceptions that its giver raises again, each by a word, where a subclass comes before its base.
    """

    module: str
    orders: Mapping[str, str]
    raises: Mapping[str, type[Exception]] = field(default_factory=dict)


def serve(program: Program, prepare: Prepare = lambda do, facts: None) -> None:
    """Carry out the order on standard input, and answer. `prepare`: as in `done`. Raises: exceptions without a word."""
    order = json.load(sys.stdin)
    say(done(program, order["do"], order["facts"], order["terms"], prepare))


def done(
    program: Program,
    do: str,
    facts: Mapping[str, Any],
    terms: Mapping[str, Any] | None = None,
    prepare: Prepare = lambda do, facts: None,
) -> dict[str, Any]:
    """Carry out an order; `prepare` gets its name and facts before. Returns the line with its result. Raises:
    exceptions that `program` has no word for.
    """
    if do not in program.orders:
        return {UNKNOWN: f"no order {do!r}"}
    work: Callable[..., Any] = getattr(import_module(program.orders[do]), do)
    try:
        if terms is not None:
            _abide_by(**terms)
        prepare(do, facts)
        return {ANSWER: work(**facts)}
    except tuple(program.raises.values()) as error:
        word = next(word for word, kind in program.raises.items() if isinstance(error, kind))
        return {RAISED: word, ARGUMENTS: error.args if type(error) is program.raises[word] else [str(error)]}
    except TypeError as error:
        if not OF_A_CALL.search(str(error)):
            raise
        return {UNKNOWN: str(error)}


def _abide_by(
    loopback: bool,
    umask: int | None = None,
    memory: int = 0,
    reserve_percent: float = 0.0,
    heard_at: int | None = None,
) -> None:
    if umask is not None:
        os.umask(umask)
    if memory:
        bound_memory(memory)
    special_addresses.loopback_is_open = loopback
    globals().update(reserve_percent=reserve_percent, _heard_at=heard_at)


reserve_percent = 0.0
"""The percentage that stays free on the file systems that this process writes to. 0 if there is no reserve, as in
`recover`.
"""
_heard_at: int | None = None
"""The descriptor at which the giver of the order reports that something was kept."""
_is_deaf = False
"""True if an answer has not come in time: a late one would be taken for that of the next question."""


def keep(facts: dict[str, str]) -> bool:
    """Have the process that gave the order keep something before this one continues. Returns True if it was kept, or if
    there is no such process, as in a test.
    """
    global _is_deaf
    if _heard_at is None:
        return True
    if _is_deaf:
        return False
    say({KEEP: facts})
    until = time.monotonic() + KEEP_SECONDS
    while time.monotonic() < until:
        if select.select([_heard_at], [], [], 1.0)[0]:
            return os.read(_heard_at, 1) == KEPT
        say({})
    _is_deaf = True
    return False


def say(line: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(line, default=plain) + "\n")
    sys.stdout.flush()


def plain(value: object) -> Any:
    """A value that JSON can hold: a list for a set, otherwise a text."""
    if isinstance(value, Set):
        return sorted(value)
    return value.value if isinstance(value, Enum) else str(value)


def bound_memory(size: int) -> None:
    """Let no program started here have more than `size` bytes. The names that a source lists are held in its engine's
    memory.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (size if hard == resource.RLIM_INFINITY else min(size, hard), hard))
    os.environ["GOMEMLIMIT"] = str(size * 9 // 10)  # rclone would let twice as much accumulate as it uses
