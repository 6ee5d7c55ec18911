"""Pages of the lists of large tables: of records and backups, of which there may be more than can be sorted, or read
for one page.
"""

from collections.abc import Mapping
from typing import Any

from django.contrib.admin.views.main import ORDER_VAR
from django.db.models import Max, QuerySet
from django.http import HttpRequest
from unfold.views import ChangeList

from declarations.surfaces.admin.base import MOST_LISTED, IdPaginator, WholePage
from jobs.states import FINISHED, UNFINISHED
from operations.admin.filters import NOT_ENDED
from operations.backlog.selection import EVENT_ID, LATEST, STATUSES, has_earlier_ones
from operations.backlog.walking import MOST_BY_END, MOST_WALKED, is_large, is_of_few

CERTAIN = ("waiting_for__exact", "id", "id__exact", "id__in", "pk", "pk__exact", "pk__in", "subject")
"""Parameters that name certain records, or few: a range of ids, such as `id__gt`, does not."""
SERVED = ("status", "answer", "group", "schedule")
"""Filters that an index serves for some of their values."""

MORE = "More than {:,} {} would have to be looked at, and only the latest were. Narrow it down by {}."
OF_SUBJECT = (
    "Backups are listed whatever their age, and so are events whose schedule is still there. Of others, those that "
    f"have not ended or did not succeed, and those among the latest {LATEST:,} records."
)
OF_WORDS = (
    f"Words were looked for in records that have not ended or gave up, and in the latest {LATEST:,}. Of older ones, "
    "backups are found by the name of their source, or by their whole subject."
)


LOOKED_AHEAD = 951
"""Rows behind a page, so that the first of 50 rows knows of more than 1,000."""


class RecordPaginator(IdPaginator):
    """Pages of records by their ids, or by their end."""

    indexed = ("-finished_at", "-pk")

    def look_ahead(self, page: str | None) -> None:
        """Find rows up to that page and LOOKED_AHEAD more, where each that is found costs several reads."""
        number = int(page) if page and page.isascii() and page.isdigit() and len(page) < len(str(MOST_LISTED)) else 1
        self.most = min(MOST_LISTED, max(1, number) * self.per_page + LOOKED_AHEAD)


class LargePage(ChangeList):
    """A page of a list that ends after MOST_WALKED rows of a large table in the order of ids, or MOST_BY_END in that of
    their ends, unless an index leads to those that were asked for; and which is then not sorted by its columns."""

    rows: str
    """Their name, in the plural."""
    by_end: str
    """The instant at which a row ended."""
    met_soon: tuple[str, ...] = ()
    """Further parameters that almost all rows match, in the order of the list."""
    note = ""
    """A sentence about rows that were not looked at."""

    def narrower(self, asked: Mapping[str, str]) -> str:
        """Filters that lead to few rows, as text: next to names of parameters → values."""
        raise NotImplementedError

    def is_of_few(self, asked: Mapping[str, str]) -> bool:
        """True if the rows that were asked for can be sorted."""
        raise NotImplementedError

    def is_certain(self, asked: Mapping[str, str], by_end: bool) -> bool:
        """True if rows were asked for that are found wherever they are in the order of the list: by their end, or
        their ids."""
        raise NotImplementedError

    def unseen(self, asked: Mapping[str, str]) -> str:
        """A sentence about rows that no page of the list looks at."""
        return ""

    def get_queryset(self, request: HttpRequest, *args: Any, **kwargs: Any) -> QuerySet[Any]:
        rows: QuerySet[Any]
        if not is_large(self.model):
            rows = super().get_queryset(request, *args, **kwargs)
            return rows
        asked = {name: str(values[-1]) for name, values in self.get_filters_params().items()}
        if not self.is_of_few(asked):
            self.sortable_by = ()
            self.params.pop(ORDER_VAR, None)
        self.note = self.unseen(asked)
        rows = super().get_queryset(request, *args, **kwargs)
        return rows if self._is_whole(rows, asked) else self._walked(rows, asked)

    def _is_whole(self, rows: QuerySet[Any], asked: Mapping[str, str]) -> bool:
        first = rows.query.order_by[0]
        if first not in ("-pk", f"-{self.by_end}"):  # few, which are sorted, or those of a schedule
            return True
        soon = {*self.met_soon, *self._range()}
        is_all = set(asked) <= soon and not self.query.strip()
        return is_all or self.is_certain(asked, by_end=first != "-pk")

    def _range(self) -> tuple[str, str]:
        return f"{self.by_end}__gte", f"{self.by_end}__lt"

    def _walked(self, rows: QuerySet[Any], asked: Mapping[str, str]) -> QuerySet[Any]:
        """The rows among the first ones in the order of the list: by their end, or by their ids."""
        table, words = self.model._default_manager, (self.rows, self.narrower(asked))
        if set(rows.query.order_by) <= {"-pk"}:
            self.note = MORE.format(MOST_WALKED, *words)
            return rows.filter(pk__gt=(table.aggregate(pk=Max("pk"))["pk"] or 0) - MOST_WALKED)
        ended = {name: asked[name] for name in self._range() if name in asked}
        in_order = table.filter(**{f"{self.by_end}__isnull": False}, **ended).order_by(f"-{self.by_end}")
        last = list(in_order.values_list(self.by_end, flat=True)[MOST_BY_END - 1 : MOST_BY_END])
        self.note = MORE.format(MOST_BY_END, *words) if last else self.note
        return rows.filter(**{f"{self.by_end}__gte": last[0]}) if last else rows


class RecordPage(LargePage, WholePage):
    """A page of the list of records."""

    rows, by_end, met_soon = "records", "finished_at", ("status",)

    def get_queryset(self, request: HttpRequest, *args: Any, **kwargs: Any) -> QuerySet[Any]:
        found = super().get_queryset(request, *args, **kwargs)
        words = self.query.strip()
        if words and not (self.note or EVENT_ID.fullmatch(words)) and has_earlier_ones():
            self.note = OF_WORDS
        return found

    def narrower(self, asked: Mapping[str, str]) -> str:
        has_not_ended = set(STATUSES.get(self._known(asked).get("status", ""), FINISHED)) <= {*UNFINISHED}
        return "what they wait for, or by a search" if has_not_ended else "a status or a day"

    def unseen(self, asked: Mapping[str, str]) -> str:
        return OF_SUBJECT if asked.get("subject") or EVENT_ID.fullmatch(self.query.strip()) else ""

    def is_of_few(self, asked: Mapping[str, str]) -> bool:
        return self._is_named(asked) or is_of_few(self._known(asked), "")

    def is_certain(self, asked: Mapping[str, str], by_end: bool) -> bool:
        return self._is_named(asked) or is_of_few(self._known(asked), self.by_end if by_end else "id")

    def _is_named(self, asked: Mapping[str, str]) -> bool:
        return bool(self.query.strip()) or any(asked.get(name) for name in CERTAIN)

    def _known(self, asked: Mapping[str, str]) -> dict[str, str]:
        """The filters that an index may serve. An address may have any other parameter, with any value."""
        not_ended = {"status": "unfinished"} if asked.get(NOT_ENDED) == "True" else {}
        return not_ended | {name: asked[name] for name in SERVED if name in asked}
