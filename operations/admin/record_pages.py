"""Pages of the list of records where there are more than can be sorted, or read for one page."""

from typing import Any

from django.contrib.admin.views.main import ORDER_VAR
from django.db.models import Max, QuerySet
from django.http import HttpRequest

from declarations.surfaces.admin.base import IdPaginator, WholePage
from jobs.models import BacklogRecord
from operations.backlog.selection import LATEST
from operations.backlog.walking import MOST_BY_END, MOST_WALKED, is_large, is_of_few

CERTAIN = ("waiting_for__exact", "id", "pk", "subject")
"""Beginnings of parameters that name certain records, or few."""
SOON = ("status", "finished_at__")
"""Beginnings of parameters that almost all records match, in the order of the list."""


MORE = (
    "More than {:,} records would have to be looked at, and only the latest were. Narrow it down by a status or a day."
)
OF_SUBJECT = (
    "Backups and events are listed whatever their age. Of others, those that have not ended or did not succeed, and "
    f"those among the latest {LATEST:,} records."
)


class RecordPaginator(IdPaginator):
    """Pages of records by their ids, or by their end."""

    indexed = ("-finished_at", "-pk")


class RecordPage(WholePage):
    """A page of a list that ends after MOST_WALKED records of a large table, unless an index leads to those that were
    asked for; and which is then not sorted by its columns."""

    note = ""
    """A sentence about records that were not looked at."""

    def get_queryset(self, request: HttpRequest, *args: Any, **kwargs: Any) -> QuerySet[Any]:
        asked = {name: str(values[-1]) for name, values in self.get_filters_params().items()}
        is_certain = self.query.strip() or any(name.startswith(CERTAIN) for name in asked)
        is_walked = not is_certain and not is_of_few(asked) and is_large()
        if is_walked:
            self.sortable_by = ()
            self.params.pop(ORDER_VAR, None)
        if "subject" in asked and is_large():
            self.note = OF_SUBJECT
        rows: QuerySet[Any] = super().get_queryset(request, *args, **kwargs)
        return self._walked(rows, asked) if is_walked and not all(name.startswith(SOON) for name in asked) else rows

    def _walked(self, rows: QuerySet[Any], asked: dict[str, str]) -> QuerySet[Any]:
        """The rows among the first records in the order of the list: by their end, or by their ids."""
        if set(rows.query.order_by) <= {"-pk"}:
            self.note = MORE.format(MOST_WALKED)
            return rows.filter(pk__gt=(BacklogRecord.objects.aggregate(pk=Max("pk"))["pk"] or 0) - MOST_WALKED)
        ended = {name: value for name, value in asked.items() if name.startswith("finished_at__")}
        in_order = BacklogRecord.objects.filter(finished_at__isnull=False, **ended).order_by("-finished_at")
        last = list(in_order.values_list("finished_at", flat=True)[MOST_BY_END - 1 : MOST_BY_END])
        self.note = MORE.format(MOST_BY_END) if last else ""
        return rows.filter(finished_at__gte=last[0]) if last else rows
