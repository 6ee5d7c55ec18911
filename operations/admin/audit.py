"""The audit: changes and the users who made them, newest first. Each row's own history is on its page."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.paginator import InfinitePaginator

from audit import entries
from audit.models import AuditEntry
from declarations.surfaces.admin.base import CompletingAdmin, ReadOnlyAdmin, column, moment
from declarations.surfaces.admin.row_history import done
from operations.admin.filters import OneOf

NAMES_FROM = 5_000
"""The number of latest entries that are read for the names to filter by."""


class _LatestValues(OneOf):
    """A filter by the values that the latest entries have in one column."""

    def names(self) -> list[str]:
        latest = AuditEntry.objects.order_by("-id").values_list(str(self.parameter_name), flat=True)[:NAMES_FROM]
        return sorted({*latest, *filter(None, [self.value()])})

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(**{str(self.parameter_name): self.value()}) if self.value() else queryset


class WhoFilter(_LatestValues):
    title, parameter_name = "who", "who"


class AboutFilter(_LatestValues):
    title, parameter_name = "table", "about"


@admin.register(AuditEntry)
class AuditAdmin(CompletingAdmin, ReadOnlyAdmin):
    """The changes that users made, entry by entry."""

    when_empty = "Each change to a declaration is an entry here: who, what, before and after."
    adds = "as_text"
    list_display = ("shown_at", "who", "via", "kind", "name", "shown_done")
    list_display_links = ("shown_at",)
    list_filter = ("verb", WhoFilter, AboutFilter, "at")
    search_fields = ("name",)
    search_help_text = "Words of a name"
    ordering = ("-id",)
    sortable_by = ("shown_at",)
    show_full_result_count = False
    paginator = InfinitePaginator
    fields = ("shown_at", "who", "via", "kind", "name", "row_id", "shown_done")

    shown_at = column("at", "at (UTC)", moment)
    kind = column("about", "what", entries.kind_of, ordered=False)
    shown_done = column(lambda entry: entry.as_text, "done", ordered=False)

    def complete(self, rows: list[Any]) -> None:
        for row, facts in zip(rows, entries.facts(rows), strict=True):
            row.as_text = done(facts)

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        if (row := super().get_object(request, object_id, from_field)) is not None:
            self.complete([row])
        return row
