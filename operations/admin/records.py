"""Rows that machines write: backlog records with their attempts, events among them."""

import json
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.contrib.admin.views.main import PAGE_VAR
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from unfold.admin import TabularInline

from declarations.surfaces.admin.base import (
    MOST_LISTED,
    CompletingAdmin,
    OfManyRows,
    ReadOnlyAdmin,
    ReadOnlyRows,
    anchor,
    column,
    link,
    moment,
    shortened,
)
from declarations.surfaces.printable import facts_as_text
from external.durations import span
from jobs.clock import database_clock
from jobs.models import BacklogRecord, PausedQueue
from jobs.states import AttemptOutcome, Status
from operations.admin.decisions import log_url_of_record
from operations.admin.filters import (
    AnswerFilter,
    DeadLetterFilter,
    EndedFilter,
    EventsFilter,
    KindFilter,
    PausedFilter,
    QueueFilter,
    ScheduleFilter,
    StatusOfRecordFilter,
    SubjectFilter,
    TriggerFilter,
    WaitingForFilter,
    is_undelivered,
)
from operations.admin.large_pages import RecordPage, RecordPaginator
from operations.admin.record_verbs import DeadLetterPage, RecordActions
from operations.backlog.facts import deliveries, is_event, shown_payload, standing_error, took
from operations.backlog.reasons import explain
from operations.backlog.search import searched
from operations.backlog.selection import EVENT_ID, LATEST, filtered, with_answers, with_subject
from operations.backlog.walking import is_large
from operations.models import AttemptEntry
from schedules.models import Trigger

STATUS_LABELS = {
    "waiting": "warning", "ready": "info", "running": "info", "succeeded": "success", "failed": "danger",
    "cancelled": "",
}  # fmt: skip
OUTCOME_LABELS = {"succeeded": "success", "failed": "danger", "rescued": "danger", "unavailable": "warning"}
ENDED = {"succeeded", "failed", "cancelled"}
HELP_TEXTS = {"rank_day": "Day by which it is ranked, at first the day on which it is due; empty ranks first."}
"""Replaces a text of the model that names a field: to change it there would take a migration."""
ABOUT_EVENTS = ("events", "answer", "trigger_at")
"""Filters of a list that shows events as such."""

ANSWER_STYLE = "min-width: 8rem; overflow-wrap: anywhere"
"""An answer of a receiver may be one long word, and breaks where it must: the columns next to it do not."""


def _tab(*fields: str) -> dict[str, Any]:
    return {"fields": fields, "classes": ["tab"]}


