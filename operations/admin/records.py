"""What machines write: backlog records with their attempts, and workers."""

from datetime import timedelta
from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from unfold.admin import TabularInline
from unfold.decorators import display

from jobs import conf
from jobs.models import AttemptEntry, BacklogRecord, PausedQueue, Worker
from jobs.states import AttemptOutcome, Status
from operations.admin.base import ReadOnlyAdmin, ReadOnlyRows, ago, moment
from operations.admin.dead_letters import DeadLetterFilter, DeadLetterPage
from operations.admin.decisions import log_url_of_record
from operations.admin.filters import KindFilter, QueueFilter
from operations.admin.operating import RecordActions
from operations.admin.queues import QueueIsPausedFilter
from operations.backlog.facts import took
from operations.backlog.reasons import reasons
from operations.printable import facts_in_words

STATUS_LABELS = {
    "waiting": "warning",
    "ready": "info",
    "running": "info",
    "succeeded": "success",
    "failed": "danger",
    "cancelled": "",
}
OUTCOME_LABELS = {"succeeded": "success", "failed": "danger", "rescued": "danger", "unavailable": "warning"}


def _tab(*fields: str) -> dict[str, Any]:
    return {"fields": fields, "classes": ["tab"]}


class AttemptColumns:
    """How an attempt is told, in the list of all and on its record's page."""

    @display(description="outcome", label=OUTCOME_LABELS, ordering="outcome")
    def shown_outcome(self, attempt: AttemptEntry) -> str:
        return str(AttemptOutcome(attempt.outcome).label)

    @admin.display(description="started (UTC)", ordering="started_at")
    def shown_started_at(self, attempt: AttemptEntry) -> str:
        return moment(attempt.started_at)

    @admin.display(description="took")
    def took(self, attempt: AttemptEntry) -> str:
        return took(attempt)

    @admin.display(description="found")
    def found(self, attempt: AttemptEntry) -> str:
        return facts_in_words(attempt.facts)


class AttemptInline(AttemptColumns, ReadOnlyRows, TabularInline):
    """The attempts of a record, the latest first."""

    model = AttemptEntry
    ordering = ("-number",)
    per_page = 50
    hide_title = True
    fields = readonly_fields = (
        "number", "queue", "shown_outcome", "shown_started_at", "took", "worker_id", "found", "error",
    )  # fmt: skip
    verbose_name_plural = "attempts"


@admin.register(BacklogRecord)
class BacklogRecordAdmin(DeadLetterPage, RecordActions, ReadOnlyAdmin):
    """The backlog. The change page tells a record's attempts."""

    list_display = (
        "__str__", "shown_status", "queue", "waiting_for", "shown_run_after", "priority", "rank_day", "failures",
        "short_error",
    )  # fmt: skip
    list_filter = ("status", QueueFilter, QueueIsPausedFilter, KindFilter, "waiting_for", "origin", DeadLetterFilter)
    search_fields = ("subject", "payload__title", "last_error")
    list_select_related = ("origin",)
    ordering = ("-id",)
    show_full_result_count = False
    fieldsets = (
        (
            None,
            {"fields": ("kind", "subject", "status", "waiting_for", "queue", "run_after", "why", "last_error", "log")},
        ),
        ("Its place", _tab("priority", "due_day", "rank_day", "tried_at", "expected_seconds", "lane")),
        ("Failures", _tab("failures", "first_failure_at", "last_failure_at", "retry_policy")),
        ("Where it came from", _tab("came_from", "trigger_at", "inserted_at", "closes_at", "finished_at", "payload")),
        (
            "Lease",
            _tab("attempt", "started_at", "leased_by", "lease_expires_at", "cancel_requested_at", "exclusive_key"),
        ),
    )
    inlines = (AttemptInline,)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """The list, with a notice when queues are paused: what is ready there does not start."""
        if request.method == "GET" and (paused := list(PausedQueue.objects.order_by("name"))):
            told = "; ".join(f"{queue.name} ({queue.reason})" if queue.reason else queue.name for queue in paused)
            self.message_user(request, f"Nothing is claimed from paused queues: {told}.", messages.WARNING)
        return super().changelist_view(request, extra_context)  # type: ignore[no-any-return]

    @admin.display(description="why it does not run now")
    def why(self, record: BacklogRecord) -> str:
        return format_html_join("", "<p>{}</p>", ((reason,) for reason in reasons(record, timezone.now()))) or "-"

    @admin.display(description="its log")
    def log(self, record: BacklogRecord) -> str:
        return format_html('<a href="{}" class="text-link">what was done to it</a>', log_url_of_record(record))

    @display(description="origin")
    def came_from(self, record: BacklogRecord) -> str:
        """Each origin is a schedule."""
        if record.origin is None:
            return "-"
        url = reverse("admin:schedules_schedule_change", args=[record.origin_id])
        return format_html('<a href="{}" class="text-link">{}</a>', url, record.origin)

    @display(description="status", label=STATUS_LABELS, ordering="status")
    def shown_status(self, record: BacklogRecord) -> str:
        return str(Status(record.status).label)

    @admin.display(description="run after (UTC)", ordering="run_after")
    def shown_run_after(self, record: BacklogRecord) -> str:
        return moment(record.run_after)

    @admin.display(description="last error")
    def short_error(self, record: BacklogRecord) -> str:
        return record.last_error if len(record.last_error) <= 80 else f"{record.last_error[:79]}…"


