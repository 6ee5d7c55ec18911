"""Types of values in requests, in addition to those of `declarations.types`."""

from copy import copy
from dataclasses import is_dataclass
from datetime import UTC, date, datetime
from functools import cache
from inspect import get_annotations
from typing import Annotated, Any, get_type_hints

from django.db import models
from ninja import Field, Schema
from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, create_model
from pydantic_core import PydanticUndefined

from declarations.types import DURATION, PRINTABLE, printable
from operations.backlog.arguments import LARGEST_ID

__all__ = ["DURATION", "Body", "Instant", "Line", "Name", "RowAnswer", "RowId", "partial", "printable", "written_out"]

STORED: tuple[tuple[Any, Any], ...] = (
    ((models.IntegerField, models.ForeignKey), int), ((models.CharField, models.TextField), str),
    (models.DateTimeField, datetime), (models.DateField, date), (models.FloatField, float), (models.BooleanField, bool),
)  # fmt: skip
"""Columns → the type of their values. An answer declares JSON values itself."""


class RowAnswer(Schema):
    """An answer with additional fields, with their types: columns of a model, or fields of a dataclass. A
    declaration may follow it.

    class BreakerAnswer(Stored, of=Breaker, names="id key opened_at"):
        waiting: int
    """

    def __init_subclass__(cls, of: type[Any] | None = None, names: str = "", **kwargs: Any) -> None:
        hints = get_type_hints(of) if is_dataclass(of) else {}
        kinds = {name: hints.get(name) or _kind_of(of, name) for name in names.split()}
        cls.__annotations__ = kinds | get_annotations(cls)
        super().__init_subclass__(**kwargs)


def _kind_of(model: Any, name: str) -> Any:
    column = model._meta.get_field(name)
    kind = next(kind for columns, kind in STORED if isinstance(column, columns))
    return kind | None if column.null else kind


class Body(Schema):
    """A request that creates or changes something."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, hide_input_in_errors=True)


def written_out(value: Any) -> Any:
    """Check a date. Raises: ValueError for a plain number, which would be understood as seconds since 1970."""
    try:
        float(value)
    except (TypeError, ValueError):
        return value
    except OverflowError:
        pass  # a whole number of 400 digits
    raise ValueError("must be an instant with its offset, such as 2026-03-28T00:00:00Z")


def _in_range(instant: datetime) -> datetime:
    """Raises: ValueError for an instant that is not between the years 1 and 9999 in UTC."""
    try:
        return instant.astimezone(UTC)
    except OverflowError:
        raise ValueError("must be between the years 1 and 9999") from None


Name = Annotated[str, Field(min_length=1, max_length=200), PRINTABLE]
"""A requested name."""

Line = Annotated[str, Field(max_length=200), PRINTABLE]
RowId = Annotated[int, Field(ge=1, le=LARGEST_ID)]
Instant = Annotated[AwareDatetime, Field(strict=False), BeforeValidator(written_out), AfterValidator(_in_range)]
"""An instant with its offset from UTC."""


class MovedAnswer(Schema):
    """The number of backups put at the head of the backlog."""

    moved: int


@cache
def partial(schema: type[BaseModel]) -> type[BaseModel]:
    """The same body for PATCH: every field may be left out, and is then not changed. Its validators are the fields'."""
    fields: dict[str, Any] = {}
    for name, field in schema.model_fields.items():
        left_out = copy(field)
        left_out.default, left_out.default_factory = PydanticUndefined, lambda: None  # a default would be documented
        fields[name] = (field.annotation, left_out)
    made: type[BaseModel] = create_model(f"{schema.__name__.removesuffix('Declaration')}Patch", __base__=Body, **fields)
    made.__doc__ = "Fields that are left out stay as they are."
    return made
