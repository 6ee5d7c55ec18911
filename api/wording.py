"""What is wrong with a request, by field, in words for its sender: no values, and names as they were sent."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from declarations.problems import field_of, message_of

LONGEST_NAME = 100

UNKNOWN_PARAMETER = "is no parameter of this operation"
REPEATED_PARAMETER = "is sent more than once"
MOST_ERRORS = 100
"""Told at once: a body may hold thousands of wrong fields."""


def field_errors(errors: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """(field, message) of each of pydantic's errors, as the API framework gives them; at most 100, none twice."""
    found = {(_field(each["loc"]), message_of(each)): None for each in errors}
    return list(found)[:MOST_ERRORS]


def _field(location: Sequence[Any]) -> str:
    """The name of a field as its sender knows it: without `body` and the name of our parameter."""
    if not location:
        return "body"
    ours = 2 if location[0] == "body" or (location[0] == "query" and location[1:2] == ("query",)) else 1
    return shown(field_of(location[ours:])) or str(location[0])


def shown(name: str) -> str:
    """A name that was sent, as it may be shown: one short line that steers nothing."""
    plain = "".join(letter if letter.isprintable() else "?" for letter in name)
    return plain if len(plain) <= LONGEST_NAME else f"{plain[:LONGEST_NAME]}…"
