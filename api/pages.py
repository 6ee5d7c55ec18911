"""Pages of a list: `limit`, `ordering` and `after`, the id of the last row of the page before. And the time limit of an
answer.

A page begins after that row, by its value in the ordering and its id, and not at a number of rows: rows that come or go
in the meantime neither repeat nor hide others, and the last page costs no more than the first. In the order of ids the
row itself may be gone. In another ordering its value is read from the row, so one that is gone is refused, and one
whose value has changed continues from its new place.

Where no index leads to the requested rows, a page looks at a limited number of rows in its order, and ends there: it
may have fewer rows than its limit, or none, and still have a `next`.

In every ordering rows without a value come last, or are left out where an index is to yield the order; those with the
same value are in the order of their ids.
"""

import math
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, nullcontext
from typing import Annotated, Any, NamedTuple

from django.db import connection
from django.db.models import F, Model, Q, QuerySet
from pydantic import WithJsonSchema

from api.errors import ApiError
from declarations.surfaces.patience import PAGE_SECONDS, TookTooLong, at_most, by_index
from declarations.surfaces.web.error_pages import DATABASE_AWAY_SECONDS
from operations.backlog.arguments import LARGEST_ID

LARGEST_PAGE = 500
USUAL_PAGE = 50
SOON = 5000
"""Rows of a table in which a page looks first: many rows are met soon."""

ASK_FOR_LESS = "ask for less, by one more filter or a smaller `limit` where there are some, or try again later"

After = Annotated[Any, WithJsonSchema({"type": "integer", "minimum": 0, "maximum": LARGEST_ID})]
"""Any text: `Pages` reads it, so that each mistake in it gets the same answer."""


class Walk(NamedTuple):
    """The number of rows that a page looks at, in an order that an index yields, None for all; and the rows among which
    it does so, None for those of the table."""

    most: int | None = None
    table: QuerySet[Any] | None = None


WHOLE = Walk()


