"""Instants, numbers and errors as users read them."""

import errno
import re
from collections.abc import Sequence
from datetime import datetime

STEERING = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Control characters, line breaks, and characters that change the writing direction."""


def moment(instant: datetime | None) -> str:
    """An instant in UTC, to the second, for users. Empty if it is None."""
    return f"{instant:%Y-%m-%d %H:%M:%S}" if instant else ""


def several(count: int, word: str) -> str:
    """A number with its noun, such as “1 worker” or “1,200 workers”."""
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"


def some_of(parts: Sequence[str], most: int = 5, between: str = ", ") -> str:
    """The first `most` of `parts`, and the number of the others."""
    more = len(parts) - most
    return between.join(parts[:most]) + (f"{between.rstrip(', ')} and {more:,} more" if more > 0 else "")


def on_one_line(text: str) -> str:
    """A text from outside, safe to quote in a message: a line break in a name cannot forge a line of a report or log,
    and an escape sequence cannot control a terminal. Control characters become their Unicode pictures, as in the names
    that rclone shows.
    """
    return STEERING.sub(_pictured, text)


def _pictured(found: re.Match[str]) -> str:
    number = ord(found[0])
    return chr(0x2400 + number) if number < 0x20 else "\u2421" if number == 0x7F else f"\\u{number:04x}"


def first_line(text: str) -> str:
    """The first line of an error, to be quoted in a sentence."""
    return next(iter(text.strip().splitlines()), "no reason was given")


WHY = {
    errno.ENOENT: "it is not there",
    errno.ENOTDIR: "a part of its path is a file",
    errno.EISDIR: "it is a folder",
    errno.EACCES: "this account may not",
    errno.EPERM: "this account may not",
    errno.ENOSPC: "its disk is full",
    errno.EDQUOT: "this account has no room left there",
    errno.EROFS: "its disk is read-only",
}
"""The errno of an error → its text for users."""


def reason_of(error: OSError) -> str:
    """The reason why a file cannot be read or written, without its name."""
    return WHY.get(error.errno or 0, error.strerror or str(error))
