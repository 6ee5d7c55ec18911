"""The list of events: what was delivered, when and with which answer, and what is still to be delivered."""

import json
from functools import cached_property
from typing import Any

from django.contrib import admin, messages
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from unfold.decorators import display
from unfold.views import ChangeList

from delivery.models import Event
from jobs.durations import span
from jobs.states import Status, WaitingFor
from operations.admin.base import ReadOnlyAdmin, moment
from operations.admin.event_filters import (
    AnswerFilter,
    EndedFilter,
    EventKindFilter,
    ScheduleFilter,
    StateFilter,
    TriggerFilter,
    chosen_state,
)
from operations.admin.operating import RecordActions
from operations.admin.tables import table
from operations.backlog.reasons import reasons
from operations.event_list import (
    ENDED,
    attempt_facts,
    attempts_of,
    endpoint_names,
    lag_of,
    launch_instants,
    shown_payload,
    state_of,
    with_answers,
    with_event_id,
)
from operations.web.permissions import may_look
from schedules.models import Trigger

MOST_LISTED = 10_000
"""Events that one can page through. To count more of them takes seconds; filters find what lies further back."""

SHOWN_LENGTH = 80
"""Characters of an error in the list."""

ANSWER_STYLE = "min-width: 8rem; overflow-wrap: anywhere"
"""What receivers say may be one long word, and breaks where it must: the columns beside it do not."""

STATE_LABELS = {
    "delivered": "success", "failed": "danger", "running": "info", "ready": "info", "waiting": "warning",
    "cancelled": "",
}  # fmt: skip

ATTEMPT_COLUMNS = ("attempt", "started (UTC)", "took", "outcome", "response", "answered in", "error")


def url_of_batch(trigger: Trigger) -> str:
    """The list of the events of a trigger."""
    query: dict[str, str | int] = {
        ScheduleFilter.parameter_name: trigger.schedule_id,
        TriggerFilter.parameter_name: trigger.trigger_at.isoformat(),
    }
    return f"{reverse('admin:delivery_event_changelist')}?{urlencode(query)}"


def url_of(record_id: int) -> str:
    """The page of an event."""
    return reverse("admin:delivery_event_change", args=[record_id])


class FirstPages(Paginator):  # type: ignore[type-arg]
    """Pages of the first MOST_LISTED rows; what follows is not counted."""

    @cached_property
    def count(self) -> int:
        rows: QuerySet[Event] = self.object_list  # type: ignore[assignment]
        return rows.order_by().values("pk")[:MOST_LISTED].count()


class EventList(ChangeList):
    """A page of events, with the instants at which they were to start: one question for all of them."""

    result_list: Any

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        events: list[Any] = list(self.result_list)
        launches = launch_instants(events)
        for event in events:
            event.launch = launches[event.pk]
        self.result_list = events


