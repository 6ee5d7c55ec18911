"""Pages of a list: `limit`, `ordering` and an opaque `cursor`. And how long an answer may take.

A cursor says after which row the next page begins, by the value it is ordered by and its id. So rows
that come or go meanwhile neither repeat nor hide others. It is signed, and good for one list in one ordering.

In every ordering rows without a value come last, or are left out where an index is to yield the order; those with the
same value are in the order of their ids.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.core import signing
from django.core.exceptions import ValidationError
from django.db import connection
from django.db.models import F, Model, Q, QuerySet

from api.errors import ApiError, not_valid
from operations.patience import PAGE_SECONDS, TookTooLong, at_most
from operations.web.answers import DATABASE_AWAY_SECONDS

LARGEST_PAGE = 500
USUAL_PAGE = 50
LONGEST_CURSOR = 2000

ASK_FOR_LESS = "ask for less: name a status, a schedule, a kind or a queue, and leave out `error`"

NOT_OURS = "is not one that this list gave with this ordering"


@dataclass(frozen=True)
class Place:
    """How a list is ordered: by a field of the model, in one direction, and then by id in the same one.

    `nullable`: rows without a value are listed, last.
    """

    field: str
    descending: bool
    nullable: bool

    @classmethod
    def of(cls, model: type[Model], ordering: str, with_value: Collection[str] = ()) -> "Place":
        """`name`, or `-name` for the other direction. `with_value`: of these fields only rows that have a value."""
        field = ordering.lstrip("-")
        nullable = field not in with_value and _is_nullable(model, field)
        return cls(field, ordering.startswith("-"), nullable)

    @property
    def ordering(self) -> str:
        return f"{'-' if self.descending else ''}{self.field}"


def page_of(
    rows: QuerySet[Any], place: Place, limit: int, cursor: str | None, name: str
) -> tuple[list[Any], str | None]:
    """A page of `rows`, and the cursor of the next one: None when there is none.

    `name`: of the list; cursors of others are refused.

    Raises: ApiError (422) for a cursor that is not of this list.
    """
    if cursor is not None:
        rows = rows.filter(_after(place, _read(cursor, place, name, rows.model)))
    found = list(_ordered(rows, place)[: limit + 1])
    shown = found[:limit]
    return shown, (_write(shown[-1], place, name) if len(found) > limit else None)


def _ordered(rows: QuerySet[Any], place: Place) -> QuerySet[Any]:
    tie = "-id" if place.descending else "id"
    if place.field == "id":
        return rows.order_by(tie)
    field = F(place.field)
    if place.nullable:
        return rows.order_by(field.desc(nulls_last=True) if place.descending else field.asc(nulls_last=True), tie)
    if _is_nullable(rows.model, place.field):
        rows = rows.filter(**{f"{place.field}__isnull": False})
    return rows.order_by(field.desc() if place.descending else field.asc(), tie)  # NULLS LAST would pass an index by


def _after(place: Place, at: tuple[Any, Any]) -> Q:
    """Which rows come after the one with that value and id."""
    value, row_id = at
    beyond = "lt" if place.descending else "gt"
    later = Q(**{f"id__{beyond}": row_id})
    if place.field == "id":
        return later
    if value is None:
        return Q(**{f"{place.field}__isnull": True}) & later
    if not place.nullable:  # written so that an index on both finds where to begin
        return Q(**{f"{place.field}__{beyond}e": value}) & (Q(**{f"{place.field}__{beyond}": value}) | later)
    after = Q(**{f"{place.field}__{beyond}": value}) | (Q(**{place.field: value}) & later)
    return after | Q(**{f"{place.field}__isnull": True})


def _fields(model: type[Model], path: str) -> list[Any]:
    """The fields along a path, as `origin__name`."""
    found: list[Any] = []
    for name in path.split("__"):
        found.append((found[-1].related_model if found else model)._meta.get_field(name))
    return found


def _is_nullable(model: type[Model], path: str) -> bool:
    return any(getattr(field, "null", False) for field in _fields(model, path))


def _write(row: Any, place: Place, name: str) -> str:
    value = row
    for part in place.field.split("__"):
        value = getattr(value, part) if value is not None else None
    text = value.isoformat() if hasattr(value, "isoformat") else value
    return signing.dumps([place.ordering, text, row.pk], salt=f"{__name__}:{name}")


def _read(cursor: str, place: Place, name: str, model: type[Model]) -> tuple[Any, Any]:
    """Raises: ApiError (422)."""
    try:
        ordering, text, row_id = signing.loads(cursor, salt=f"{__name__}:{name}")
        if ordering != place.ordering:
            raise not_valid([("cursor", NOT_OURS)])
        return tuple(_fields(model, path)[-1].to_python(of) for path, of in ((place.field, text), ("id", row_id)))
    except (signing.BadSignature, ValidationError, ValueError, TypeError) as error:
        raise not_valid([("cursor", NOT_OURS)]) from error


@contextmanager
def patiently(ask_for_less: str = ASK_FOR_LESS) -> Iterator[None]:
    """Give up what takes too long, for one transaction, which sees the rows and what belongs to them at one instant.

    Raises: ApiError (503), which says how to ask for less.
    """
    outermost = not connection.in_atomic_block
    try:
        with at_most(PAGE_SECONDS):
            if outermost:
                with connection.cursor() as cursor:
                    cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            yield
    except TookTooLong as error:
        headers = {"Retry-After": str(DATABASE_AWAY_SECONDS)}
        raise ApiError(503, f"the answer took more than {PAGE_SECONDS} s", ask_for_less, headers) from error
