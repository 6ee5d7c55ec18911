"""How instants, numbers and errors are shown to people."""

import errno
from collections.abc import Sequence
from datetime import datetime


def moment(instant: datetime | None) -> str:
    """An instant to the second, in UTC, as people read it; empty for none."""
    return f"{instant:%Y-%m-%d %H:%M:%S}" if instant else ""


def several(count: int, word: str) -> str:
    """As “1 worker” or “1,200 workers”."""
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"


def some_of(parts: Sequence[str], most: int = 5, between: str = ", ") -> str:
    """The first `most` of them, and how many more there are."""
    more = len(parts) - most
    return between.join(parts[:most]) + (f"{between.rstrip(', ')} and {more:,} more" if more > 0 else "")


def first_line(text: str) -> str:
    """Of an error, as a sentence quotes it."""
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
"""The system's number of an error → our words."""


def reason_of(error: OSError) -> str:
    """Why a file cannot be read or written, without its name."""
    return WHY.get(error.errno or 0, error.strerror or str(error))
