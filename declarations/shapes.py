"""Shapes of the fields of a declaration where users type texts: for options of commands, and fields of forms."""

from functools import cache
from typing import Any, NamedTuple

from pydantic import BaseModel

from external import durations


class Shape(NamedTuple):
    """`type`: as in a JSON Schema; `any`, where there are several. `is_duration`: `15m` is accepted, too."""

    type: str
    nullable: bool
    is_duration: bool
    choices: tuple[str, ...]
    of_texts: bool
    description: str
    default: Any


@cache
def shapes_of(declaration: type[BaseModel]) -> dict[str, Shape]:
    """Field → its shape, in the order of the declaration."""
    properties = declaration.model_json_schema()["properties"]
    return {name: _shape(properties[name]) for name in declaration.model_fields}


def _shape(field: dict[str, Any]) -> Shape:
    variants = [each for each in field.get("anyOf", [field]) if "$ref" not in each]
    types = {each.get("type", "any") for each in variants}
    is_duration = any(each.get("pattern") == f"^{durations.PATTERN}$" for each in variants)
    kinds = types - {"null"} - ({"string"} if is_duration else set())
    of_texts = any(each.get("items", {}).get("type") == "string" for each in variants)
    return Shape(
        type=kinds.pop() if len(kinds) == 1 else "any",
        nullable="null" in types,
        is_duration=is_duration,
        choices=tuple(field.get("enum", ())),
        of_texts=of_texts,
        description=field.get("description", ""),
        default=field.get("default"),
    )
