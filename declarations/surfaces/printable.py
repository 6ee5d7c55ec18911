"""Texts of sources and programs, made safe for a terminal, a log or a page, where they must not steer anything."""

import logging
import re
from typing import Any, TextIO

STEERS_A_TERMINAL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
COLOUR = re.compile(r"(\x1b\[(?:(?:[0-4]|[39][1-7])(?:;(?:[0-4]|[39][1-7]))*)?m)")
"""Bold, italic, underlined and coloured text; colours that hide text, such as black, are excluded."""


def printable(text: str, *, colours: bool = False) -> str:
    """`text` for a terminal or log, where texts of sources must not move the cursor, set titles or hide lines.

    Control characters except tab and newline, and those that turn the direction of writing, become escapes such as
    `\\u001b`, which JSON has as well. `colours`: those that `text` sets stay.
    """
    parts = COLOUR.split(text) if colours else [text]
    return "".join(
        part if number % 2 else STEERS_A_TERMINAL.sub(lambda found: f"\\u{ord(found[0]):04x}", part)
        for number, part in enumerate(parts)
    )


class PrintableStream:
    """A stream of a command: nothing that any library writes to it can steer the terminal behind it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(printable(text, colours=self._stream.isatty()))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class PrintableFormatter(logging.Formatter):
    """Log lines that cannot steer the terminal which shows them. A message is one line, whatever names are in it; a
    traceback alone has more.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - of logging
        return super().formatMessage(record).replace("\n", "\\n")

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


def facts_as_text(facts: dict[str, Any] | None) -> str:
    """Facts of an attempt on one line, such as `status 200, seconds 0.12`."""
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in (facts or {}).items())
