"""The status of a source in one word, as a column, a filter and a badge: one definition for all three.

And the filters by policy.
"""

from datetime import datetime
from typing import Any

from django.contrib import admin
from django.db.models import Case, CharField, Count, Q, QuerySet, Value, When
from django.http import HttpRequest
from django.utils import timezone

from sources.models import Assignment, Policy

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
    never = Q(assignments__last_backup_at=None)
    counted = sources.annotate(assigned=Count("assignments"), unprotected=Count("assignments", filter=never))
    annotated: QuerySet[Any] = counted.annotate(
        status=Case(
            When(paused_at__isnull=False, then=Value("paused")),
            When(assigned=0, then=Value("no policy")),
            When(failures__gt=0, then=Value("failing")),
            When(unprotected__gt=0, then=Value("never")),
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


class PolicyFilter(admin.SimpleListFilter):
    """By policy, all names in one query."""

    title = "policy"
    parameter_name = "policy"
    path = "policy"
    """The way from the listed model to the policy."""

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        names = Policy.objects.order_by("schedule__name").values_list("pk", "schedule__name")
        return [(str(pk), name) for pk, name in names]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        return queryset.filter(**{self.path: int(value)}) if value and value.isdecimal() else queryset


class PolicyOfSourceFilter(PolicyFilter):
    """Sources by policy, without joining: a join would multiply what is counted over all assignments."""

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        if not (value and value.isdecimal()):
            return queryset
        return queryset.filter(pk__in=Assignment.objects.filter(policy=int(value)).values("source"))


def present() -> datetime:
    """The instant that a page speaks of."""
    return timezone.now()
