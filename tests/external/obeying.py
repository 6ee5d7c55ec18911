"""A child process for `test_orders.py`: what it does for each order, the odd ones too."""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from external.processes import serving
from external.processes.serving import Program, say, serve


class Damaged(Exception):
    """A failure with a word."""


class Worse(Damaged):
    """A failure without a word of its own."""


class Unavailable(Exception):
    """A failure with two arguments."""

    def __init__(self, number: int, text: str) -> None:
        super().__init__(number, text)


@dataclass
class Letter:
    """A fact with fields."""

    text: str


def echo(**facts: Any) -> dict[str, Any]:
    say({"on the way": 1})
    return facts | {"umask": os.umask(0), "argv": open("/proc/self/cmdline").read()}


def fail(how: str, text: str) -> None:
    raise {"damaged": Damaged, "worse": Worse, "other": RuntimeError}[how](text)


def away(text: str) -> None:
    raise Unavailable(3, text)


def kept() -> bool:
    return serving.keep({"point": "p"})


def write(letter: Mapping[str, Any]) -> str:
    return Letter(**letter).text


def die() -> None:
    os._exit(9)


def hang() -> None:
    say({})
    time.sleep(60)


def flood(line: str, first: Mapping[str, Any] | None = None) -> None:
    """Print without end."""
    if first:
        say(first)
    while True:
        os.write(1, line.encode())


def chatter() -> dict[str, Any]:
    """Print what is no line of the protocol, then answer."""
    for line in ("", "no JSON", "[1]", "null", '{"answer": ', '"answer"', "9" * 5_000, "[" * 100_000):
        os.write(1, line.encode() + b"\n")
    os.write(1, b"\xff\xfe\n")
    return {"done": True}


_NAMES = ("echo", "fail", "away", "kept", "write", "die", "hang", "flood", "chatter")
PROGRAM = Program(__name__, dict.fromkeys(_NAMES, __name__), {"damaged": Damaged, "away": Unavailable})


def main() -> None:
    serve(PROGRAM)
