"""One way to make a resource: rows that are listed, read, created, changed and deleted over the API.

    class ThrottleAnswer(Throttle):                  # what is answered: what was declared, `id`, and what else there is
        id: int
        live: LiveAnswer

    class ThrottleFilters(Schema):                   # every field is a query parameter; None: not filtered by
        name: Name | None = None
        paused: bool | None = None

    class ThrottlesOfTheApi(Resource[Throttle]):
        service, tag = Throttles, "throttles"        # how they are edited, and what is sent: declarations/service.py
        answer, filters = ThrottleAnswer, ThrottleFilters
        orderings = ("id", "name")                   # fields of the model, also in joins, as `schedule__name`
        moving = ("live",)                           # answered, but no part of the ETag

        def facts(self, rows):                       # more than the answer's fields of the row by name
            return [self.own_facts(row) | {"live": …} for row in rows]
        def filtered(self, rows, asked): …           # more than `field = value`

    resource = ThrottlesOfTheApi()
    router = resource.router()          # GET, POST /throttles; GET, PATCH, DELETE /throttles/{throttle_id}

    @resource.verb(router, "pause", operating(), "Pause a throttle", has=["etag"])
    def pause(request, throttle_id: int) -> HttpResponse:       # what else it has: POST /throttles/{throttle_id}/pause
        throttle = resource.get(throttle_id)                    # 404 in words
        …
        return resource.respond(throttle)                       # with its ETag

All operations on one path have to be in one router. Without a `service` it is read-only, and says its `model`, `name`
and `plural`; `creates`, `changes`, `deletes` = False leave out single operations. Who may do what:
`jobs.view_throttle`, `add_`, `change_` and `delete_` of the model, as in the admin, unless `permits` is overridden.
References are names. The steps of a request are in `api/steps.py`; the statuses that come of it are documented by
`api/document.py`.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from ninja import Router, Schema
from pydantic import BaseModel

from api import operations, steps
from api.auth import Staff, user_of, viewing, writing
from api.choosing import ASK_FOR_LESS
from declarations.service import Service

Row = TypeVar("Row", bound=Model)
View = TypeVar("View", bound=Callable[..., Any])


class Resource(Generic[Row]):
    """Rows of a model as a resource of the API. The module's docstring tells how to make one."""

    service: ClassVar[type[Service[Any]] | None] = None
    model: ClassVar[type[Any]]
    name: ClassVar[str]
    """In the singular, in words: of operations, path parameters and messages."""

    plural: ClassVar[str]
    """In the plural, in words: its path has hyphens for spaces."""

    tag: ClassVar[str]
    answer: ClassVar[type[BaseModel]]
    body: ClassVar[type[BaseModel] | None] = None
    """What is sent, where it is more than the declaration."""

    filters: ClassVar[type[Schema] | None] = None
    orderings: ClassVar[tuple[str, ...]] = ()
    usual_ordering: ClassVar[str] = "id"
    moving: ClassVar[tuple[str, ...]] = ()
    with_value: ClassVar[tuple[str, ...]] = ()
    """Orderings in which rows without a value are left out, so that an index without them yields the order."""

    ask_for_less: ClassVar[str] = ASK_FOR_LESS
    """What to do when a list takes too long."""

    detail: ClassVar[type[BaseModel] | None] = None
    """What the answer about one row is, where it tells more than the list: see `detailed`."""

    removes: ClassVar[bool] = False
    """Whether a row may have backups, and is deleted in the background then."""

    creates: ClassVar[bool] = True
    changes: ClassVar[bool] = True
    deletes: ClassVar[bool] = True

    def __init_subclass__(cls) -> None:
        """What has a service is called as its model is."""
        if cls.service is not None:
            cls.model = cls.service.model
            words = cls.model._meta
            cls.name, cls.plural = str(words.verbose_name), str(words.verbose_name_plural)

    # ── to override ────────────────────────────────────────────────────────────────────────────────────────────────

    def rows(self) -> QuerySet[Any]:
        """All rows, with what `facts` needs of others."""
        return self.edits().rows() if self.service else self.model._default_manager.all()

    def filtered(self, rows: QuerySet[Any], asked: dict[str, Any]) -> QuerySet[Any]:
        """Those that were asked for; `asked`: the filters that were sent. Raises: ApiError (422)."""
        return rows.filter(**asked)

    def facts(self, rows: Sequence[Row]) -> list[dict[str, Any]]:
        """What the answer tells of each row, in the same order."""
        return [self.own_facts(row) for row in rows]

    def own_facts(self, row: Row) -> dict[str, Any]:
        """What was declared, and the answer's other fields that are fields of the row."""
        declared: dict[str, Any] = self.edits().values(row) if self.service else {}
        columns = {each.name: each.attname for each in row._meta.concrete_fields}  # a foreign key's is its id
        others = (name for name in self.answer.model_fields if name not in declared and hasattr(row, name))
        return {**{name: getattr(row, columns.get(name, name)) for name in others}, **declared}

    def untold(self, row: Row) -> str:
        """What people edit and no answer tells: part of the ETag, as a digest."""
        return ""

    def detailed(self, row: Row) -> dict[str, Any]:
        """What `detail` tells of one row beside its facts."""
        return {}

    def saved(self, request: HttpRequest, row: Row, changed: set[str] | None, warnings: list[str]) -> None:
        """After a save, in the same transaction: what follows from it here alone. `changed` None: it is new.
        `warnings`: of the save, for people."""

    def permits(self, verb: str) -> Staff:
        """Who may `view`, `add`, `change` and `delete` rows."""
        label = str(self.model._meta.label_lower)
        return viewing(label) if verb == "view" else writing(verb, label)

    # ── the rest ───────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def path(self) -> str:
        """Of the list, as `/retry-policies`."""
        return f"/{self.plural.replace(' ', '-')}"

    @property
    def parameter(self) -> str:
        """The path parameter, as `retry_policy_id`."""
        return f"{self.name.replace(' ', '_')}_id"

    @property
    def one_path(self) -> str:
        """Of one, as ninja writes it: `/retry-policies/{int:retry_policy_id}`."""
        return f"{self.path}/{{int:{self.parameter}}}"

    def edits(self, request: HttpRequest | None = None) -> Service[Any]:
        """How its rows are edited, by who asks."""
        service: Any = self.service
        return service(user_of(request) if request else None)  # type: ignore[no-any-return]

    def get(self, row_id: int) -> Row:
        """Raises: ApiError (404)."""
        return steps.existing(self, row_id)  # type: ignore[no-any-return]

    def respond(self, row: Row, status: int = 200) -> HttpResponse:
        """The answer about one row, with its ETag."""
        return steps.respond(self, row, status)

    def router(self) -> Router:
        """A router with its operations; more may be added to it."""
        return operations.router_of(self)

    def verb(
        self, router: Router, verb: str, auth: Staff, summary: str, *,
        answer: Any = None, named: str = "", has: Sequence[str] = (), method: str = "post",
    ) -> Callable[[View], View]:  # fmt: skip
        """An operation of its own on one row, as `pause`. `named`: its id, if that is not `pause_throttle`."""
        return getattr(router, method)(  # type: ignore[no-any-return]
            f"{self.one_path}/{verb}", auth=auth, response=answer or self.answer, summary=summary,
            operation_id=named or f"{verb}_{self.name.replace(' ', '_')}", openapi_extra={"x-has": [*has]},
        )  # fmt: skip
