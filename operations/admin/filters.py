"""Filters of the lists about the backlog, each as `operations.backlog.selection` reads it.

Their choices are read from the settings and the registry: a DISTINCT over the backlog would read the whole backlog.
"""

from collections.abc import Callable, Iterable
from typing import Any

from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.dateparse import parse_datetime

from jobs import conf
from jobs.handlers import registry
from operations.backlog.selection import ANSWERS, STATUSES, filtered, in_status, with_subject
from operations.backlog.walking import is_large
from schedules.models import Schedule

MOST_LISTED = 200
"""The most rows of a table that are listed as a filter. If there are more, one is chosen from the list of the table."""


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


class StatusOfRecordFilter(one_of("status", "status", lambda: STATUSES)):  # type: ignore[misc]
    """Records by status. Next to an answer it finds nothing itself: AnswerFilter does, or records would be looked up
    twice, and compared."""

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        found: QuerySet[Any] = super().queryset(request, queryset)
        return queryset if is_undelivered(request) else found


class AnswerFilter(one_of("answer", "response code", lambda: ANSWERS)):  # type: ignore[misc]
    """Events by the answer to their last attempt, and by a status next to it."""

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if not is_undelivered(request):
            found: QuerySet[Any] = super().queryset(request, queryset)
            return found
        status = request.GET.get("status")
        asked = {"status": status} if status in STATUSES else {}
        return filtered(queryset, {"answer": request.GET["answer"]} | asked)


def is_undelivered(request: HttpRequest) -> bool:
    """True if the list has events that were not delivered, by an answer other than 2xx."""
    return request.GET.get("answer") in {*ANSWERS} - {"2xx"}


QueueFilter = one_of("queue", "queue", conf.queue_rules, has_others=True)
KindFilter = one_of("kind", "kind", lambda: sorted(registry.kinds), has_others=True)
EventsFilter = yes_or_no("events", "event")
PausedFilter = yes_or_no("paused", "queue is paused")


WAITS_FOR = "waiting_for__exact"


class WaitingForFilter(admin.ChoicesFieldListFilter):
    """Records by the condition that they wait for: only waiting ones do, and indexes have these. The planner would read
    all records.
    """

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        found: QuerySet[Any] = super().queryset(request, queryset)  # type: ignore[assignment]
        return _in_status(request, found, "waiting") if self.lookup_val else found


NOT_ENDED = "finished_at__isnull"
"""The parameter of records without an end, if it is `True`."""


class EndedFilter(admin.DateFieldListFilter):
    """Records by the day on which they ended. Those without one are the unfinished ones, and indexes have these."""

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        found: QuerySet[Any] = super().queryset(request, queryset)  # type: ignore[assignment]
        return _in_status(request, found, "unfinished") if request.GET.get(NOT_ENDED) == "True" else found


def _in_status(request: HttpRequest, rows: QuerySet[Any], name: str) -> QuerySet[Any]:
    """The rows in this status, looked up unless another filter looks them up: the database would compare the two sets
    of ids one by one."""
    is_looked_up = request.GET.get("status") in STATUSES.keys() - {"succeeded"} or (
        request.GET.get(WAITS_FOR) and name != "waiting"
    )
    return rows.filter(in_status(name)) if is_looked_up else filtered(rows, {"status": name})


class RowFilter(admin.SimpleListFilter):
    """A filter by a row of a table. The chosen one is always listed, however many rows there are. If some are left out,
    the last line names that and leads to the list of the table, where they can be chosen.
    """

    model: type[Model]
    name = "name"
    """The way from a row to its name."""
    all_of_them = ""
    """The query by which the list of the table has every row."""
    keeps_unknown = False
    """The chosen row may be gone; its records are still found."""
    path: str
    """The way from the filtered model to the row."""
    left_out: dict[str, Any] | None = None

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        names = self.model._default_manager.order_by(self.name).values_list("pk", self.name)
        listed = list(names[: MOST_LISTED + 1])
        found = {str(pk): name for pk, name in listed[:MOST_LISTED]}
        if len(listed) > MOST_LISTED:
            self.left_out = self._line(request, model_admin, names.count())
        if (chosen := row_id(request.GET.get(str(self.parameter_name)))) and str(chosen) not in found:
            unknown = {str(chosen): f"{self.title} {chosen}"} if self.keeps_unknown else {}
            found |= unknown | {str(pk): name for pk, name in names.filter(pk=chosen)}
        return list(found.items())

    def _line(self, request: HttpRequest, model_admin: Any, number: int) -> dict[str, Any]:
        text, meta = f"{MOST_LISTED} of {number:,}", self.model._meta
        if not model_admin.admin_site.get_model_admin(self.model).has_view_permission(request):
            return {"selected": False, "query_string": "", "display": f"{text} are listed"}
        there = reverse(f"admin:{meta.app_label}_{meta.model_name}_changelist") + self.all_of_them
        text += f": choose on the list of {meta.verbose_name_plural}"
        return {"selected": False, "query_string": there, "display": text}

    def choices(self, changelist: Any) -> Any:
        yield from super().choices(changelist)
        if self.left_out:
            yield self.left_out

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if not self.value():
            return queryset
        chosen = row_id(self.value())
        return self.of(queryset, chosen) if chosen else queryset.none()

    def of(self, queryset: QuerySet[Any], chosen: int) -> QuerySet[Any]:
        return queryset.filter(**{self.path: chosen})


class ScheduleFilter(RowFilter):
    """A filter by schedule, of events or of a policy."""

    title, parameter_name = "schedule", "schedule"
    model, all_of_them, keeps_unknown = Schedule, "?of=both", True
    path = "origin_id"


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


class SubjectFilter(LinkedFilter):
    """The records of one subject, as the page of a source asks for them."""

    title, parameter_name = "subject", "subject"

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() and is_large():
            return with_subject(queryset, str(self.value()))
        return super().queryset(request, queryset)


class DeadLetterFilter(LinkedFilter):
    """A filter by a group of failed records with the same error."""

    title, parameter_name = "dead letter", "group"


def row_id(text: str | None) -> int | None:
    """The id in an address; None if no row can have it."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 19 else None
