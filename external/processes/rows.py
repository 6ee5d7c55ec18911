"""JSON that a program prints about things from outside: read without trust.

A server chooses names, sizes and times, a file name may look like a line of a log, and a repository's content may be an
attacker's. So a line that is not an object is None, and a field of an unexpected type is not used.
"""

import json
import math
from collections.abc import Mapping
from typing import Any

LARGEST = 2**63 - 1
"""The largest number: the limit of a column of the database."""


def row_of(line: str | bytes) -> dict[str, Any] | None:
    """The JSON object of a line; None if it is anything else. Never raises."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def number(row: Mapping[str, Any], name: str) -> int:
    """A count or size out of a row, at least 0 and at most LARGEST; 0 if it has none."""
    found = row.get(name)
    if not isinstance(found, int | float) or isinstance(found, bool):
        return 0
    if isinstance(found, float) and math.isnan(found):  # isnan fails for an int of 400 digits
        return 0
    return int(min(max(found, 0), LARGEST))


def text(row: Mapping[str, Any], name: str) -> str:
    """A text out of a row; empty if it has none."""
    found = row.get(name)
    return found if isinstance(found, str) else ""


def texts(row: Mapping[str, Any], name: str) -> list[str]:
    """The texts of a list out of a row."""
    return [each for each in _list(row, name) if isinstance(each, str)]


def rows_in(row: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """The objects of a list out of a row."""
    return [each for each in _list(row, name) if isinstance(each, dict)]


def _list(row: Mapping[str, Any], name: str) -> list[Any]:
    found = row.get(name)
    return found if isinstance(found, list) else []
