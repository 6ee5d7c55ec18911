"""The status of a source in one word, as a column, a filter and a badge: one definition for all three."""

from datetime import datetime
from typing import Any

from django.contrib import admin
from django.db.models import Case, CharField, Q, QuerySet, Value, When
from django.http import HttpRequest
from django.utils import timezone

LABELS = {
    "protected": "success",
    "due": "warning",
    "failing": "danger",
    "never": "danger",
    "paused": "",
    "no policy": "",
}


def with_status(sources: QuerySet[Any], now: datetime) -> QuerySet[Any]:
    """Annotate `status` over all assignments of each source, worst first. Needs `with_protection()`."""
    never = Q(last_backup_at=None)
    annotated: QuerySet[Any] = sources.annotate(
        status=Case(
            When(paused_at__isnull=False, then=Value("paused")),
            When(assignments=None, then=Value("no policy")),
            When(failures__gt=0, then=Value("failing")),
            When(never, then=Value("never")),
            When(next_backup_at__lte=now, then=Value("due")),
            default=Value("protected"),
            output_field=CharField(),
        )
    )
    return annotated


class StatusFilter(admin.SimpleListFilter):
    """Sources by status."""

    title = "status"
    parameter_name = "status"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, name) for name in LABELS]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(status=self.value()) if self.value() in LABELS else queryset


def present() -> datetime:
    """The instant that a page speaks of."""
    return timezone.now()
