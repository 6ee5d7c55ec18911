"""The status of a source in one word, as a column, a filter and a badge: one definition for all three.

That of an assignment is its alert state (`sources/domain/alerts.py`). And the filters by policy.
"""

from datetime import datetime
from typing import Any

from django.contrib import admin
from django.db.models import Case, CharField, Count, Q, QuerySet, Value, When
from django.http import HttpRequest
from django.utils import timezone

from sources.domain.alerts import AlertState
from sources.models import Assignment, Policy

LABELS = {
    "protected": "success",
    "due": "warning",
    "failing": "danger",
    "never": "danger",
    "overdue": "danger",
    "snoozed": "",
    "paused": "",
    "no policy": "",
}

STATE_LABELS = {
    AlertState.PROTECTED.value: "success",
    AlertState.DUE.value: "warning",
    AlertState.OVERDUE.value: "danger",
    AlertState.NEVER.value: "danger",
}


def with_alert_state(assignments: QuerySet[Any], now: datetime) -> QuerySet[Any]:
    """Annotate `state`: the alert state of each assignment, by the `overdue_since` that is stored."""
    annotated: QuerySet[Any] = assignments.annotate(
        state=Case(
            When(last_backup_at=None, then=Value(AlertState.NEVER.value)),
            When(overdue_since__isnull=False, then=Value(AlertState.OVERDUE.value)),
            When(next_backup_at__gt=now, then=Value(AlertState.PROTECTED.value)),
            default=Value(AlertState.DUE.value),
            output_field=CharField(),
        )
    )
    return annotated


def with_status(sources: QuerySet[Any], now: datetime) -> QuerySet[Any]:
    """Annotate `status` over all assignments of each source, worst first. Needs `with_protection()`.

    What is wrong stays in sight while its user snoozes it; a snooze only explains why it is due.
    """
    counted = sources.annotate(
        assigned=Count("assignments"),
        unprotected=Count("assignments", filter=Q(assignments__last_backup_at=None)),
        overdue=Count("assignments", filter=Q(assignments__overdue_since__isnull=False)),
    )
    annotated: QuerySet[Any] = counted.annotate(
        status=Case(
            When(paused_at__isnull=False, then=Value("paused")),
            When(assigned=0, then=Value("no policy")),
            When(failures__gt=0, then=Value("failing")),
            When(unprotected__gt=0, then=Value("never")),
            When(overdue__gt=0, then=Value("overdue")),
            When(snoozed_until__gt=now, then=Value("snoozed")),
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


class AlertStateFilter(admin.SimpleListFilter):
    """Assignments by alert state."""

    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, name) for name in STATE_LABELS]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(state=self.value()) if self.value() in STATE_LABELS else queryset


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
