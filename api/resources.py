"""One way to make a resource: rows that are listed and read over the API. For those that users edit, see
`api/declared_resources.py`.

    class Breakers(Resource[Breaker]):
        model, tag, answer = Breaker, "rules", BreakerAnswer
        filters = {"key": Name, "open": bool}        # query parameters; one that is left out does not filter
        lookups = {"open": lambda is_open: Q(opened_at__isnull=not is_open)}     # where that is not `field = value`
        orderings = ("id", "key", "opened_at")       # fields of the model, also in joins, as `schedule__name`
        computed = {"waiting": breakers.held_by}         # fields of the answer that are not fields of the row
        seen_by = (may_look,)                        # in addition to those who may view or change breakers

        def facts(self, rows):                       # values that are looked up for all rows of a page at once
            return [self.own_facts(row) | {"trial": …} for row in rows]

    resource = Breakers()
    router = resource.router                         # GET /breakers, GET /breakers/{breaker_id}

    @resource.verb("close", operating(), "Close an open breaker", has=["conflict"])  # POST /breakers/{breaker_id}/close
    def close(request: HttpRequest, breaker: Breaker) -> str:     # 404 without that row
        …
        return "Closed"                              # noted in its history; the answer is the row, with its ETag

All operations on one path have to be in one router. `api/document.py` documents the statuses of an operation.
"""

import hashlib
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, ClassVar, Generic, TypeVar

from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest, HttpResponse, JsonResponse
from ninja import Query, Router, Schema
from pydantic import BaseModel

from api import history
from api.auth import Allowed, Staff, viewing
from api.errors import ApiError
from api.operations import PAGING, page_schema, query_schema, taking
from api.pages import ASK_FOR_LESS, WHOLE, Pages, Walk, patiently

Row = TypeVar("Row", bound=Model)
View = TypeVar("View", bound=Callable[..., Any])

ETAG_LENGTH = 32


