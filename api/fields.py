"""Types of what is sent, beside those of `declarations.types`."""

from copy import copy
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Any

from ninja import Field, Schema
from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, create_model
from pydantic_core import PydanticUndefined

from declarations.types import DURATION, PRINTABLE, printable
from operations.backlog.arguments import LARGEST_ID

__all__ = ["DURATION", "Body", "Instant", "Line", "Name", "RowId", "partial", "printable", "written_out"]


class Body(Schema):
    """What is sent to create or change something."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, hide_input_in_errors=True)


def written_out(value: Any) -> Any:
    """Raises: ValueError for a plain number, which would be taken for seconds since 1970."""
    try:
        float(value)
    except (TypeError, ValueError):
        return value
    except OverflowError:
        pass  # a whole number of 400 digits
    raise ValueError("must be an instant with its offset, as 2026-03-28T00:00:00Z")


def _in_range(instant: datetime) -> datetime:
    """Raises: ValueError for an instant that is not between the years 1 and 9999 in UTC."""
    try:
        return instant.astimezone(UTC)
    except OverflowError:
        raise ValueError("must lie between the years 1 and 9999") from None


Name = Annotated[str, Field(min_length=1, max_length=200), PRINTABLE]
"""A name that is asked for."""

Line = Annotated[str, Field(max_length=200), PRINTABLE]
RowId = Annotated[int, Field(ge=1, le=LARGEST_ID)]
Instant = Annotated[AwareDatetime, Field(strict=False), BeforeValidator(written_out), AfterValidator(_in_range)]
"""An instant with its offset from UTC."""


class MovedAnswer(Schema):
    """How many backups were put at the head of the backlog."""

    moved: int


@cache
def partial(schema: type[BaseModel]) -> type[BaseModel]:
    """The same body for PATCH: every field may be left out, and is then not changed. Its validators are the fields'."""
    fields: dict[str, Any] = {}
    for name, field in schema.model_fields.items():
        left_out = copy(field)
        left_out.default, left_out.default_factory = PydanticUndefined, lambda: None  # a default would be told
        fields[name] = (field.annotation, left_out)
    made: type[BaseModel] = create_model(f"{schema.__name__}Patch", __base__=Body, **fields)
    made.__doc__ = "What is left out stays as it is."
    return made
