"""Instants, numbers and errors as users read them."""

import errno
from collections.abc import Sequence
from datetime import datetime


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
