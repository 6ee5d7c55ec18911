"""How instants are shown to people, and how what programs wrote is made fit for the database."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

LARGEST_FACTS = 4000
"""Characters of JSON: facts are kept with each attempt."""


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


def storable(text: str, most: int | None = None) -> str:
    """`text` as PostgreSQL can keep it, its first `most` characters: programs quote file names with NUL or half of a
    surrogate pair."""
    return text.encode("utf-8", "replace").decode().replace("\0", "�")[:most]


def facts_as_json(facts: dict[str, Any] | None) -> str | None:
    """A flat dictionary as JSON that PostgreSQL can keep; None for nothing.

    What has no place in JSON is kept as text; of what is too large, only its size.
    """
    if not facts:
        return None
    try:
        text = json.dumps({storable(key): _fact(value) for key, value in facts.items()}, allow_nan=False)
    except (TypeError, ValueError, AttributeError, RecursionError):
        return json.dumps({"unreadable": storable(repr(facts))[: LARGEST_FACTS // 4]})
    return text if len(text) <= LARGEST_FACTS else json.dumps({"too_large": len(text)})


def _fact(value: Any) -> Any:
    if isinstance(value, str):
        return storable(value)
    return value if value is None or isinstance(value, bool | int | float) else storable(str(value))