class AttemptInline(ReadOnlyRows, TabularInline):
    """The attempts of a record, the latest first."""

    model = AttemptEntry
    ordering = ("-number",)
    per_page = 50
    hide_title = True
    fields = readonly_fields = (
        "number", "queue", "shown_outcome", "started_at", "took", "worker_id", "found", "shown_error",
    )  # fmt: skip
    verbose_name_plural = "attempts"

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Allow users who may view a record to view its attempts."""
        return True

    shown_outcome = column(
        "outcome", "outcome", lambda outcome: str(AttemptOutcome(outcome).label), ordered=False, label=OUTCOME_LABELS
    )
    took = column(took, "took")
    found = column(lambda attempt: facts_as_text(attempt.facts), "found")
    shown_error = column("error", "error", lambda error: format_html('<div style="{}">{}</div>', ANSWER_STYLE, error))


def _why(record: BacklogRecord) -> str:
    reasons = format_html_join("", "<p>{}</p>", ((each,) for each in explain(record, database_clock()).reasons))
    if record.status not in (Status.READY, Status.WAITING):
        return reasons or "-"
    later = '{}<div hx-get="{}" hx-trigger="load"></div>'  # when it is expected to start, for backups
    return format_html(later, reasons, reverse("expected-of-record", args=[record.pk]))


def _came_from(record: BacklogRecord) -> str:
    """The schedule of a record, which is its origin; if the schedule is gone, the name that its events carry."""
    if record.origin is None:
        return str(record.payload.get("schedule") or "-")
    return link("schedules_schedule_change", record.origin_id, record.origin)


def _sent(record: BacklogRecord) -> SafeString:
    written = json.dumps(shown_payload(record), indent=2, ensure_ascii=False)
    return format_html('<pre style="white-space: pre-wrap; overflow-wrap: anywhere">{}</pre>', written)


@admin.register(BacklogRecord)
class BacklogRecordAdmin(DeadLetterPage, RecordActions, CompletingAdmin, OfManyRows, ReadOnlyAdmin):
    """The backlog. The page of a record lists its attempts; that of an event also shows its payload and the answer."""

    when_empty = (
        "Each unit of work is listed here while it waits, is ready or runs, and for a while after it has ended."
    )
    paginator = RecordPaginator
    adds = "delivery"
    list_display = (
        "__str__", "shown_status", "queue", "waiting_for", "due", "priority", "rank_day", "failures",
        "short_error",
    )  # fmt: skip
    event_columns = ("subject_in_one_line", "shown_status", "came_from", "launch_and_lag", "ended", "attempt", "answer")
    list_filter = (
        StatusOfRecordFilter, QueueFilter, PausedFilter, KindFilter, ("waiting_for", WaitingForFilter), EventsFilter,
        AnswerFilter, ("finished_at", EndedFilter), ScheduleFilter, TriggerFilter, SubjectFilter,
        DeadLetterFilter,
    )  # fmt: skip
    search_fields = ("subject", "payload__title", "last_error")
    search_help_text = (
        "Words of title, subject or last error, among records that have not ended, that gave up, or the latest "
        f"{LATEST:,}. For records of any age: the name of a source, the whole subject of a backup, or the whole "
        "id of an event whose schedule is still there"
    )
    list_select_related = ("origin",)
    inlines = (AttemptInline,)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        about = ("kind", "subject", "status", "waiting_for", "queue", "run_after", "why", "shown_error", "log")
        delivery = [("Delivery", {"fields": ("goes_to", "launch_and_lag", "ended", "answer")})]
        return [
            (None, {"fields": about}),
            *(delivery if obj and is_event(obj) else []),
            ("Its place", _tab("priority", "due_day", "rank_day", "tried_at", "expected_seconds", "lane")),
            ("Failures", _tab("failures", "first_failure_at", "last_failure_at", "retry_policy")),
            ("Origin", _tab("came_from", "trigger_at", "inserted_at", "closes_at", "finished_at", "sent")),
            (
                "Lease",
                _tab("attempt", "started_at", "leased_by", "lease_expires_at", "cancel_requested_at", "exclusive_key"),
            ),
        ]

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        return super().get_form(request, obj, change, **({"help_texts": HELP_TEXTS} | kwargs))

    def get_queryset(self, request: HttpRequest) -> QuerySet[BacklogRecord]:
        return with_answers(super().get_queryset(request))

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[RecordPage]:
        return RecordPage

    def get_paginator(self, request: HttpRequest, *args: Any, **kwargs: Any) -> RecordPaginator:
        """Pages of all records; of events by an answer that its attempts have, only the next ones."""
        pages: RecordPaginator = super().get_paginator(request, *args, **kwargs)
        if is_undelivered(request):
            pages.look_ahead(request.GET.get(PAGE_VAR))
        return pages

    def complete(self, rows: list[Any]) -> None:
        """Give each event its delivery."""
        found = deliveries(rows)
        for record in rows:
            record.delivery = found.get(record.pk, {})

    def get_list_display(self, request: HttpRequest) -> tuple[str, ...]:
        return self.event_columns if any(map(request.GET.get, ABOUT_EVENTS)) else self.list_display

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        """The order that an index yields: ended records by their end, those of a schedule by trigger, all others newest
        first.
        """
        if request.GET.get("status") in ENDED or "finished_at__gte" in request.GET:
            return ("-finished_at", "-pk")
        return ("-trigger_at", "-pk") if request.GET.get("schedule") else ("-pk",)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[BacklogRecord], search_term: str
    ) -> tuple[QuerySet[BacklogRecord], bool]:
        """Find an event id by an index; any other text among unfinished records, failed ones and the latest finished
        ones.
        """
        if not (term := search_term.strip()):
            return queryset, False
        if EVENT_ID.fullmatch(term):
            return (with_subject(queryset, term) if is_large() else filtered(queryset, {"subject": term})), False
        return queryset.filter(pk__in=searched(queryset, term, MOST_LISTED)), False

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """The list, with a notice of paused queues, where nothing starts."""
        if request.method == "GET" and (paused := list(PausedQueue.objects.order_by("name"))):
            names = "; ".join(f"{queue.name} ({queue.reason})" if queue.reason else queue.name for queue in paused)
            self.message_user(request, f"Nothing is claimed from paused queues: {names}.", messages.WARNING)
        return super().changelist_view(request, extra_context)

    why = column(_why, "why it does not run now")
    log = column(lambda record: anchor(log_url_of_record(record), "its log"), "its log")
    came_from = column(_came_from, "schedule")
    shown_status = column("status", "status", lambda status: str(Status(status).label), label=STATUS_LABELS)
    subject_in_one_line = column(
        "subject", "event", lambda subject: format_html('<span class="whitespace-nowrap text-xs">{}</span>', subject),
        ordered=False,
    )  # fmt: skip
    due = column("run_after", "run after (UTC)", moment)
    ended = column("finished_at", "ended (UTC)", moment, empty="-")
    short_error = column(lambda record: shortened(standing_error(record)), "last error")
    shown_error = column(standing_error, "last error")
    sent = column(_sent, "payload")

    @admin.display(description="launch (UTC), lag")
    def launch_and_lag(self, record: BacklogRecord) -> SafeString:
        delivery = self.added(record)
        lag = "-" if delivery.get("lag") is None else span(max(0.0, delivery["lag"]))
        launch = moment(delivery.get("launch_at")) or "-"
        return format_html("{}<br>{}", launch, lag)

    @admin.display(description="response")
    def answer(self, record: BacklogRecord) -> SafeString:
        """The code and after how long it came, or how long was waited for one; below it the error, whole as a hint."""
        code, seconds = (self.added(record).get(name) for name in ("code", "seconds"))
        words = str(code or "-") if seconds is None else f"{code or 'none'} in {span(seconds)}"
        error = standing_error(record)
        page = '<div style="{}" title="{}">{}<br>{}</div>'
        return format_html(page, ANSWER_STYLE, error, words, shortened(error))

    @admin.display(description="endpoint")
    def goes_to(self, record: BacklogRecord) -> SafeString | str:
        delivery = self.added(record)
        if (pk := delivery.get("endpoint")) is None:
            return shown_payload(record).get("url") or "-"
        return link("delivery_endpoint_change", pk, delivery["endpoint_name"] or f"endpoint {pk}")


def url_of_batch(trigger: Trigger) -> str:
    """The list of the records of a trigger."""
    query = {"schedule": trigger.schedule_id, "trigger_at": trigger.trigger_at.isoformat()}
    return f"{reverse('admin:jobs_backlogrecord_changelist')}?{urlencode(query)}"