@admin.register(Event)
class EventAdmin(RecordActions, ReadOnlyAdmin):
    """Events, the latest first. Its page tells each attempt."""

    called = "event"
    list_display = (
        "event_id", "state", "schedule_name", "launch_and_lag", "delivered_at", "attempt", "answer",
    )  # fmt: skip
    list_filter = (StateFilter, AnswerFilter, EndedFilter, EventKindFilter, ScheduleFilter, TriggerFilter)
    search_fields = ("subject",)
    search_help_text = "An event id"
    sortable_by = ()
    paginator = FirstPages
    show_full_result_count = False
    list_per_page = 50
    fieldsets = (
        (
            None,
            {"fields": ("event_id", "state", "why", "its_last_error", "schedule_name", "its_endpoint", "its_record")},
        ),
        ("When (UTC)", {"fields": ("its_trigger", "launch", "its_run_after", "delivered_at", "lag")}),
        ("Attempts", {"fields": ("its_attempts",)}),
        ("What is delivered", {"fields": ("its_body",)}),
    )

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """An event is a record."""
        return may_look(request)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return EventList

    def get_queryset(self, request: HttpRequest) -> QuerySet[Event]:
        return with_answers(Event.objects.all())

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        """As an index yields it: what has ended by when, a schedule's by trigger, else what came last first."""
        if chosen_state(request) in ENDED or request.GET.get(EndedFilter.parameter_name) in EndedFilter.spans:
            return ("-finished_at", "-pk")
        return ("-trigger_at", "-pk") if request.GET.get(ScheduleFilter.parameter_name) else ("-pk",)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Event], search_term: str
    ) -> tuple[QuerySet[Event], bool]:
        """By the whole id of an event: a part of one would be looked for in every row."""
        term = search_term.strip()
        return (with_event_id(queryset, term) if term else queryset), False

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        answer: HttpResponse = super().changelist_view(request, extra_context)
        found = getattr(answer, "context_data", None) or {}
        if (listed := found.get("cl")) and listed.result_count == MOST_LISTED:
            said = f"The first {MOST_LISTED:,} are listed. There may be more: filters find what lies further back."
            self.message_user(request, said, messages.INFO)
        return answer

    @admin.display(description="event")
    def event_id(self, event: Event) -> SafeString:
        return _in_one_line(event.payload.get("event_id") or event.subject, "text-xs")

    @display(description="state", label=STATE_LABELS)
    def state(self, event: Event) -> str:
        ended = state_of(event)
        return str(ended.label if ended in ENDED else Status(event.status).label)

    @admin.display(description="schedule")
    def schedule_name(self, event: Event) -> SafeString | str:
        name = str(event.payload.get("schedule") or "")
        if not event.origin_id:
            return name
        url = reverse("admin:schedules_schedule_change", args=[event.origin_id])
        return format_html('<a href="{}" class="text-link">{}</a>', url, name or f"schedule {event.origin_id}")

    @admin.display(description="launch (UTC)")
    def launch(self, event: Event) -> SafeString:
        return _in_one_line(moment(_launch(event)) or "-")

    @admin.display(description="launch (UTC), lag")
    def launch_and_lag(self, event: Event) -> SafeString:
        return format_html("{}<br>{}", self.launch(event), self.lag(event))

    @admin.display(description="delivered (UTC)")
    def delivered_at(self, event: Event) -> SafeString:
        return _in_one_line(moment(event.finished_at) if event.status == Status.SUCCEEDED else "-")

    @admin.display(description="lag")
    def lag(self, event: Event) -> SafeString:
        seconds = lag_of(event, _launch(event))
        return _in_one_line("-" if seconds is None else span(max(0.0, seconds)))

    @admin.display(description="response")
    def answer(self, event: Any) -> SafeString:
        """The code and after how long it came, or how long was waited for one; below it the error, whole as a hint."""
        code, seconds, said = event.answer_status, event.answer_seconds, _last_error(event)
        told = str(code or "-") if seconds is None else f"{code or 'none'} in {span(seconds)}"
        short = said if len(said) <= SHOWN_LENGTH else f"{said[: SHOWN_LENGTH - 1]}…"
        return format_html('<div style="{}" title="{}">{}<br>{}</div>', ANSWER_STYLE, said, told, short)

    @admin.display(description="last error")
    def its_last_error(self, event: Event) -> str:
        return _last_error(event) or "-"

    @admin.display(description="why it is not delivered now")
    def why(self, event: Event) -> SafeString | str:
        return format_html_join("", "<p>{}</p>", ((said,) for said in reasons(event, timezone.now()))) or "-"

    @admin.display(description="endpoint")
    def its_endpoint(self, event: Event) -> SafeString | str:
        pk = event.payload.get("endpoint")
        if not isinstance(pk, int):
            return shown_payload(event).get("url") or "-"
        page, name = reverse("admin:delivery_endpoint_change", args=[pk]), endpoint_names([event]).get(pk)
        return format_html('<a href="{}" class="text-link">{}</a>', page, name or f"endpoint {pk}")

    @admin.display(description="record")
    def its_record(self, event: Event) -> SafeString:
        url = reverse("admin:jobs_backlogrecord_change", args=[event.pk])
        return format_html('<a href="{}" class="text-link">record {} on the backlog</a>', url, event.pk)

    @admin.display(description="trigger")
    def its_trigger(self, event: Event) -> str:
        return moment(event.trigger_at) or "by hand"

    @admin.display(description="run after")
    def its_run_after(self, event: Event) -> str:
        if state_of(event) in ENDED:
            return "-"
        waits = f" (waiting for {WaitingFor(event.waiting_for).label})" if event.waiting_for else ""
        return f"{moment(event.run_after)}{waits}"

    @admin.display(description="attempts")
    def its_attempts(self, event: Event) -> SafeString | str:
        rows = (
            (
                facts["number"],
                moment(facts["started_at"]),
                span((facts["ended_at"] - facts["started_at"]).total_seconds()),
                facts["outcome"],
                facts["code"] or "-",
                span(facts["seconds"]) or "-",
                format_html('<div style="{}">{}</div>', ANSWER_STYLE, facts["error"]),
            )
            for facts in map(attempt_facts, attempts_of(event))
        )
        return table(ATTEMPT_COLUMNS, rows, empty="It was not tried yet.")

    @admin.display(description="payload")
    def its_body(self, event: Event) -> SafeString:
        written = json.dumps(event.payload.get("body"), indent=2, ensure_ascii=False)
        return format_html('<pre style="white-space: pre-wrap; overflow-wrap: anywhere">{}</pre>', written)


def _last_error(event: Event) -> str:
    """Empty for what was delivered: what failed before that is told by its attempts."""
    return "" if event.status == Status.SUCCEEDED else event.last_error


def _in_one_line(text: object, style: str = "") -> SafeString:
    return format_html('<span class="whitespace-nowrap {}">{}</span>', style, text)


def _launch(event: Any) -> Any:
    """As the list has found it out for all its rows, or for this one."""
    if not hasattr(event, "launch"):
        event.launch = launch_instants([event])[event.pk]
    return event.launch
