from collections.abc import Callable
from datetime import datetime
from functools import cached_property
from operator import attrgetter
from typing import Any

from django.contrib import admin
from django.core.paginator import Paginator
from django.db import models
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.admin import ModelAdmin
from unfold.views import ChangeList
from unfold.widgets import UnfoldAdminTextareaWidget

from jobs.durations import span
from jobs.formatting import moment as moment

_THREE_LINES = {"widget": UnfoldAdminTextareaWidget(attrs={"rows": 3})}
SMALL_TEXT_AREAS: dict[Any, Any] = {models.JSONField: _THREE_LINES, models.TextField: _THREE_LINES}
"""`formfield_overrides` for what is written as JSON or pasted: three lines, not ten."""


class ReadOnlyRows:
    """For rows that machines write: to look at, not to touch."""

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
"""Rows that one can page through. To count more of them takes seconds; filters find what lies further back."""


class FirstPages(Paginator):  # type: ignore[type-arg]
    """Pages of the first MOST_LISTED rows; what follows is not counted."""

    @cached_property
    def count(self) -> int:
        rows: models.QuerySet[Any] = self.object_list  # type: ignore[assignment]
        return rows.order_by().values("pk")[:MOST_LISTED].count()


class WholePage(ChangeList):
    """A page whose rows its admin completes together (`complete`): one question for all of them."""

    result_list: Any

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        self.result_list = list(self.result_list)
        self.model_admin.complete(self.result_list)


SHOWN_LENGTH = 80


def shortened(text: str, length: int = SHOWN_LENGTH) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def column(
    field: str, words: str, shown: Callable[[Any], object] = str, *, ordered: bool = True, empty: str = ""
) -> Any:
    """A column of a list, or a line of a page: a field of its rows as `shown` writes it, `empty` where it has none."""
    read = attrgetter(field.replace("__", "."))

    @admin.display(description=words, ordering=field if ordered else None)
    def show(self: Any, row: Any) -> object:
        return empty if (value := read(row)) is None else shown(value)

    return show


class ShortError:
    """The column `short_error` of rows with a `last_error`."""

    short_error = column("last_error", "last error", shortened, ordered=False)


def link(view: str, row_id: Any, text: object) -> SafeString:
    """To the page of a row of the admin, by the name of its view, as `jobs_breaker_change`."""
    return format_html('<a href="{}" class="text-link">{}</a>', reverse(f"admin:{view}", args=[row_id]), text)


def ago(instant: datetime | None) -> str:
    """How long ago an instant was; empty for none."""
    if instant is None:
        return ""
    return f"{span(max(0.0, (timezone.now() - instant).total_seconds()))} ago"
