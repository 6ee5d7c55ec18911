from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cached_property
from operator import attrgetter
from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.db import models, transaction
from django.db.models import Subquery
from django.db.models.expressions import Col
from django.db.models.sql import Query
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from unfold.decorators import display
from unfold.views import ChangeList
from unfold.widgets import UnfoldAdminTextareaWidget

from declarations.surfaces.admin.row_history import ModelAdmin
from declarations.surfaces.patience import by_index
from external.durations import span
from external.formatting import moment as moment

_THREE_LINES = {"widget": UnfoldAdminTextareaWidget(attrs={"rows": 3})}
SMALL_TEXT_AREAS: dict[Any, Any] = {models.JSONField: _THREE_LINES, models.TextField: _THREE_LINES}
"""`formfield_overrides` for JSON and pasted texts: three lines, not ten."""


class ReadOnlyRows:
    """A mixin for rows that machines write: they can be viewed, not changed."""

    def has_add_permission(self, request: HttpRequest, *args: Any) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


PER_PAGE = 50
"""Rows of a list. The theme writes 6 kB of HTML for each, and a screen shows 20."""


class ReadOnlyAdmin(ReadOnlyRows, ModelAdmin):
    """The list and page of a table that only machines write."""

    list_per_page = PER_PAGE


MOST_LISTED = 10_000
"""The most rows that one can page through. Counting more takes seconds; filters find those further back."""


class FirstPages(Paginator):  # type: ignore[type-arg]
    """Pages of the first MOST_LISTED rows; further ones are not counted."""

    @cached_property
    def count(self) -> int:
        rows: models.QuerySet[Any] = self.object_list  # type: ignore[assignment]
        return rows.order_by().values("pk")[:MOST_LISTED].count()


class TablePaginator(Paginator):  # type: ignore[type-arg]
    """Pages of rows counted without the tables that their columns are read from, unless a filter reads them."""

    @cached_property
    def count(self) -> int:
        rows: Any = self.object_list
        if set(_tables(rows.query.where)) <= {rows.model._meta.db_table}:
            alone = rows.model._default_manager.all()
            alone.query.where = rows.query.where
            return int(alone.count())
        return int(rows.count())


def _tables(condition: Any) -> Iterator[str]:
    """The tables, by their aliases, that a condition asks; an empty name for one that is not known."""
    if isinstance(condition, Col):
        yield condition.alias
    elif isinstance(condition, Query | Subquery):
        yield ""
    elif hasattr(condition, "get_source_expressions"):
        for each in condition.get_source_expressions():
            yield from _tables(each)


class IdPaginator(FirstPages):
    """Pages whose rows are found once for their count and for their page if the list has the order of their ids, or the
    `indexed` one: with a filter that no index serves, each search reads all rows in front of them. Counted without an
    order, the table is read from its other end, or from the position of another scan.
    """

    object_list: models.QuerySet[Any]
    indexed: tuple[str, ...] = ()
    """An order that an index yields, other than that of the ids."""
    most = MOST_LISTED
    """The most ids that are found."""

    @cached_property
    def ids(self) -> list[int] | None:
        """The ids in the order of the list; None if it has another order."""
        if self.indexed and self.object_list.query.order_by[: len(self.indexed)] == self.indexed:
            with transaction.atomic(), by_index():
                return list(self.object_list.values_list("pk", flat=True)[: self.most])
        if set(self.object_list.query.order_by) not in ({"pk"}, {"-pk"}):
            return None
        return list(self.object_list.values_list("pk", flat=True)[: self.most])

    @cached_property
    def count(self) -> int:
        return int(super().count) if self.ids is None else len(self.ids)

    def ids_of(self, number: int) -> list[int] | None:
        """The ids of a page, counted from 1; None if the list has another order."""
        last = number * self.per_page
        return None if self.ids is None else self.ids[last - self.per_page : last]


class WholePage(ChangeList):
    """A page whose rows its admin completes together (`complete`): one query for all of them."""

    result_list: Any

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        shows_a_page = not (self.multi_page and self.show_all)
        if isinstance(self.paginator, IdPaginator) and shows_a_page:
            ids = self.paginator.ids_of(self.page_num if self.multi_page else 1)
            if ids is not None:  # without the filter, which one may have left since
                found = self.apply_select_related(self.root_queryset.order_by()).in_bulk(ids)
                self.result_list = [found[pk] for pk in ids if pk in found]
        self.result_list = list(self.result_list)
        self.model_admin.complete(self.result_list)


class ByIds(ChangeList):
    """A page whose rows are found by their ids first, and then with their columns, so that these are computed for its
    rows alone and not for all rows that are filtered and sorted."""

    result_list: Any

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        ids = self.ids_of_page()
        found = self.apply_select_related(self.root_queryset.order_by()).in_bulk(ids)
        self.result_list = [found[pk] for pk in ids if pk in found]  # one may be gone since

    def ids_of_page(self) -> list[Any]:
        """The ids in the order of the page; `result_list` is a query of its rows."""
        return list(self.result_list.prefetch_related(None).values_list("pk", flat=True))


class PagedByIds(ModelAdmin):
    """A model admin whose lists have such pages."""

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return ByIds


