"""Lists of a table that may have more rows than can be sorted, or read for one page.

Where no index leads to the requested rows, a page looks at a limited number of rows in its order, and ends there. An
ordering that no index yields is refused for a large table, unless few rows are to be sorted.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from django.db.models import QuerySet

from api.errors import ApiError
from api.pages import WHOLE, Walk
from api.resources import Resource, Row
from operations.backlog.selection import ids_if_few
from operations.backlog.walking import MOST_BY_END, MOST_WALKED, are_few, is_large


class LargeTable(Resource[Row]):
    """A resource of such a table. Two orderings have an index: that of the ids, and `by_end`."""

    by_end: ClassVar[str]
    """The instant at which a row ended."""

    since: ClassVar[str]
    """The filter that leaves out rows that ended before."""

    too_many: ClassVar[str]
    """The refusal to sort it in another way, with the filters that lead to few rows."""

    of_pages: ClassVar[str] = (
        f"{Resource.of_pages} Where no index leads to the rows that were asked for, a page ends after "
        f"{MOST_WALKED:,} of them in the order of ids, and after {MOST_BY_END:,} in that of their ends: it may have "
        "fewer rows than `limit`, or none, and yet a `next`."
    )

    def is_of_few(self, asked: Mapping[str, Any], field: str) -> bool:
        """True if an index leads to the rows that were asked for, in the order of that field."""
        raise NotImplementedError

    def bounded(self, rows: QuerySet[Any], asked: Mapping[str, Any], ordering: str) -> tuple[QuerySet[Any], Walk]:
        """The rows, and how a page walks to them. Raises: ApiError (400) for an ordering that no index yields."""
        field, since = ordering.lstrip("-"), asked.get(self.since)
        if field in ("id", self.by_end) and set(asked) <= ({self.since} if field == self.by_end else set()):
            return rows, WHOLE
        table: QuerySet[Any] = self.model._default_manager.all()
        ended = table.filter(**{f"{self.by_end}__gte": since}) if since else None
        if self.is_of_few(asked, field):
            return rows, WHOLE
        if ended is not None and (ids := ids_if_few(ended.order_by(self.by_end))) is not None:
            return rows.filter(pk__in=ids), WHOLE
        if field not in ("id", self.by_end):
            if is_large(self.model) and (ended is None or not are_few(ended, self.by_end)):
                hint = f"order by `id` or `{self.by_end}`"
                raise ApiError(400, errors=[("ordering", self.too_many)], hint=hint)
            return rows, WHOLE
        return rows, Walk(MOST_WALKED) if field == "id" else Walk(MOST_BY_END, ended)
