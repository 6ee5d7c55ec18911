"""What is wrong with a request, by field, in words for whoever sent it: no values, and names as they were sent."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.core.exceptions import NON_FIELD_ERRORS, ValidationError

LONGEST_NAME = 100
LONGEST_MESSAGE = 500

UNKNOWN_FIELD = "is unknown here"
UNKNOWN_PARAMETER = "is no parameter of this operation"
REPEATED_PARAMETER = "is sent more than once"
MOST_ERRORS = 100
"""Told at once: a body may hold thousands of wrong fields."""

ROW_IS_MISSING = "names what is not there"

SAID = {"extra_forbidden": UNKNOWN_FIELD, "missing": "is missing"}
"""Type of a pydantic error → our words."""

BRANCHES = frozenset({"str", "int", "float", "bool", "none", "CronFields"})
"""Parts of a location that name a branch of a choice, and no field."""

CHOSEN = ("function-", "literal[", "nullable", "lax-or-strict", "constrained-", "list[", "dict[")
"""How others begin."""


def field_errors(errors: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """(field, message) of each of pydantic's errors, as the API framework gives them; at most 100, none twice."""
    found = {(_field(each["loc"]), SAID.get(each["type"], _message(each["msg"]))): None for each in errors}
    return list(found)[:MOST_ERRORS]


def model_errors(error: ValidationError, names: Mapping[str, str] | None = None) -> list[tuple[str, str]]:
    """(field, message) of what `full_clean` of a model raised. `names`: field of the model → as it is called here."""
    by_field = error.error_dict if hasattr(error, "error_dict") else {NON_FIELD_ERRORS: error.error_list}
    found = []
    for field, errors in by_field.items():
        told = "" if field == NON_FIELD_ERRORS else (names or {}).get(field, field)
        found += [(told, _message(message)) for each in errors for message in _messages(each)]
    return found


def _messages(error: ValidationError) -> Sequence[str]:
    params = getattr(error, "params", None) or {}
    if getattr(error, "code", "") == "invalid" and "pk" in params:  # a foreign key to nothing
        return (ROW_IS_MISSING,)
    return error.messages


def _message(text: str) -> str:
    text = text.removeprefix("Value error, ")
    return text if len(text) <= LONGEST_MESSAGE else f"{text[:LONGEST_MESSAGE]}…"


def _field(location: Sequence[Any]) -> str:
    """The name of a field as its sender knows it: without `body` and the name of our parameter."""
    if not location:
        return "body"
    ours = 2 if location[0] == "body" or (location[0] == "query" and location[1:2] == ("query",)) else 1
    parts = [str(part) for part in location[ours:]]
    kept = [part for place, part in enumerate(parts) if not (place and _is_branch(part))]
    return shown(".".join(kept)) or str(location[0])


def _is_branch(part: str) -> bool:
    return part in BRANCHES or part.startswith(CHOSEN)


def shown(name: str) -> str:
    """A name that was sent, as it may be shown: one short line that steers nothing."""
    plain = "".join(letter if letter.isprintable() else "?" for letter in name)
    return plain if len(plain) <= LONGEST_NAME else f"{plain[:LONGEST_NAME]}…"
