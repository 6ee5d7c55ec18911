"""Pages of a list: `limit`, `ordering` and an opaque `cursor`. And how long an answer may take.

A cursor says after which row the next page begins, by the value it is ordered by and its id. So rows
that come or go meanwhile neither repeat nor hide others. It is signed, and good for one list in one ordering.

In every ordering rows without a value come last, or are left out where an index is to yield the order; those with the
same value are in the order of their ids.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

from django.core import signing
from django.core.exceptions import ValidationError
from django.db import connection
from django.db.models import F, Model, Q, QuerySet

from api.errors import ApiError, not_valid
from declarations.surfaces.patience import PAGE_SECONDS, TookTooLong, at_most
from declarations.surfaces.web.answers import DATABASE_AWAY_SECONDS

LARGEST_PAGE = 500
USUAL_PAGE = 50
LONGEST_CURSOR = 2000

ASK_FOR_LESS = "ask for less, by one more filter or a smaller `limit` where there are some, or try again later"


class Pages:
    """The pages of a list in an ordering: `field`, or `-field` for the other direction, and then by id in the same one.

    A field of the model, also along a path, as `origin__name`. `with_value`: of these only rows that have a value.
    """

    def __init__(self, model: type[Model], name: str, ordering: str, with_value: Collection[str] = ()) -> None:
        self.ordering, self.salt, self.model = ordering, f"{__name__}:{name}", model
        self.path, self.descending = ordering.lstrip("-"), ordering.startswith("-")
        fields: list[Any] = []
        for part in self.path.split("__"):
            fields.append((fields[-1].related_model if fields else model)._meta.get_field(part))
        self.field, has_null = fields[-1], any(field.null for field in fields)
        self.only_with_value = has_null and self.path in with_value
        self.nullable = has_null and not self.only_with_value

    def page(self, rows: QuerySet[Any], limit: int, cursor: str | None) -> tuple[list[Any], str | None]:
        """A page of `rows`, and the cursor of the next one: None when there is none.

        Raises: ApiError (422) for a cursor that is not of this list.
        """
        if cursor is not None:
            rows = rows.filter(self._after(*self._read(cursor)))
        if self.only_with_value:
            rows = rows.filter(**{f"{self.path}__isnull": False})
        by, nulls = F(self.path), {"nulls_last": True} if self.nullable else {}  # which would pass an index by
        first = [by.desc(**nulls) if self.descending else by.asc(**nulls)] if self.path != "id" else []
        found = list(rows.order_by(*first, "-id" if self.descending else "id")[: limit + 1])
        shown = found[:limit]
        return shown, (self._write(shown[-1]) if len(found) > limit else None)

    def _after(self, value: Any, row_id: int) -> Q:
        """Which rows come after the one with that value and id."""
        beyond = "lt" if self.descending else "gt"
        later, none = Q(**{f"id__{beyond}": row_id}), Q(**{f"{self.path}__isnull": True})
        if self.path == "id":
            return later
        if value is None:
            return none & later
        further = Q(**{f"{self.path}__{beyond}": value})
        if not self.nullable:  # written so that an index on both finds where to begin
            return Q(**{f"{self.path}__{beyond}e": value}) & (further | later)
        return further | (Q(**{self.path: value}) & later) | none

    def _write(self, row: Any) -> str:
        value = row
        for part in self.path.split("__"):
            value = getattr(value, part) if value is not None else None
        text = value.isoformat() if hasattr(value, "isoformat") else value
        return signing.dumps([self.ordering, text, row.pk], salt=self.salt)

    def _read(self, cursor: str) -> tuple[Any, Any]:
        """The value and the id of the row before. Raises: ApiError (422)."""
        try:
            ordering, text, row_id = signing.loads(cursor, salt=self.salt)
            if ordering != self.ordering:
                raise ValueError(ordering)
            return self.field.to_python(text), self.model._meta.pk.to_python(row_id)
        except (signing.BadSignature, ValidationError, ValueError, TypeError) as error:
            raise not_valid([("cursor", "is not one that this list gave with this ordering")]) from error


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
