"""The status of a source and the state of an assignment (`sources/protection.py`) as badges and filters; and the
filters by policy."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from operations.admin.base import moment
from sources.domain.alerts import AlertState
from sources.models import Assignment, Policy
from sources.protection import present as present
from sources.protection import with_alert_state as with_alert_state
from sources.protection import with_status as with_status


def proved(assignment: Assignment) -> str:
    """When which point was last proved restorable, or why the last drill failed."""
    failed = f"THE LAST DRILL FAILED: {assignment.drill_error}" if assignment.drill_error else ""
    when = f"{moment(assignment.proved_at)}, point {assignment.proved_point}" if assignment.proved_at else ""
    return "; proved ".join(each for each in (failed, when) if each)


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
