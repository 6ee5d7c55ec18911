"""Filters of the list of events. Nothing in them counts rows: there may be millions."""

from datetime import datetime, timedelta
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from delivery.models import EndpointKind
from operations.event_list import Answer, State, answered, in_state
from schedules.models import Schedule

MOST_SCHEDULES = 200
"""That are listed as a filter. Of more, one is chosen from its own page."""


def chosen_state(request: HttpRequest) -> State | None:
    """The state that the list is filtered by."""
    said = request.GET.get(StateFilter.parameter_name)
    return State(said) if said in State.values else None


class StateFilter(admin.SimpleListFilter):
    """To be delivered, delivered, failed or cancelled."""

    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return list(State.choices)

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return in_state(queryset, State(str(self.value()))) if self.value() in State.values else queryset


class AnswerFilter(admin.SimpleListFilter):
    """By what the receiver answered to the last attempt."""

    title = "response code"
    parameter_name = "answer"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return list(Answer.choices)

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return answered(queryset, Answer(str(self.value()))) if self.value() in Answer.values else queryset


class EventKindFilter(admin.SimpleListFilter):
    """By how they are delivered."""

    title = "kind"
    parameter_name = "kind"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return list(EndpointKind.choices)

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(kind=self.value()) if self.value() in EndpointKind.values else queryset


class ScheduleFilter(admin.SimpleListFilter):
    """By schedule, of those that deliver; the chosen one is there however many there are."""

    title = "schedule"
    parameter_name = "schedule"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        delivering = Schedule.objects.filter(kind__in=EndpointKind.values).order_by("name")
        found = {str(pk): name for pk, name in delivering.values_list("pk", "name")[:MOST_SCHEDULES]}
        chosen = _id(request.GET.get(self.parameter_name))
        if chosen and str(chosen) not in found:
            found[str(chosen)] = next((each.name for each in Schedule.objects.filter(pk=chosen)), f"schedule {chosen}")
        return list(found.items())

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if not self.value():
            return queryset
        chosen = _id(self.value())
        # the index that serves it holds only what a trigger emitted
        return queryset.filter(origin_id=chosen, trigger_at__isnull=False) if chosen else queryset.none()


class TriggerFilter(admin.SimpleListFilter):
    """The batch of one trigger, with its schedule. Shown only once a link of a trigger has chosen it."""

    title = "trigger"
    parameter_name = "trigger"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        chosen = request.GET.get(self.parameter_name, "")
        return [(chosen, f"that of {chosen}")] if chosen else []

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if not self.value():
            return queryset
        instant = _instant(str(self.value()))
        return queryset.filter(trigger_at=instant) if instant else queryset.none()


class EndedFilter(admin.SimpleListFilter):
    """By when they ended: delivered, failed or cancelled."""

    title = "ended within"
    parameter_name = "ended"
    spans = {
        "hour": ("the last hour", timedelta(hours=1)),
        "day": ("the last 24 hours", timedelta(days=1)),
        "week": ("the last 7 days", timedelta(days=7)),
        "month": ("the last 30 days", timedelta(days=30)),
    }

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, told) for name, (told, _) in self.spans.items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() not in self.spans:
            return queryset
        return queryset.filter(finished_at__gte=timezone.now() - self.spans[str(self.value())][1])


def _id(said: str | None) -> int | None:
    return int(said) if said and said.isascii() and said.isdigit() and len(said) < 19 else None


def _instant(said: str) -> datetime | None:
    try:
        instant = parse_datetime(said.replace(" ", "+"))  # a plus that was not quoted
    except ValueError:
        return None
    return instant if instant and instant.tzinfo else None
