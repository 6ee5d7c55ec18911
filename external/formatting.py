"""Instants, numbers and errors as users read them."""

import errno
import re
from collections.abc import Sequence
from datetime import datetime

STEERING = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Control characters, line ends, and characters that turn the direction of writing."""


def moment(instant: datetime | None) -> str:
    """An instant to the second, in UTC, as users read it. Empty if it is None."""
    return f"{instant:%Y-%m-%d %H:%M:%S}" if instant else ""


def several(count: int, word: str) -> str:
    """A number with its word, such as “1 worker” or “1,200 workers”."""
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"


def some_of(parts: Sequence[str], most: int = 5, between: str = ", ") -> str:
    """The first `most` of `parts`, and the number of the others."""
    more = len(parts) - most
    return between.join(parts[:most]) + (f"{between.rstrip(', ')} and {more:,} more" if more > 0 else "")


def on_one_line(text: str) -> str:
    """A text from outside as a part of a message: a name with a line break forges no line of a report or log, and one
    with an escape steers no terminal. Control characters become pictures of them, as in the names that rclone shows.
    """
    return STEERING.sub(_pictured, text)


def _pictured(found: re.Match[str]) -> str:
    number = ord(found[0])
    return chr(0x2400 + number) if number < 0x20 else "\u2421" if number == 0x7F else f"\\u{number:04x}"


def first_line(text: str) -> str:
    """The first line of an error, as a sentence quotes it."""
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
"""The system's number of an error → its text for users."""


def reason_of(error: OSError) -> str:
    """The reason why a file cannot be read or written, without its name."""
    return WHY.get(error.errno or 0, error.strerror or str(error))
