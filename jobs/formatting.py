"""How instants, numbers and errors are shown to people."""

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