class Pages:
    """The pages of a list in an ordering: `field`, or `-field` for the other direction, and then by id in the same one.

    A field of the model, also along a path, such as `origin__name`. `with_value`: of these only rows that have a value.
    """

    def __init__(self, model: type[Model], ordering: str, with_value: Collection[str] = ()) -> None:
        self.model, self.path, self.descending = model, ordering.lstrip("-"), ordering.startswith("-")
        fields: list[Any] = []
        for part in self.path.split("__"):
            fields.append((fields[-1].related_model if fields else model)._meta.get_field(part))
        has_null = any(field.null for field in fields)
        self.only_with_value = has_null and self.path in with_value
        self.nullable = has_null and not self.only_with_value

    def page(
        self, rows: QuerySet[Any], every: QuerySet[Any], limit: int, after: Any = None, walk: Walk = WHOLE
    ) -> tuple[list[Any], int | None]:
        """A page of `rows`, and the `after` of the next page, None if there is none. The ids of a page are found
        first, and then its rows in `every`, unfiltered: computed columns are computed for these alone.

        Raises: ApiError (400) for an `after` that does not start a page.
        """
        if after is not None:
            rows = rows.filter(self._behind(_row_id(after)))
        if self.only_with_value:
            rows = rows.filter(**{f"{self.path}__isnull": False})
        ids, end = self._ids(rows.prefetch_related(None), limit, after, walk)
        found = every.order_by().in_bulk(ids[:limit])
        shown = [found[pk] for pk in ids if pk in found]
        return shown, (shown[-1].pk if len(ids) > limit and shown else end)

    def _ids(self, rows: QuerySet[Any], limit: int, after: Any, walk: Walk) -> tuple[list[int], int | None]:
        """The first ids of `rows`, one more than `limit`, and the last id that was looked at; None if that is all."""
        ids: list[int] = []
        end = None
        for number in dict.fromkeys((walk.most and min(walk.most, SOON), walk.most)):
            part, end = self._walked(rows, after, number, walk.table) if number else (rows, None)
            with by_index() if end is not None else nullcontext():
                ids = list(self._in_order(part).values_list("pk", flat=True)[: limit + 1])
            if end is None or len(ids) > limit:
                break
        return ids, end

    def _in_order(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        by, nulls = F(self.path), {"nulls_last": True} if self.nullable else {}  # which would pass an index by
        first = [by.desc(**nulls) if self.descending else by.asc(**nulls)] if self.path != "id" else []
        return rows.order_by(*first, "-id" if self.descending else "id")

    def _walked(
        self, rows: QuerySet[Any], after: Any, number: int, table: QuerySet[Any] | None
    ) -> tuple[QuerySet[Any], int | None]:
        """The rows among the first `number` of the table from `after` on, and the last id of these; None if there are
        no more."""
        table = self.model._default_manager.all() if table is None else table
        if after is not None:
            table = table.filter(self._behind(_row_id(after)))
        if self.path == "id":
            until = [pk + (1 - number if self.descending else number - 1) for pk in self._values(table, 0)]
            ends = until
        else:
            until = self._values(table.filter(**{f"{self.path}__isnull": False}), number - 1)
            same = list(table.filter(**{f"{self.path}__in": until}).order_by().values_list("pk", flat=True))
            ends = [min(same) if self.descending else max(same)] if same else []
        if not ends or not table.filter(self._behind(ends[0])).exists():
            return rows, None
        return rows.filter(**{f"{self.path}__{'gte' if self.descending else 'lte'}": until[0]}), ends[0]

    def _values(self, table: QuerySet[Any], number: int) -> list[Any]:
        """The value of the row at that place; empty if there are fewer. It is counted in the index alone."""
        in_order = table.order_by(f"-{self.path}" if self.descending else self.path)
        return list(in_order.values_list(self.path, flat=True)[number : number + 1])

    def _behind(self, row_id: int) -> Q:
        """The rows that come after the one with that id. Raises: ApiError (400)."""
        beyond = "lt" if self.descending else "gt"
        later, none = Q(**{f"id__{beyond}": row_id}), Q(**{f"{self.path}__isnull": True})
        if self.path == "id":
            return later
        value = self._value_of(row_id)
        if value is None:
            return none & later
        further = Q(**{f"{self.path}__{beyond}": value})
        if not self.nullable:  # written so that an index on both finds where to begin
            return Q(**{f"{self.path}__{beyond}e": value}) & (further | later)
        return further | (Q(**{self.path: value}) & later) | none

    def _value_of(self, row_id: int) -> Any:
        """The value of a row in this ordering. Raises: ApiError (400) if it has no place there, or no more."""
        found = self.model._default_manager.filter(pk=row_id).values_list(self.path, flat=True)[:1]
        for value in found:
            if value is not None or self.nullable:
                return value
        text = f"row {row_id} is not in this ordering any more; begin again, or order by `id`, which needs no such row"
        raise ApiError(400, errors=[("after", text)], hint="leave `after` out for the first page")


def _row_id(after: Any) -> int:
    """The id in `after`. Raises: ApiError (400) if it is not an id."""
    text = str(after)
    if text.isdecimal() and text.isascii() and len(text) <= len(str(LARGEST_ID)) and int(text) <= LARGEST_ID:
        return int(text)
    text = "must be the id of the last row of the page before: `next` of its answer"
    raise ApiError(400, errors=[("after", text)], hint="leave `after` out for the first page")


@contextmanager
def patiently(ask_for_less: str = ASK_FOR_LESS, whole: float = math.inf) -> Iterator[Callable[[], None]]:
    """Give up an answer that takes too long, for one transaction, which sees the rows and related ones at one instant.
    `whole`, and the function that it yields: as for `at_most`.

    Raises: ApiError (503), with advice how to ask for less.
    """
    outermost = not connection.in_atomic_block
    try:
        with at_most(PAGE_SECONDS, whole) as check_time:
            if outermost:
                with connection.cursor() as cursor:
                    cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            yield check_time
    except TookTooLong as error:
        headers = {"Retry-After": str(DATABASE_AWAY_SECONDS)}
        raise ApiError(503, f"the answer took more than {PAGE_SECONDS} s", ask_for_less, headers) from error