def etag_of(content: dict[str, Any]) -> str:
    """The ETag of JSON content, quoted: its digest."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return f'"{hashlib.sha256(text.encode()).hexdigest()[:ETAG_LENGTH]}"'


class Resource(Generic[Row]):
    """A resource of the API. The module's docstring shows how to make one."""

    model: ClassVar[type[Any]]
    called: ClassVar[str] = ""
    """The singular as text, where it is not the name of the model."""

    tag: ClassVar[str]
    answer: ClassVar[type[BaseModel]]
    detail: ClassVar[type[BaseModel] | None] = None
    """The answer about one row, where it has more than the list: see `detailed`."""

    choice: ClassVar[type[Schema]] = Schema
    """Filters that are asked for elsewhere, too."""

    filters: ClassVar[Mapping[str, Any]] = {}
    """Type of each query parameter; or (type, description)."""

    lookups: ClassVar[Mapping[str, str | Callable[[Any], Q]]] = {}
    computed: ClassVar[Mapping[str, str | Callable[[Any], Any]]] = {}
    """Field of the answer → the path of an attribute of the row, such as `source.name`, or a function of the row."""

    seen_by: ClassVar[tuple[str | Allowed, ...]] = ()
    """Further callers who may look, in addition to those who may view or change rows, in the form that `viewing`
    takes."""

    orderings: ClassVar[tuple[str, ...]] = ()
    usual_ordering: ClassVar[str] = "id"
    with_value: ClassVar[tuple[str, ...]] = ()
    """Orderings in which rows without a value are left out, so that an index without them yields the order."""

    of_pages: ClassVar[str] = "`next` is the `after` of the next page; null on the last page."
    """The description of the list."""

    ask_for_less: ClassVar[str] = ASK_FOR_LESS
    """The hint of a list that takes too long."""

    def __init__(self) -> None:
        words = self.model._meta
        self.name = self.called or str(words.verbose_name)
        self.plural = f"{self.called}s" if self.called else str(words.verbose_name_plural)
        self.path = f"/{self.plural.replace(' ', '-')}"
        self.parameter = f"{self.name.replace(' ', '_')}_id"
        self.router = Router(tags=[self.tag])
        query: Any = Query[query_schema(self)]  # type: ignore[misc]
        self.operation(
            "get", self.list_rows, f"list {self.plural}", self.plural[:1].upper() + self.plural[1:],
            self.permits("view"), page_schema(self.answer), of_one=False, takes={"query": query},
            description=self.of_pages,
        )  # fmt: skip
        one, answer = f"One {self.name}", self.detail or self.answer
        self.operation("get", self.read, f"get {self.name}", one, self.permits("view"), answer, has=["etag"])

    # ── to override ────────────────────────────────────────────────────────────────────────────────────────────────

    def rows(self) -> QuerySet[Any]:
        """All rows, with the columns of others that `facts` needs."""
        return self.model._default_manager.all()  # type: ignore[no-any-return]

    def filtered(self, rows: QuerySet[Any], asked: Mapping[str, Any]) -> QuerySet[Any]:
        """The rows that were asked for; `asked`: the filters that were sent. Raises: ApiError (422)."""
        for name, value in asked.items():
            lookup = self.lookups.get(name, name)
            rows = rows.filter(lookup(value) if callable(lookup) else Q(**{lookup: value}))
        return rows

    def bounded(self, rows: QuerySet[Any], asked: Mapping[str, Any], ordering: str) -> tuple[QuerySet[Any], Walk]:
        """The rows that were asked for, and how a page walks to them. `api/large_tables.py` bounds it. Raises: ApiError
        (400)."""
        return rows, WHOLE

    def facts(self, rows: Sequence[Row]) -> list[dict[str, Any]]:
        """The content of the answer for each row, in the same order."""
        return [self.own_facts(row) for row in rows]

    def own_facts(self, row: Row) -> dict[str, Any]:
        """The answer's fields that are fields of the row, or computed from it."""
        columns = {each.name: each.attname for each in row._meta.concrete_fields}  # a foreign key's is its id
        fields = {name: columns.get(name, name) for name in self.answer.model_fields if name not in self.computed}
        # asked for by its name, a foreign key would be fetched, for each row
        own = {name: getattr(row, column) for name, column in fields.items() if hasattr(row, column)}
        computed = self.computed.items()
        return own | {name: (attrgetter(of)(row) if isinstance(of, str) else of(row)) for name, of in computed}

    def detailed(self, row: Row) -> dict[str, Any]:
        """The fields of `detail` for one row, next to its facts."""
        return {}

    def permits(self, verb: str) -> Staff:
        """Callers who may `view` rows."""
        return viewing(self.model._meta.label_lower, *self.seen_by)

    def as_json(self, answer: type[BaseModel], facts: dict[str, Any]) -> dict[str, Any]:
        return answer.model_validate(facts).model_dump(mode="json", by_alias=True)

    def etag(self, row: Row, content: dict[str, Any]) -> str:
        return etag_of(content)

    # ── the rest ───────────────────────────────────────────────────────────────────────────────────────────────────

    def list_rows(self, request: HttpRequest, query: Any) -> HttpResponse:
        """One page. Raises: ApiError (400, 422, 503)."""
        asked = {name: value for name, value in query if name not in PAGING and value is not None}
        with patiently(self.ask_for_less):
            rows, walk = self.bounded(self.filtered(self.rows(), asked), asked, query.ordering)
            pages = Pages(self.model, query.ordering, self.with_value)
            shown, following = pages.page(rows, self.rows(), query.limit, query.after, walk)
            return JsonResponse({"items": self.contents(shown), "next": following})

    def read(self, request: HttpRequest, row_id: int) -> HttpResponse:
        """One row, with its ETag; with its details where it has some. Raises: ApiError (404, 503)."""
        with patiently():
            row = self.get(row_id)
            [facts] = self.facts([row])
            content = self.as_json(self.answer, facts)
            etag = self.etag(row, content)
            if self.detail:
                content = self.as_json(self.detail, facts | self.detailed(row))
        return JsonResponse(content, headers={"ETag": etag})

    def contents(self, rows: Sequence[Row]) -> list[dict[str, Any]]:
        """Rows as JSON, in the form of the answer."""
        return [self.as_json(self.answer, facts) for facts in self.facts(rows)]

    def get(self, row_id: int) -> Row:
        """Raises: ApiError (404)."""
        row: Row | None = self.rows().filter(pk=row_id).first()
        if row is None:
            raise self.missing()
        return row

    def missing(self) -> ApiError:
        return ApiError(404, f"there is no such {self.name}", f"GET /api{self.path} lists those there are")

    def respond(self, row_id: int, status: int = 200, **more: Any) -> HttpResponse:
        """The answer about one row as it is now, with its ETag, and `more` next to it. Raises: ApiError (404)."""
        row = self.get(row_id)
        [content] = self.contents([row])
        return JsonResponse(content | more, status=status, headers={"ETag": self.etag(row, content)})

    def verb(
        self, verb: str, auth: Staff, summary: str, *, answer: Any = None, named: str = "", has: Sequence[str] = (),
        method: str = "post", noted: str = "",
    ) -> Callable[[View], View]:  # fmt: skip
        """An operation on one row, such as `pause`. `named`: its id as text, if that is not `pause throttle`.

        `noted`: the text for the row's history. The function's result is the answer; if it returns a text, that is
        noted instead, and for None or a text the answer is the row in its present state.
        """

        def add(view: View) -> View:
            def run(request: HttpRequest, row_id: int, **given: Any) -> Any:
                row = self.get(row_id)
                found = view(request, row, **given)
                if note := found if isinstance(found, str) else noted:
                    history.noted(request, row, note)
                return self.respond(row_id) if found is None or isinstance(found, str) else found

            _, _, *others = inspect.signature(view).parameters.values()
            self.operation(
                method, run, named or f"{verb} {self.name}", summary, auth, answer or self.answer, below=f"/{verb}",
                takes={each.name: each for each in others}, has=has, description=view.__doc__,
            )  # fmt: skip
            return view

        return add

    def operation(
        self, method: str, run: Callable[..., Any], named: str, summary: str, auth: Staff, answer: Any, *,
        of_one: bool = True, below: str = "", takes: Mapping[str, Any] | None = None, has: Sequence[str] = (),
        description: str | None = None,
    ) -> None:  # fmt: skip
        """Add an operation on all rows, or of one, at a path `below`; `takes`: parameters of `run` other than request
        and id, as `taking` has them; `has`: as `x-has` in `api/document.py`."""
        row_id = {self.parameter: int} if of_one else {}
        view = taking(lambda request, **given: run(request, *(given.pop(name) for name in row_id), **given),
                      {**row_id, **(takes or {})})  # fmt: skip
        path = f"{self.path}/{{int:{self.parameter}}}{below}" if of_one else f"{self.path}{below}"
        getattr(self.router, method)(
            path, auth=auth, response=answer, operation_id=named.replace(" ", "_"), summary=summary,
            openapi_extra={"x-has": [*has]}, description=inspect.cleandoc(description or ""),
        )(view)  # fmt: skip