@admin.register(AttemptEntry)
class AttemptEntryAdmin(AttemptColumns, ReadOnlyAdmin):
    """All attempts, those of the newest record first: the key's order, since one by time would need an index."""

    list_display = (
        "__str__", "queue", "shown_outcome", "shown_started_at", "took", "worker_id", "found", "short_error",
    )  # fmt: skip
    list_filter = ("outcome", QueueFilter)
    search_fields = ("=record__id", "error")
    show_full_result_count = False

    def get_queryset(self, request: HttpRequest) -> QuerySet[AttemptEntry]:
        return super().get_queryset(request).select_related(None)  # type: ignore[no-any-return]

    def get_object(self, request: HttpRequest, object_id: str, from_field: Any = None) -> AttemptEntry | None:
        """By record and number, which are indexed; the id of the view is put together from them."""
        record, _, number = object_id.partition("-")
        if not (record.isdecimal() and number.isdecimal()):
            return None
        return AttemptEntry.objects.filter(record_id=int(record), number=int(number)).first()

    @admin.display(description="error")
    def short_error(self, attempt: AttemptEntry) -> str:
        return attempt.error if len(attempt.error) <= 80 else f"{attempt.error[:79]}…"


@admin.register(Worker)
class WorkerAdmin(ReadOnlyAdmin):
    """Who serves which queues, and whether they are alive."""

    list_display = ("__str__", "life", "shown_queues", "shown_started_at", "heartbeat", "shown_stopped_at")
    list_filter = ("hostname", ("stopped_at", admin.EmptyFieldListFilter))
    ordering = ("-id",)

    @display(description="life", label={"alive": "success", "silent": "danger", "stopped": ""})
    def life(self, worker: Worker) -> str:
        if worker.stopped_at:
            return "stopped"
        return "alive" if worker.heartbeat_at > timezone.now() - timedelta(seconds=conf.lease_seconds()) else "silent"

    @admin.display(description="queues")
    def shown_queues(self, worker: Worker) -> str:
        return ", ".join(f"{name} {concurrency}" for name, concurrency in worker.queues.items())

    @admin.display(description="started (UTC)", ordering="started_at")
    def shown_started_at(self, worker: Worker) -> str:
        return moment(worker.started_at)

    @admin.display(description="heartbeat", ordering="heartbeat_at")
    def heartbeat(self, worker: Worker) -> str:
        return ago(worker.heartbeat_at)

    @admin.display(description="stopped (UTC)", ordering="stopped_at")
    def shown_stopped_at(self, worker: Worker) -> str:
        return moment(worker.stopped_at)
