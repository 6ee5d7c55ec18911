"""How instants and what programs said are shown to people."""

import json
import logging
import re
from datetime import datetime
from typing import Any

LARGEST_FACTS = 4000
"""Characters of JSON: facts are kept with each attempt."""


def moment(instant: datetime | None) -> str:
    """An instant to the second, in UTC, as people read it; empty for none."""
    return f"{instant:%Y-%m-%d %H:%M:%S}" if instant else ""


def storable(text: str) -> str:
    """`text` as PostgreSQL can keep it: programs quote file names with NUL or half of a surrogate pair."""
    return text.encode("utf-8", "replace").decode().replace("\0", "�")


STEERS_A_TERMINAL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
COLOUR = re.compile(r"(\x1b\[[0-9;]*m)")


def printable(text: str, *, colours: bool = False) -> str:
    """`text` for a terminal or log, where what sources wrote must not move the cursor, set titles or hide lines.

    Control characters but tab and newline, and those that turn the direction of writing, become escapes as `\\x1b`.
    `colours`: those that `text` sets stay.
    """
    parts = COLOUR.split(text) if colours else [text]
    return "".join(
        part if number % 2 else STEERS_A_TERMINAL.sub(lambda found: ascii(found[0])[1:-1], part)
        for number, part in enumerate(parts)
    )


class PrintableFormatter(logging.Formatter):
    """Log lines that cannot steer the terminal which shows them."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


def facts_as_json(facts: dict[str, Any] | None) -> str | None:
    """A flat dictionary as JSON that PostgreSQL can keep; None for nothing.

    What has no place in JSON is told as text; of what is too large, only that.
    """
    if not facts:
        return None
    try:
        text = json.dumps({storable(key): _fact(value) for key, value in facts.items()}, allow_nan=False)
    except (TypeError, ValueError, AttributeError, RecursionError):
        return json.dumps({"unreadable": storable(repr(facts))[: LARGEST_FACTS // 4]})
    return text if len(text) <= LARGEST_FACTS else json.dumps({"too_large": len(text)})


def facts_in_words(facts: dict[str, Any] | None) -> str:
    """Facts of an attempt on one line, as `status 200, seconds 0.12`."""
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in (facts or {}).items())


def _fact(value: Any) -> Any:
    if isinstance(value, str):
        return storable(value)
    return value if value is None or isinstance(value, bool | int | float) else storable(str(value))
