"""Types that declarations share. Nothing passes that the database cannot hold, or that no name holds."""

import re
from math import isfinite
from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from external import durations
from jobs.priorities import MAX_PRIORITY
from jobs.retries import LONGEST

STRICT = ConfigDict(
    extra="forbid", strict=True, allow_inf_nan=False, validate_default=True, hide_input_in_errors=True, defer_build=True
)
"""The rules of every declaration: `"5"` is not a number, `1` is not true, unknown fields are refused, and no traceback
shows the given value, which may be a secret.
"""

DEEPEST = 50
"""Levels of a JSON value: deeper nesting is an attack."""

LARGEST_INTEGER = 2**31 - 1
"""The largest of the database's plain integers."""

UNSTORABLE = re.compile("[\0\ud800-\udfff]")
LARGEST_PART = 10**1000
"""The largest number in a JSON value: no quantity has more digits."""


def printable(text: str) -> str:
    """Check a name. Raises: ValueError for control characters and halves of surrogate pairs."""
    if not text.isprintable():
        raise ValueError("must hold printable characters only")
    return text


def storable_text(text: str) -> str:
    """Check a text. Raises: ValueError for characters that the database cannot store."""
    if UNSTORABLE.search(text):
        raise ValueError("must not hold NUL or halves of surrogate pairs")
    return text


def storable_json(value: Any) -> Any:
    """Raises: ValueError for JSON that the database cannot hold."""
    _check_json(value, 0)
    return value


def _check_json(value: Any, depth: int) -> None:
    if depth > DEEPEST:
        raise ValueError(f"must not be nested more than {DEEPEST} levels deep")
    if isinstance(value, str):
        storable_text(value)
    elif isinstance(value, int) and abs(value) > LARGEST_PART:
        raise ValueError("holds a number of more than 1,000 digits")
    elif isinstance(value, float) and not isfinite(value):
        raise ValueError("must not hold NaN or infinite numbers, which are not JSON")
    elif isinstance(value, dict):
        for key, each in value.items():
            storable_text(key)
            _check_json(each, depth + 1)
    elif isinstance(value, list):
        for each in value:
            _check_json(each, depth + 1)
    elif value is not None and not isinstance(value, bool | int | float):
        raise ValueError("must be JSON")


def _without_spaces_around(text: str) -> str:
    if text != text.strip():
        raise ValueError("must not begin or end with a space")
    return text


class Duration:
    """The last annotation of a number of seconds: a text such as `15m` is accepted as well."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        number = handler(source)
        text = core_schema.str_schema(pattern=f"^{durations.PATTERN}$")
        return core_schema.no_info_before_validator_function(
            lambda value: durations.parse(value) if isinstance(value, str) else value,
            number,
            json_schema_input_schema=core_schema.union_schema([number, text]),
        )


class Choice:
    """The last annotation of an enumeration: its values are accepted, and kept, as they are written."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.literal_schema([each.value for each in source])


DURATION = Duration()
PRINTABLE = AfterValidator(printable)
STORABLE = AfterValidator(storable_text)

Title = Annotated[str, Field(min_length=1, max_length=100), PRINTABLE, AfterValidator(_without_spaces_around)]
"""The name of something that is made."""

Reference = Annotated[str, Field(min_length=1, max_length=100), PRINTABLE]
"""The name of a row that another one refers to."""

Json = Annotated[Any, AfterValidator(storable_json)]
JsonObject = Annotated[dict[str, Any], AfterValidator(storable_json)]
Whole = Annotated[int, Field(ge=0, le=LARGEST_INTEGER)]
Positive = Annotated[int, Field(ge=1, le=LARGEST_INTEGER)]
Port = Annotated[int, Field(ge=1, le=65_535)]
Priority = Annotated[int, Field(ge=-MAX_PRIORITY, le=MAX_PRIORITY)]

Seconds = Annotated[float, Field(ge=0, le=LONGEST), DURATION]
SomeSeconds = Annotated[float, Field(ge=0.1, le=LONGEST), DURATION]
ManySeconds = Annotated[float, Field(ge=1, le=LONGEST), DURATION]
WholeSeconds = Annotated[int, Field(ge=1, le=LARGEST_INTEGER), DURATION]
