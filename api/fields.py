"""Types of what is sent: nothing passes that the database cannot hold, or that no name holds.

Bodies are strict (`"5"` is no number, `1` is not true) and refuse fields that they do not know.
"""

from copy import copy
from datetime import UTC, datetime
from typing import Annotated, Any

from ninja import Field, Schema
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BeforeValidator,
    ConfigDict,
    GetCoreSchemaHandler,
    StringConstraints,
    create_model,
)
from pydantic_core import CoreSchema, PydanticUndefined, core_schema

from jobs import durations
from operations.backlog.arguments import LARGEST_ID

DEEPEST = 50
"""Levels of a JSON value: what is nested deeper is an attack."""

LARGEST_INTEGER = 2**31 - 1
"""Of the database's plain integers."""

LARGEST_PART = 10**1000
"""Of a JSON value: more digits than that are no number that anybody means."""


class Body(Schema):
    """What is sent to create or change something."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


def printable(text: str) -> str:
    """Raises: ValueError for what no name holds: control characters, halves of surrogate pairs."""
    if not text.isprintable():
        raise ValueError("must hold printable characters only")
    return text


def storable_text(text: str) -> str:
    """Raises: ValueError for what no text in the database holds."""
    if "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
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
    elif isinstance(value, dict):
        for key, each in value.items():
            storable_text(key)
            _check_json(each, depth + 1)
    elif isinstance(value, list):
        for each in value:
            _check_json(each, depth + 1)


def written_out(value: Any) -> Any:
    """Raises: ValueError for a plain number, which would be taken for seconds since 1970."""
    try:
        float(value)
    except (TypeError, ValueError):
        return value
    except OverflowError:
        pass  # a whole number of 400 digits
    raise ValueError("must be an instant with its offset, as 2026-03-28T00:00:00Z")


class _Duration:
    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        number = handler(source)
        text = core_schema.str_schema(pattern=f"^{durations.PATTERN}$")
        return core_schema.no_info_before_validator_function(
            lambda value: durations.parse(value) if isinstance(value, str) else value,
            number,
            json_schema_input_schema=core_schema.union_schema([number, text]),
        )


def _in_range(instant: datetime) -> datetime:
    """Raises: ValueError for an instant that is not between the years 1 and 9999 in UTC."""
    try:
        return instant.astimezone(UTC)
    except OverflowError:
        raise ValueError("must lie between the years 1 and 9999") from None


Name = Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(printable)]
"""A name that is asked for."""

Title = Annotated[str, StringConstraints(min_length=1, max_length=100), AfterValidator(printable)]
"""The name of something that is made."""

Line = Annotated[str, StringConstraints(max_length=200), AfterValidator(printable)]
Json = Annotated[Any, AfterValidator(storable_json)]
JsonObject = Annotated[dict[str, Any], AfterValidator(storable_json)]
RowId = Annotated[int, Field(ge=1, le=LARGEST_ID)]
Whole = Annotated[int, Field(ge=0, le=LARGEST_INTEGER)]
DURATION = _Duration()
"""The last annotation of a number of seconds: a text as `15m` will do as well."""

Instant = Annotated[AwareDatetime, Field(strict=False), BeforeValidator(written_out), AfterValidator(_in_range)]
"""An instant with its offset from UTC."""


def partial(schema: type[Body]) -> type[Body]:
    """The same body for PATCH: every field may be left out, and is then not changed. Its validators are the fields'."""
    fields: dict[str, Any] = {}
    for name, field in schema.model_fields.items():
        left_out = copy(field)
        left_out.default, left_out.default_factory = PydanticUndefined, lambda: None  # a default would be told
        fields[name] = (field.annotation, left_out)
    made: type[Body] = create_model(f"{schema.__name__}Patch", __base__=Body, **fields)
    made.__doc__ = "What is left out stays as it is."
    return made
