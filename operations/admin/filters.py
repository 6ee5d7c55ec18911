"""Filters of the lists about the backlog, each as `operations.backlog.selection` reads it.

Their choices are read from the settings and the registry: a DISTINCT over the backlog would read all of it.
"""

from collections.abc import Callable, Iterable
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.dateparse import parse_datetime

from jobs import conf
from jobs.handlers import registry
from operations.backlog.selection import ANSWERS, STATUSES, filtered
from schedules.models import Schedule

MOST_SCHEDULES = 200
"""The most schedules that are listed as a filter. If there are more, one is chosen from its own page."""


class OneOf(admin.SimpleListFilter):
    """A filter by one of a few values; any other value is ignored, unless there are others than `names`."""

    has_others = False

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, name) for name in self.names()]

    def names(self) -> Iterable[str]:
        return ()

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        listed = self.value() in {name for name, _ in self.lookup_choices}
        if not (listed or (self.has_others and self.value())):
            return queryset
        return filtered(queryset, {str(self.parameter_name): self.read(str(self.value()))})

    def read(self, value: str) -> Any:
        return value


def one_of(parameter: str, heading: str, choices: Callable[[], Iterable[str]], **facts: Any) -> type[OneOf]:
    """The filter with that parameter name and these choices."""
    facts |= {"title": heading, "parameter_name": parameter, "names": lambda self: choices()}
    return type(f"{parameter.title()}Filter", (OneOf,), facts)


def yes_or_no(parameter: str, heading: str) -> type[OneOf]:
    """The filter with that parameter name, and the choices yes and no."""
    return one_of(parameter, heading, lambda: ("yes", "no"), read=lambda self, value: value == "yes")


StatusFilter = one_of("status", "status", lambda: STATUSES)
QueueFilter = one_of("queue", "queue", conf.queue_rules, has_others=True)
KindFilter = one_of("kind", "kind", lambda: sorted(registry.kinds), has_others=True)
AnswerFilter = one_of("answer", "response code", lambda: ANSWERS)
EventsFilter = yes_or_no("events", "event")
PausedFilter = yes_or_no("paused", "queue is paused")


class ScheduleFilter(admin.SimpleListFilter):
    """A filter by schedule; the chosen one is always listed, however many schedules there are."""

    title, parameter_name = "schedule", "schedule"
    column = "origin_id"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        names = Schedule.objects.order_by("name").values_list("pk", "name")
        found = {str(pk): name for pk, name in names[:MOST_SCHEDULES]}
        if (chosen := _id(request.GET.get(self.parameter_name))) and str(chosen) not in found:
            found[str(chosen)] = next((name for _, name in names.filter(pk=chosen)), f"schedule {chosen}")
        return list(found.items())

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if not self.value():
            return queryset
        chosen = _id(self.value())
        return queryset.filter(**{self.column: chosen}) if chosen else queryset.none()


class LinkedFilter(admin.SimpleListFilter):
    """A filter that is shown only once a link of another page has chosen a value; an invalid value finds nothing."""

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        chosen = request.GET.get(str(self.parameter_name), "")
        return [(chosen, chosen[:40])] if chosen else []

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if not self.value():
            return queryset
        read = self.read(str(self.value()))
        return filtered(queryset, {str(self.parameter_name): read}) if read is not None else queryset.none()

    def read(self, value: str) -> Any:
        return value


class TriggerFilter(LinkedFilter):
    """The batch of one trigger, with its schedule."""

    title, parameter_name = "trigger", "trigger_at"

    def read(self, value: str) -> Any:
        try:
            instant = parse_datetime(value.replace(" ", "+"))  # a plus that was not quoted
        except ValueError:
            return None
        return instant if instant and instant.tzinfo else None


class DeadLetterFilter(LinkedFilter):
    """A filter by a group of failed records with the same error."""

    title, parameter_name = "dead letter", "group"


def _id(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 19 else None
