"""The operations of a resource as the API framework takes them: paths, signatures, and what the document says of them.

What they do is in `api/steps.py`. Their signatures are made here, since each resource has schemas of its own.
"""

import inspect
from typing import TYPE_CHECKING, Any, Literal

from django.http import HttpRequest, HttpResponse
from ninja import Field, Query, Router, Schema
from pydantic import BaseModel, create_model

from api import steps
from api.cursors import LARGEST_PAGE, LONGEST_CURSOR, USUAL_PAGE
from api.fields import partial
from declarations.service import article

if TYPE_CHECKING:
    from api.resources import Resource


def router_of(resource: "Resource[Any]") -> Router:
    """A router with the operations that a resource has."""
    router = Router(tags=[resource.tag])
    _add_list(router, resource)
    if resource.reads_one:
        _add_get(router, resource)
    if resource.service is None:
        return router
    body = resource.body or resource.service.declaration
    if resource.creates:
        _add_create(router, resource, body)
    if resource.changes:
        _add_change(router, resource, partial(body))
    if resource.deletes:
        _add_delete(router, resource)
    return router


def _add_list(router: Router, resource: "Resource[Any]") -> None:
    def list_rows(request: HttpRequest, query: Any) -> HttpResponse:
        return steps.list_rows(resource, query)

    list_rows.__annotations__["query"] = Query[_query_of(resource)]  # type: ignore[misc]
    router.get(
        resource.path,
        auth=resource.permits("view"),
        response=page_of(resource.answer),
        operation_id=f"list_{_word(resource.plural)}",
        summary=resource.plural[:1].upper() + resource.plural[1:],
        description="`next` is the `cursor` of the next page; null: that is all.",
    )(list_rows)


def _add_get(router: Router, resource: "Resource[Any]") -> None:
    def get_row(request: HttpRequest, **path: int) -> HttpResponse:
        return steps.read(resource, path[resource.parameter])

    router.get(
        resource.one_path,
        auth=resource.permits("view"),
        response=resource.detail or resource.answer,
        operation_id=f"get_{_word(resource.name)}",
        summary=f"One {resource.name}",
        openapi_extra={"x-has": ["etag"]},
    )(_with_id(get_row, resource))


def _add_create(router: Router, resource: "Resource[Any]", body: type[BaseModel]) -> None:
    def create_row(request: HttpRequest, body: Any) -> HttpResponse:
        return steps.create(resource, request, body)

    create_row.__annotations__["body"] = body
    router.post(
        resource.path,
        auth=resource.permits("add"),
        response={201: resource.answer},
        operation_id=f"create_{_word(resource.name)}",
        summary=f"Create {article(resource.name)}",
        openapi_extra={"x-has": ["etag", "location", "idempotency", "conflict"]},
    )(create_row)


def _add_change(router: Router, resource: "Resource[Any]", body: type[BaseModel]) -> None:
    def change_row(request: HttpRequest, body: Any, **path: int) -> HttpResponse:
        return steps.change(resource, request, path[resource.parameter], body)

    change_row.__annotations__["body"] = body
    router.patch(
        resource.one_path,
        auth=resource.permits("change"),
        response=resource.answer,
        operation_id=f"update_{_word(resource.name)}",
        summary=f"Update {article(resource.name)}",
        description="What is left out stays.",
        openapi_extra={"x-has": ["etag", "if-match", "conflict"]},
    )(_with_id(change_row, resource))


def _add_delete(router: Router, resource: "Resource[Any]") -> None:
    def delete_row(request: HttpRequest, **path: int) -> HttpResponse:
        return steps.delete(resource, request, path[resource.parameter])

    router.delete(
        resource.one_path,
        auth=resource.permits("delete"),
        response={204: None},
        operation_id=f"delete_{_word(resource.name)}",
        summary=f"Delete {article(resource.name)}",
        description="409: something uses it; `detail` says what.",
        openapi_extra={"x-has": ["if-match", "conflict"]},
    )(_with_id(delete_row, resource))


def _with_id(view: Any, resource: "Resource[Any]") -> Any:
    """Give a view that takes `**path` the id of one row in its signature."""
    signature = inspect.signature(view)
    kept = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
    path = inspect.Parameter(resource.parameter, inspect.Parameter.KEYWORD_ONLY, annotation=int)
    view.__signature__ = signature.replace(parameters=[*kept, path])
    return view


def _query_of(resource: "Resource[Any]") -> type[BaseModel]:
    """The filters of a list, and its paging."""
    allowed = [*(["id"] if resource.tie == "id" else []), *[each for each in resource.orderings if each != "id"]]
    orderings = tuple(name for each in allowed for name in (each, f"-{each}"))
    told = "With `-`: the other way round. What has no value comes last"
    if resource.with_value:
        told += f". By {' or '.join(f'`{name}`' for name in resource.with_value)}: only what has one"
    fields: dict[str, Any] = {
        "limit": (int, Field(USUAL_PAGE, ge=1, le=LARGEST_PAGE, description="How many at most")),
        "cursor": (str | None, Field(None, max_length=LONGEST_CURSOR, description="`next` of the answer before")),
        "ordering": (Literal[orderings], Field(resource.usual_ordering, description=told)),
    }
    name = f"{_word(resource.plural).title().replace('_', '')}Query"
    made: type[BaseModel] = create_model(name, __base__=resource.filters or Schema, **fields)
    return made


def page_of(answer: type[BaseModel]) -> type[Schema]:
    """A page of a list of those."""
    fields: dict[str, Any] = {"items": (list[answer], ...), "next": (str | None, ...)}  # type: ignore[valid-type]
    made: type[Schema] = create_model(f"{answer.__name__.removesuffix('Answer')}Page", __base__=Schema, **fields)
    made.__doc__ = "One page. `next`: the cursor of the next one; null: that is all."
    return made


def _word(words: str) -> str:
    return words.replace(" ", "_")
