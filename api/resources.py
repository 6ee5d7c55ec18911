"""One way to make a resource: rows of a model that are listed, read, created, changed and deleted over the API.

    class ThrottleBody(Body):                        # what is sent: strict, refuses unknown fields
        name: Title
        max_in_flight: Whole
        rate: float | None = None

    class ThrottleAnswer(Schema):                    # what is answered: `id`, and what else is told
        id: int
        name: str
        max_in_flight: int
        rate: float | None
        live: LiveAnswer

    class ThrottleFilters(Schema):                   # every field is a query parameter; None: not filtered by
        name: Name | None = None
        paused: bool | None = None

    class Throttles(Resource[Throttle]):
        model, name, plural, tag = Throttle, "throttle", "throttles", "throttles"
        body, answer, filters = ThrottleBody, ThrottleAnswer, ThrottleFilters
        orderings = ("id", "name")                   # fields of the model, also in joins, as `schedule__name`
        moving = ("live",)                           # told, but no part of the ETag

        def facts(self, rows):                       # more than the answer's fields of the row by name
            return [self.own_facts(row) | {"live": …} for row in rows]
        def filtered(self, rows, asked): …           # more than `field = value`
        def saved(self, request, row, changed): …    # after a save, in its transaction; changed None: it is new
        def uses_of(self, row): …                    # sentences; not empty: 409 instead of deleting

    resource = Throttles()
    router = resource.router()          # GET, POST /throttles; GET, PATCH, DELETE /throttles/{throttle_id}

    @router.post("/throttles/{int:throttle_id}/pause", auth=operating(), response=ThrottleAnswer,
                 operation_id="pause_throttle", summary="Pause a throttle", openapi_extra={"x-has": ["etag"]})
    def pause(request, throttle_id: int) -> HttpResponse:       # what else it has
        throttle = resource.get(throttle_id)                    # 404 in words
        …
        return resource.respond(throttle)                       # with its ETag

All operations on one path have to be in one router. Attributes left None leave out operations: without `body` it is
read-only; `creates`, `changes`, `deletes` = False leave out single ones. Who may do what: `jobs.view_throttle`,
`add_`, `change_` and `delete_` of the model, as in the admin, unless `permits` is overridden. Fields of bodies and
answers whose names are foreign keys of the model hold ids. Override `fill`, `check`, `save`, `remove` for what is more
than one row. The steps of a request are in `api/steps.py`; the statuses that come of it are documented by
`api/document.py`.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Generic, TypeVar

from django.core.exceptions import FieldDoesNotExist
from django.db.models import ForeignKey, Model, QuerySet
from django.http import HttpRequest, HttpResponse
from ninja import Router, Schema

from api import operations, steps
from api.auth import Staff, viewing, writing
from api.choosing import ASK_FOR_LESS
from api.errors import not_valid
from api.fields import Body
from api.wording import ROW_IS_MISSING

Row = TypeVar("Row", bound=Model)


def names_of(row: Model, *references: str) -> dict[str, str | None]:
    """`NAME_name` → the name of what a row refers to; None: to nothing. To be joined, and no part of an ETag: what is
    renamed is not edited."""
    found = {each: getattr(row, each) for each in references}
    return {f"{each}_name": related.name if related is not None else None for each, related in found.items()}


class Resource(Generic[Row]):
    """Rows of a model as a resource of the API. The module's docstring tells how to make one."""

    model: ClassVar[type[Any]]
    name: ClassVar[str]
    """In the singular, in words: of operations, path parameters and messages."""

    plural: ClassVar[str]
    """In the plural, in words: its path has hyphens for spaces."""

    tag: ClassVar[str]
    answer: ClassVar[type[Schema]]
    body: ClassVar[type[Body] | None] = None
    filters: ClassVar[type[Schema] | None] = None
    orderings: ClassVar[tuple[str, ...]] = ()
    usual_ordering: ClassVar[str] = "id"
    moving: ClassVar[tuple[str, ...]] = ()
    tie: ClassVar[str] = "id"
    """What tells rows apart that have the same value in an ordering."""

    with_value: ClassVar[tuple[str, ...]] = ()
    """Orderings in which rows without a value are left out, so that an index without them yields the order."""

    ask_for_less: ClassVar[str] = ASK_FOR_LESS
    """What to do when a list takes too long."""

    detail: ClassVar[type[Schema] | None] = None
    """What the answer about one row is, where it tells more than the list: see `detailed`."""

    reads_one: ClassVar[bool] = True
    creates: ClassVar[bool] = True
    changes: ClassVar[bool] = True
    deletes: ClassVar[bool] = True

    # ── to override ────────────────────────────────────────────────────────────────────────────────────────────────

    def rows(self) -> QuerySet[Any]:
        """All rows, with what `facts` needs of others."""
        found: QuerySet[Any] = self.model._default_manager.all()
        return found

    def filtered(self, rows: QuerySet[Any], asked: dict[str, Any]) -> QuerySet[Any]:
        """Those that were asked for; `asked`: the filters that were sent. Raises: ApiError (422)."""
        return rows.filter(**asked)

    def facts(self, rows: Sequence[Row]) -> list[dict[str, Any]]:
        """What the answer tells of each row, in the same order."""
        return [self.own_facts(row) for row in rows]

    def own_facts(self, row: Row) -> dict[str, Any]:
        """The answer's fields that are fields of the row."""
        names = [name for name in self.answer.model_fields if hasattr(row, name) or self.is_reference(name)]
        return {name: getattr(row, f"{name}_id" if self.is_reference(name) else name) for name in names}

    def untold(self, row: Row) -> str:
        """What people edit and no answer tells: part of the ETag, as a digest."""
        return ""

    def detailed(self, row: Row) -> dict[str, Any]:
        """What `detail` tells of one row beside its facts."""
        return {}

    def new(self, values: dict[str, Any]) -> Row:
        """A row that is not saved yet, before `fill`."""
        row: Row = self.model()
        return row

    def fill(self, row: Row, values: dict[str, Any]) -> set[str]:
        """Give a row what was sent. Returns the names of what is different now. Raises: ApiError (422)."""
        changed, missing = set(), []
        for name, value in values.items():
            reference = self.is_reference(name)
            if getattr(row, f"{name}_id" if reference else name) == value:
                continue
            changed.add(name)
            if reference and value is not None:
                value = self._there(name, value)
                missing += [name] if value is None else []
            setattr(row, name, value)
        if missing:
            raise not_valid([(name, ROW_IS_MISSING) for name in missing])
        return changed

    def check(self, row: Row) -> None:
        """Raises: ValidationError, which becomes 422 with the fields."""
        row.full_clean()

    def lock(self, row_id: int) -> bool:
        """Lock a row, with those that are edited as one thing with it, until the transaction ends. False: none."""
        rows = self.model._default_manager.filter(pk=row_id)
        return rows.select_for_update(no_key=True).values_list("pk").first() is not None

    def refuse_change(self, request: HttpRequest, row: Row) -> None:
        """Before a change and a delete, with the row locked. Raises: ApiError (403, 409) for one that is left alone."""

    def save(self, request: HttpRequest, row: Row, changed: set[str] | None) -> None:
        """Write a row that was checked: what differs, and nothing that machines move. `changed` None: it is new."""
        row.save(update_fields=None if changed is None else sorted(changed))

    def saved(self, request: HttpRequest, row: Row, changed: set[str] | None) -> None:
        """After `save`, in the same transaction: what follows from it. `changed` is not an empty set."""

    def uses_of(self, row: Row) -> list[str]:
        """What keeps a row from being deleted, in sentences."""
        return []

    def remove(self, request: HttpRequest, row: Row) -> None:
        """Delete a row. Raises: ProtectedError, RestrictedError, which become 409."""
        row.delete()

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

    def is_reference(self, name: str) -> bool:
        """Whether that is a foreign key of the model."""
        try:
            return isinstance(self.model._meta.get_field(name), ForeignKey)
        except FieldDoesNotExist:
            return False

    def _there(self, name: str, row_id: int) -> Any:
        """What a row refers to, read once: its checks and its title need no second look. None: it is not there."""
        related: Any = self.model._meta.get_field(name).related_model
        return related._default_manager.filter(pk=row_id).first()

    def get(self, row_id: int) -> Row:
        """Raises: ApiError (404)."""
        return steps.existing(self, row_id)  # type: ignore[no-any-return]

    def answer_of(self, row: Row) -> dict[str, Any]:
        """One row as JSON, as its answer says."""
        return steps.contents(self, [row])[0]

    def respond(self, row: Row, status: int = 200) -> HttpResponse:
        """The answer about one row, with its ETag."""
        return steps.respond(self, row, status)

    def router(self) -> Router:
        """A router with its operations; more may be added to it."""
        return operations.router_of(self)
