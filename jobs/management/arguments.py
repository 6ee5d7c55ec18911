"""Options of commands, by their whole names, and refusals that name the right spelling.

argparse accepts any beginning of an option, so that `pause NAME --for 7d` was read as `--force-color`.
"""

import re
from argparse import Namespace
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any

from django.core.management.base import CommandParser


class ExactParser(CommandParser):
    """The parser of a command, and of each of its verbs. It refuses unknown options itself: its help lists the known
    ones.
    """

    def __init__(self, **how: Any) -> None:
        super().__init__(**{"allow_abbrev": False} | how)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Namespace, list[str]]:  # type: ignore[override]
        found, left = super().parse_known_args(args, namespace)
        if left:
            self.error(f"unrecognized arguments: {' '.join(left)}")
        return found, left

    def error(self, message: str) -> Any:
        super().error(explained(message, self._option_string_actions))


def explained(message: str, options: Iterable[str]) -> str:
    """A message of argparse in plain words. `options`: those that there are."""
    for pattern, words in SAID:
        if said := re.fullmatch(pattern, message, re.DOTALL):
            return words(said, options) if callable(words) else said.expand(words)
    return message


def _unknown(said: re.Match[str], options: Iterable[str]) -> str:
    option = next((each for each in said[1].split() if each.startswith("-")), "")
    if not option:
        return f"{said[1]!r} is one argument too many; names with spaces are put in quotes"
    name = option.partition("=")[0]
    if close := get_close_matches(name, [each for each in options if each.startswith("--")], n=2):
        return f"there is no option {name}; did you mean {' or '.join(close)}?"
    here = sorted({each for each in options if each.startswith("--")} - OF_EVERY_COMMAND)
    if 0 < len(here) <= MOST_NAMED:
        return f"there is no option {name} here; there {'are' if here[1:] else 'is'} {', '.join(here)}"
    return f"there is no option {name} here; --help lists the options"


def _choice(said: re.Match[str], options: Iterable[str]) -> str:
    choices = [each.strip().strip("'\"") for each in said[3].split(",")]
    close = get_close_matches(said[2].strip("'\""), choices, n=2)
    there = f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join(choices)}"
    return f"{said[1]}: {said[2]} is not a value that it takes; {there}"


OF_EVERY_COMMAND = frozenset({
    "--help", "--version", "--verbosity", "--settings", "--pythonpath", "--traceback", "--no-color", "--force-color",
    "--skip-checks",
})  # fmt: skip
MOST_NAMED = 8
NUMBERS = {"int": "a whole number", "float": "a number"}
SAID: tuple[tuple[str, str | Callable[[re.Match[str], Iterable[str]], str]], ...] = (
    (r"unrecognized arguments: (.*)", _unknown),
    (r"argument ([^ :]+): invalid choice: (.+?) \(choose from (.*)\)", _choice),
    (
        r"argument ([^ :]+): invalid (\w+) value: (.*)",
        lambda said, _: f"{said[1]}: {said[3]} is not {NUMBERS.get(said[2], 'a value that it takes')}",
    ),
    (r"argument ([^ :]+): expected one argument", r"\1 needs a value after it"),
    (r"argument ([^ :]+): expected at least one argument", r"\1 needs one value or more after it"),
    (r"argument ([^ :]+): ignored explicit argument .*", r"\1 takes no value"),
    (r"argument ([^ :]+): not allowed with argument (.*)", r"\1 and \2 exclude each other: leave one out"),
    (r"the following arguments are required: ([^,]*)", r"\1 is missing"),
    (r"the following arguments are required: (.*)", r"these are missing: \1"),
    (r"argument ([^ :]+): (.*)", r"\1: \2"),
    (r"one of the arguments (.*) is required", r"one of these is needed: \1"),
)
"""Messages of argparse (regular expressions) → our words."""
