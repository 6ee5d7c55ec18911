"""Problems with values, by field, as text: pydantic's errors as those of Django, which every surface shows."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import pydantic
from django.core.exceptions import ValidationError

Declaration = TypeVar("Declaration", bound=pydantic.BaseModel)

LONGEST_MESSAGE = 500
WORDS = {
    "extra_forbidden": "is unknown here",
    "missing": "is missing",
    "string_type": "must be text",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
}
"""Type of an error of pydantic → our words."""

WORDS_OF_TYPE = {"integer": WORDS["int_type"], "number": WORDS["float_type"]}
"""Type of a field in a JSON Schema → our words for a text of another type."""

BRANCHES = frozenset({"str", "int", "float", "bool", "none", "CronFields"})
"""Parts of a location that name a branch of a choice, and no field."""

CHOSEN = ("function-", "literal[", "nullable", "lax-or-strict", "constrained-", "list[", "dict[")
"""The beginnings of the other kinds."""


def validated(declaration: type[Declaration], values: Mapping[str, Any]) -> Declaration:
    """The values as they are declared. Raises: ValidationError with all that is wrong, by field."""
    try:
        return declaration.model_validate(values)
    except pydantic.ValidationError as error:
        found: dict[str, list[str]] = {}
        for each in error.errors(include_url=False, include_context=False, include_input=False):
            found.setdefault(field_of(each["loc"]), []).append(message_of(each))
        raise ValidationError(found) from error


def message_of(error: Mapping[str, Any]) -> str:
    """The message of an error of pydantic, without the value: it may be a secret."""
    words = WORDS.get(error["type"])
    if words is None:
        _, should, rest = error["msg"].partition(" should ")
        words = f"must {rest}" if should else error["msg"].removeprefix("Value error, ")
    return words if len(words) <= LONGEST_MESSAGE else f"{words[:LONGEST_MESSAGE]}…"


def field_of(location: Sequence[Any]) -> str:
    """The field at a location, such as `cron.hour`: without the branches of choices."""
    parts = [str(part) for part in location]
    return ".".join(part for place, part in enumerate(parts) if not (place and _is_branch(part)))


def lines_of(error: ValidationError) -> Iterable[tuple[str, str]]:
    """(field, message) of each of its problems."""
    return ((field, message) for field, messages in error.message_dict.items() for message in messages)


def _is_branch(part: str) -> bool:
    return part in BRANCHES or part.startswith(CHOSEN)
