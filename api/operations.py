"""The operations of a resource as the API framework takes them: paths, signatures, and what the document says of them.

What they do is in `api/steps.py`. Their signatures are made here, since each resource has schemas of its own.
"""

import inspect
from typing import TYPE_CHECKING, Annotated, Any, Literal

from django.http import HttpRequest
from ninja import Field, Query, Router, Schema
from pydantic import BaseModel, create_model

from api import steps
from api.cursors import LARGEST_PAGE, LONGEST_CURSOR, USUAL_PAGE
from api.fields import partial
from declarations.service import article

if TYPE_CHECKING:
    from api.resources import Resource


OF_BACKUPS = "What becomes of the files of its backups; left out, what has backups is not deleted"


class RemovalAnswer(Schema):
    """What goes: `backups`, the bytes that were written for them, and the record of the backlog that deletes it."""

    record: int
    backups: int
    size: int
    repositories: list[str]


def router_of(resource: "Resource[Any]") -> Router:
    """A router with the operations that a resource has."""
    router = Router(tags=[resource.tag])
    name, plural, row = resource.name, resource.plural, resource.parameter
    word, an, one = _word(name), article(name), {row: int}

    def add(method: str, verb: str, of: str, summary: str, view: Any, takes: dict[str, Any], **more: Any) -> None:
        """`takes`: the parameters of `view` beside the request, with their types."""
        kinds = {"request": HttpRequest, **takes}
        view.__signature__ = inspect.Signature(
            [inspect.Parameter(each, inspect.Parameter.KEYWORD_ONLY, annotation=kind) for each, kind in kinds.items()]
        )
        path = resource.one_path if row in takes else resource.path
        has = {"x-has": more.pop("has", [])}
        response = more.pop("response", resource.answer)
        auth = resource.permits(verb)
        getattr(router, method)(
            path, auth=auth, response=response, operation_id=of, summary=summary, openapi_extra=has, **more
        )(view)

    add(
        "get", "view", f"list_{_word(plural)}", plural[:1].upper() + plural[1:],
        lambda request, query: steps.list_rows(resource, query), {"query": Query[_query_of(resource)]},  # type: ignore[misc]
        response=page_of(resource.answer), description="`next` is the `cursor` of the next page; null: that is all.",
    )  # fmt: skip
    add(
        "get", "view", f"get_{word}", f"One {name}", lambda request, **path: steps.read(resource, path[row]), one,
        response=resource.detail or resource.answer, has=["etag"],
    )  # fmt: skip
    if resource.service is None:
        return router
    body = resource.body or resource.service.declaration
    if resource.creates:
        add(
            "post", "add", f"create_{word}", f"Create {an}",
            lambda request, body: steps.create(resource, request, body), {"body": body},
            response={201: resource.answer}, has=["etag", "location", "idempotency", "conflict"],
        )  # fmt: skip
    if resource.changes:
        add(
            "patch", "change", f"update_{word}", f"Update {an}",
            lambda request, body, **path: steps.change(resource, request, path[row], body),
            {"body": partial(body), **one},
            has=["etag", "if-match", "conflict"], description="What is left out stays.",
        )  # fmt: skip
    if resource.deletes and resource.removes:
        backups = Annotated[Literal["delete", "keep"] | None, Query(None, description=OF_BACKUPS)]
        add(
            "delete", "delete", f"delete_{word}", f"Delete {an}",
            lambda request, backups, **path: steps.delete(resource, request, path[row], backups),
            one | {"backups": backups},
            response={202: RemovalAnswer, 204: None}, has=["if-match", "conflict"],
            description="202: it has backups, and is deleted in the background. 409: something uses it; `detail` says "
            "what.",
        )  # fmt: skip
    elif resource.deletes:
        add(
            "delete", "delete", f"delete_{word}", f"Delete {an}",
            lambda request, **path: steps.delete(resource, request, path[row]), one,
            response={204: None}, has=["if-match", "conflict"],
            description="409: something uses it; `detail` says what.",
        )  # fmt: skip
    return router


def _query_of(resource: "Resource[Any]") -> type[BaseModel]:
    """The filters of a list, and its paging."""
    allowed = ["id", *[each for each in resource.orderings if each != "id"]]
    orderings = tuple(name for each in allowed for name in (each, f"-{each}"))
    text = "With `-`: the other way round. What has no value comes last"
    if resource.with_value:
        text += f". By {' or '.join(f'`{name}`' for name in resource.with_value)}: only what has one"
    fields: dict[str, Any] = {
        "limit": (int, Field(USUAL_PAGE, ge=1, le=LARGEST_PAGE, description="How many at most")),
        "cursor": (str | None, Field(None, max_length=LONGEST_CURSOR, description="`next` of the answer before")),
        "ordering": (Literal[orderings], Field(resource.usual_ordering, description=text)),
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
