"""Operations for the API framework: signatures and schemas, built here since each resource has its own."""

from collections.abc import Callable, Mapping
from inspect import Parameter, Signature
from typing import Any, ClassVar, Literal, Protocol

from django.http import HttpRequest
from ninja import Field, Schema
from pydantic import BaseModel, create_model

from api.pages import LARGEST_PAGE, USUAL_PAGE, After

PAGING = ("limit", "after", "ordering")


class ListedResource(Protocol):
    """The rows for a list request, and their order, as a resource declares them (`api/resources.py`)."""

    plural: str
    choice: ClassVar[type[Schema]]
    filters: ClassVar[Mapping[str, Any]]
    orderings: ClassVar[tuple[str, ...]]
    usual_ordering: ClassVar[str]
    with_value: ClassVar[tuple[str, ...]]


def taking(view: Callable[..., Any], takes: Mapping[str, Any]) -> Callable[..., Any]:
    """A view with those parameters in addition to the request: as in a signature, or their types alone."""
    named = {"request": HttpRequest, **takes}
    view.__signature__ = Signature([  # type: ignore[attr-defined]
        kind.replace(kind=Parameter.KEYWORD_ONLY) if isinstance(kind, Parameter)
        else Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind)
        for name, kind in named.items()
    ])  # fmt: skip
    return view


def query_schema(resource: ListedResource) -> type[Schema]:
    """The query of a list: its filters, and its paging."""
    allowed = ["id", *[each for each in resource.orderings if each != "id"]]
    orderings = tuple(name for each in allowed for name in (each, f"-{each}"))
    text = "With `-`: in reverse. Rows without a value come last"
    if resource.with_value:
        text += f". By {' or '.join(f'`{name}`' for name in resource.with_value)}: only rows with a value"
    fields: dict[str, Any] = {}
    for name, filtered_by in resource.filters.items():
        kind, description = filtered_by if isinstance(filtered_by, tuple) else (filtered_by, None)
        fields[name] = (kind | None, Field(None, description=description))
    fields |= {
        "limit": (int, Field(USUAL_PAGE, ge=1, le=LARGEST_PAGE, description="The largest number of rows to return")),
        "after": (After, Field(None, description="`next` of the answer before: the id of its last row")),
        "ordering": (Literal[orderings], Field(resource.usual_ordering, description=text)),
    }
    name = f"{resource.plural.title().replace(' ', '')}Query"
    return create_model(name, __base__=resource.choice, **fields)


def page_schema(answer: type[BaseModel]) -> type[Schema]:
    """A page of a list of those."""
    fields: dict[str, Any] = {"items": (list[answer], ...), "next": (int | None, ...)}  # type: ignore[valid-type]
    made: type[Schema] = create_model(f"{answer.__name__.removesuffix('Answer')}Page", __base__=Schema, **fields)
    made.__doc__ = "One page. `next`: the `after` of the next one; null on the last page."
    return made


def saved_schema(answer: type[BaseModel], more: Mapping[str, Any]) -> type[BaseModel]:
    """The answer to a change of one row, or, with the `more` that is shown once, to its creation."""
    description = "Remarks on the saved row, with what to do; empty when the answer is sent again"
    fields = {**more, "warnings": (list[str], Field(description=description))}
    prefix = "New" if more else "Saved"
    return create_model(f"{prefix}{answer.__name__}", __base__=answer, **fields)
