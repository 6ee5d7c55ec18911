"""How instants, durations and what programs said are told to people."""

import json
from datetime import datetime
from typing import Any

LARGEST_FACTS = 4000
"""Characters of JSON: facts are kept with each attempt."""


def moment(instant: datetime | None) -> str:
    """An instant to the second, in UTC, as people read it; empty for none."""
    return f"{instant:%Y-%m-%d %H:%M:%S}" if instant else ""


def span(seconds: float | None) -> str:
    """A duration in its two largest units, as `2 h 5 min`, or one, as `2 h`; empty for none."""
    if seconds is None:
        return ""
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    if whole < 3600:
        return _two(whole // 60, "min", whole % 60, "s")
    if whole < 86_400:
        return _two(whole // 3600, "h", whole % 3600 // 60, "min")
    return _two(whole // 86_400, "d", whole % 86_400 // 3600, "h")


def storable(text: str) -> str:
    """`text` as PostgreSQL can keep it: programs quote file names with NUL or half of a surrogate pair."""
    return text.encode("utf-8", "replace").decode().replace("\0", "�")


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


def _two(larger: int, unit: str, smaller: int, smaller_unit: str) -> str:
    return f"{larger} {unit} {smaller} {smaller_unit}" if smaller else f"{larger} {unit}"