MOST_FOUND = 1000
"""Rows of a search that are then known by their ids."""


class SingleSearchAdmin(ModelAdmin):
    """A model admin whose search no index serves, so that it looks at each row. If it finds few, it does that once for
    the count and the page together; if there are many, those of the first page are found soon."""

    def get_search_results(
        self, request: HttpRequest, queryset: models.QuerySet[Any], search_term: str
    ) -> tuple[models.QuerySet[Any], bool]:
        found, may_repeat = super().get_search_results(request, queryset, search_term)
        if not search_term.strip():
            return found, may_repeat
        ids = set(found.order_by().values_list("pk", flat=True)[: MOST_FOUND + 1])
        if len(ids) > MOST_FOUND:
            return self.many_found(queryset, found, search_term), may_repeat
        return queryset.filter(pk__in=ids), False

    def many_found(self, rows: models.QuerySet[Any], found: models.QuerySet[Any], text: str) -> models.QuerySet[Any]:
        """The many of `rows` that match `text`: `found`, or the same in another way."""
        return found


class OfManyRows(ModelAdmin):
    """A model admin of a table that grows each day: its list ends after MOST_LISTED rows, with a note, or with the one
    of a page that has ended before (`note`)."""

    paginator = FirstPages
    show_full_result_count = False

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        answer: HttpResponse = super().changelist_view(request, extra_context)
        listed = (getattr(answer, "context_data", None) or {}).get("cl")
        known = getattr(listed and listed.paginator, "most", MOST_LISTED)
        if listed and listed.result_count == known < MOST_LISTED:
            text = f"More than {known - 1:,} were found. The last page that is listed leads to further ones."
            self.message_user(request, text, messages.INFO)
        elif listed and listed.result_count == MOST_LISTED:
            text = f"The first {MOST_LISTED:,} are listed. There may be more: filters find earlier ones."
            self.message_user(request, text, messages.INFO)
        elif note := getattr(listed, "note", ""):
            self.message_user(request, note, messages.INFO)
        return answer


class CompletingAdmin(ModelAdmin):
    """A model admin whose lists have such pages."""

    adds: str
    """The attribute that `complete` gives each row."""

    def complete(self, rows: list[Any]) -> None:
        """Add the further values of their columns to these rows, or leave out rows without them."""
        raise NotImplementedError

    def added(self, row: Any) -> Any:
        """The attribute of one row: as the list has found it for all of its page, or for this one."""
        if not hasattr(row, self.adds):
            self.complete([row])
        return getattr(row, self.adds)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return WholePage


SHOWN_LENGTH = 80


def shortened(text: str, length: int = SHOWN_LENGTH) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def column(
    read: str | Callable[[Any], object],
    words: str,
    shown: Callable[[Any], object] = lambda value: value if isinstance(value, SafeString) else str(value),
    *,
    ordered: bool | str = True,
    label: dict[str, str] | None = None,
    empty: str = "",
) -> Any:
    """A column of a list, or a line of a page: a field of its rows, or a function of one, as `shown` writes it, `empty`
    for None. `ordered`: by that field, or by the one that it names. `label`: the colours of its words."""
    field = read if isinstance(read, str) else None
    value_of = attrgetter(read.replace("__", ".")) if isinstance(read, str) else read

    @display(description=words, ordering=field if ordered is True else ordered or None, label=label)
    def show(self: Any, row: Any) -> object:
        return empty if (value := value_of(row)) is None else shown(value)

    return show


def link(view: str, row_id: Any, text: object) -> SafeString:
    """A link to the page of a row of the admin, by the name of its view, such as `jobs_breaker_change`."""
    return anchor(reverse(f"admin:{view}", args=[row_id]), text)


def anchor(url: str, text: object) -> SafeString:
    return format_html('<a href="{}" class="text-link">{}</a>', url, text)


def listed_under(parameter: str, row_id: Any, **views: str) -> SafeString:
    """Links to lists that are filtered by a row, each by its name and the first part of the name of its view."""
    lists = [(f"{reverse(f'admin:{view}_changelist')}?{parameter}={row_id}", text) for text, view in views.items()]
    return format_html(IN_ONE_LINE, format_html_join(" · ", "{}", [(anchor(*each),) for each in lists]))


IN_ONE_LINE = '<span class="whitespace-nowrap">{}</span>'


def foldable(text: object) -> SafeString:
    """A text that may be one long word, such as a URL: it breaks where it must."""
    return format_html('<span style="overflow-wrap: anywhere; white-space: normal">{}</span>', text)


def to_the_minute(instant: datetime) -> SafeString:
    """An instant in a list, in one line."""
    return format_html(IN_ONE_LINE, f"{instant.astimezone(UTC):%Y-%m-%d %H:%M}")


def roughly_ago(instant: datetime) -> str:
    """The time since an instant, in its largest unit."""
    number, unit = ago(instant).split()[:2]
    return f"{float(number):.0f} {unit} ago"


def ago(instant: datetime | None) -> str:
    """The time since an instant; empty if there is none."""
    if instant is None:
        return ""
    return f"{span(max(0.0, (timezone.now() - instant).total_seconds()))} ago"
