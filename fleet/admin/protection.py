"""Parts that pages of sources and assignments share: filters by status and policy, the result of drills,
and remedies.
"""

from collections.abc import Callable, Collection, Iterator
from functools import wraps
from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html_join
from django.utils.safestring import mark_safe

from declarations.surfaces.admin.base import moment
from declarations.surfaces.admin.tables import table
from fleet.past_backups import is_small
from fleet.status import assignments_in
from fleet.status.common_errors import failing_alike
from fleet.status.conditions import DOUBTFUL
from fleet.status.of_all import in_status
from operations.admin.filters import LinkedFilter, RowFilter, row_id
from sources.domain.status import NEEDS_OPERATOR, ProtectionStatus
from sources.models import Assignment, Copy, Policy


def of_a_source(page: Callable[..., HttpResponseBase]) -> Callable[..., Any]:
    """Make a page of the admin of sources get the source in its address; if that is gone, it leads to the list."""

    @wraps(page)
    def found(self: Any, request: HttpRequest, object_id: str) -> HttpResponseBase:
        if source := self.get_object(request, object_id):
            return page(self, request, source)
        self.message_user(request, f"There is no source {object_id}.", messages.WARNING)
        return redirect("admin:sources_source_changelist")

    return found


def lines_of(texts: list[str]) -> str:
    """The texts, one below the other."""
    return format_html_join(mark_safe("<br>"), "{}", ((each,) for each in texts))


def proved(assignment: Assignment) -> str:
    """The instant and point that were last proved restorable, or the reason why the last drill failed."""
    failed = f"THE LAST DRILL FAILED: {assignment.drill_error}" if assignment.drill_error else ""
    when = f"{moment(assignment.proved_at)}, point {assignment.proved_point}" if assignment.proved_at else ""
    return "; proved ".join(each for each in (failed, when) if each)


def mends(source_id: int) -> Iterator[tuple[str, str]]:
    """The label and the address of a remedy, for each reason why backups of a source are doubtful. If that is so under
    several policies, labels name them.
    """
    related = ("check_round", "policy__schedule")
    found = Assignment.objects.active().filter(DOUBTFUL, source=source_id).select_related(*related)
    doubtful = list(found.order_by("policy__schedule__name"))
    for each in doubtful:
        damage = getattr(each, "check_round", None) and each.check_round.damage
        reasons = {
            ("check", "Check now"): damage,
            ("drill", "Drill now"): each.drill_error,
            ("accept", "Accept it"): each.held_back_since,
        }
        under = f" ({each.policy})" if len(doubtful) > 1 else ""
        for (verb, label), reason in reasons.items():
            if reason:
                yield f"{label}{under}", reverse(f"admin:sources_assignment_{verb}_this", args=[each.pk])


def table_of_copies(copies: QuerySet[Copy]) -> Any:
    """A table of copies: when each last had all points, and its problem. Empty if there are no copies."""
    related = copies.select_related("repository", "assignment__policy__schedule").order_by("repository__name", "pk")
    rows = [
        (
            each.repository,
            each.assignment.policy,
            moment(each.copied_at) or "not yet",
            len(each.points),
            _standing(each),
        )
        for each in related
    ]
    return table(("in", "policy", "last had all points (UTC)", "points", "now"), rows, empty="") if rows else ""


def _standing(copy: Copy) -> str:
    if copy.repository_id != copy.assignment.policy.copy_to_id:
        return "no longer kept up to date"
    since = copy.assignment.to_copy_since
    behind = f"a point has been missing since {moment(since)}" if since else ""
    return "; ".join(filter(None, (behind, copy.error))) or "has all points"


IN_NEED = "needs you"


class StatusFilter(admin.SimpleListFilter):
    """Sources or assignments by status."""

    title = "status"
    parameter_name = "status"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(IN_NEED, IN_NEED), *((status.value, status.value) for status in ProtectionStatus)]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        wanted = self.wanted()
        if not wanted:
            return queryset
        if is_small(row_id(request.GET.get(PolicyFilter.parameter_name))):
            return queryset.filter(status__in=wanted)
        return queryset.filter(assignments_in(wanted, timezone.now()))

    def wanted(self) -> Collection[ProtectionStatus]:
        """The chosen statuses; empty for any."""
        value = self.value()
        return NEEDS_OPERATOR if value == IN_NEED else {status for status in ProtectionStatus if status == value}


class StatusOfSourceFilter(StatusFilter):
    """Sources by status, found for all sources at once."""

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        wanted = self.wanted()
        return queryset.filter(in_status(wanted, timezone.now())) if wanted else queryset


class ErrorFilter(LinkedFilter):
    """Sources that fail alike, the target of links on the home page."""

    title, parameter_name = "error", "error"

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(failing_alike(error)) if (error := self.value()) else queryset


class PolicyFilter(RowFilter):
    """A filter by policy."""

    title = parameter_name = "policy"
    model, name = Policy, "schedule__name"
    path = "policy"


class PolicyOfSourceFilter(PolicyFilter):
    """Sources by policy, without joining: a join would multiply the counts over all assignments."""

    def of(self, queryset: QuerySet[Any], chosen: int) -> QuerySet[Any]:
        return queryset.filter(pk__in=Assignment.objects.filter(policy=chosen).values("source"))
