"""What machines write: backlog records with their attempts, and workers."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import get_token
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from unfold.admin import TabularInline
from unfold.decorators import action, display

from jobs import backlog, conf
from jobs.admin.base import ReadOnlyAdmin, ReadOnlyRows, ago, moment, span
from jobs.admin.decisions import log_url_of_record
from jobs.admin.filters import KindFilter, QueueFilter
from jobs.admin.queues import QueueIsPausedFilter, may_operate
from jobs.models import AttemptEntry, BacklogRecord, PausedQueue, Worker
from jobs.states import AttemptOutcome, Status

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
        return span((attempt.ended_at - attempt.started_at).total_seconds())


class AttemptInline(AttemptColumns, ReadOnlyRows, TabularInline):
    """The attempts of a record, the latest first."""

    model = AttemptEntry
    ordering = ("-number",)
    per_page = 50
    hide_title = True
    fields = readonly_fields = ("number", "queue", "shown_outcome", "shown_started_at", "took", "worker_id", "error")
    verbose_name_plural = "attempts"


SHOWN_TO_CONFIRM = 10
BUTTON = "unfold/components/button.html"

RETRY_MEANS = (
    "What waits is ready at once. What failed or was cancelled starts a fresh series, unless another record of its "
    "subject is on the backlog. What runs or succeeded is left alone."
)
CANCEL_MEANS = (
    "What waits or is ready ends at once. What runs is told to stop, and ends as cancelled unless it succeeds first. "
    "Its trigger does not emit it again."
)


class RecordActions:
    """Retry and cancel, from the list and from a record's page: first a question, then the verb, in batches."""

    actions = ("retry_now", "cancel")
    actions_detail = ("retry_this_now", "cancel_this")

    def has_operate_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody edits a record, so the permission to change one is that of retrying and cancelling it."""
        return may_operate(request)

    @admin.action(description="Retry now", permissions=["operate"])
    def retry_now(self, request: HttpRequest, records: QuerySet[BacklogRecord]) -> HttpResponse | None:
        return self._ask_or_do(request, records, "Retry now", RETRY_MEANS, backlog.retry)

    @admin.action(description="Cancel", permissions=["operate"])
    def cancel(self, request: HttpRequest, records: QuerySet[BacklogRecord]) -> HttpResponse | None:
        return self._ask_or_do(request, records, "Cancel", CANCEL_MEANS, backlog.cancel)

    @action(description="Retry now", url_path="retry", permissions=["operate"], icon="replay")
    def retry_this_now(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._ask_or_do_for_one(request, object_id, "Retry now", RETRY_MEANS, backlog.retry)

    @action(description="Cancel", url_path="cancel", permissions=["operate"], icon="cancel")
    def cancel_this(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._ask_or_do_for_one(request, object_id, "Cancel", CANCEL_MEANS, backlog.cancel)

    def _ask_or_do_for_one(
        self, request: HttpRequest, object_id: str, name: str, means: str, verb: Callable[[Iterable[int]], Any]
    ) -> HttpResponse:
        ids = [int(object_id)] if object_id.isdecimal() and len(object_id) < 19 else []
        records = BacklogRecord.objects.filter(pk__in=ids)
        if not records:
            self.message_user(request, f"There is no record {object_id}.", messages.WARNING)  # type: ignore[attr-defined]
            return redirect("admin:jobs_backlogrecord_changelist")
        done = redirect("admin:jobs_backlogrecord_change", object_id)
        return self._ask_or_do(request, records, name, means, verb) or done

    def _ask_or_do(
        self,
        request: HttpRequest,
        records: QuerySet[BacklogRecord],
        name: str,
        means: str,
        verb: Callable[[Iterable[int]], Any],
    ) -> HttpResponse | None:
        if request.method != "POST" or request.POST.get("confirmed") != "yes":
            return self._question(request, records, name, means)
        found: Counter[str] = Counter()
        for batch in backlog.in_batches(records.values_list("pk", flat=True)):
            found.update({part: len(ids) for part, ids in asdict(verb(batch)).items()})
        told = ", ".join(f"{count:,} {RESULTS.get(part, part)}" for part, count in found.items() if count)
        changed = any(found[part] for part in ("ready", "cancelled", "stopping"))
        level = messages.SUCCESS if changed else messages.WARNING
        self.message_user(request, f"{name}: {told or 'there was nothing'}.", level)  # type: ignore[attr-defined]
        return None

    def _question(
        self, request: HttpRequest, records: QuerySet[BacklogRecord], name: str, means: str
    ) -> TemplateResponse:
        counts = Counter(records.order_by().values_list("status", flat=True).iterator(10_000))
        told = ", ".join(f"{count:,} {Status(status).label}" for status, count in sorted(counts.items()))
        shown = list(records[:SHOWN_TO_CONFIRM])
        more = counts.total() - len(shown)
        kept = [(ACTION_CHECKBOX_NAME, pk) for pk in request.POST.getlist(ACTION_CHECKBOX_NAME)]
        kept += [(field, request.POST[field]) for field in ("action", "select_across") if field in request.POST]
        content = format_html(
            '<form method="post" class="flex flex-col gap-4">'
            '<input type="hidden" name="csrfmiddlewaretoken" value="{}">'
            '<input type="hidden" name="confirmed" value="yes">{}<p class="font-semibold">{}</p><p>{}</p>'
            '<ul class="list-disc pl-6">{}{}</ul><div class="flex gap-3">{}{}</div></form>',
            get_token(request),
            format_html_join("", '<input type="hidden" name="{}" value="{}">', kept),
            f"{name}: {counts.total():,} record{'s' if counts.total() != 1 else ''} ({told})?",
            means,
            format_html_join("", "<li>{}</li>", ((record,) for record in shown)),
            format_html("<li>and {} more</li>", more) if more else "",
            button("No, take me back", href=request.get_full_path() if request.method == "POST" else "../change/"),
            button(f"Yes, {name[0].lower()}{name[1:]}", submit=1, variant="danger" if name == "Cancel" else "primary"),
        )
        context = admin.site.each_context(request) | {"title": f"{name}?", "content": content}
        return TemplateResponse(request, "admin/base_site.html", context)


RESULTS = {
    "stopping": "told to stop", "finished": "had ended before", "missing": "gone",
    "superseded": "left to another record of the same subject",
}  # fmt: skip


def button(words: str, **attributes: Any) -> SafeString:
    """A button in the admin's style: `href`, or `submit=1`."""
    return render_to_string(BUTTON, {"children": words, "variant": "default", **attributes})


@admin.register(BacklogRecord)
class BacklogRecordAdmin(RecordActions, ReadOnlyAdmin):
    """The backlog. The change page tells a record's attempts."""

    list_display = (
        "__str__", "shown_status", "queue", "waiting_for", "shown_run_after", "priority", "rank_day", "failures",
        "short_error",
    )  # fmt: skip
    list_filter = ("status", QueueFilter, QueueIsPausedFilter, KindFilter, "waiting_for", "schedule")
    search_fields = ("subject", "payload__title", "last_error")
    list_select_related = ("schedule",)
    ordering = ("-id",)
    show_full_result_count = False
    fieldsets = (
        (None, {"fields": ("kind", "subject", "status", "waiting_for", "queue", "run_after", "last_error", "log")}),
        ("Its place", _tab("priority", "due_day", "rank_day", "tried_at", "expected_seconds", "lane")),
        ("Failures", _tab("failures", "first_failure_at", "last_failure_at", "retry_policy")),
        ("Where it came from", _tab("schedule", "trigger_at", "inserted_at", "closes_at", "finished_at", "payload")),
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

    @admin.display(description="its log")
    def log(self, record: BacklogRecord) -> str:
        return format_html('<a href="{}" class="text-link">what was done to it</a>', log_url_of_record(record))

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
    """All attempts, newest first."""

    list_display = ("__str__", "queue", "shown_outcome", "shown_started_at", "took", "worker_id", "short_error")
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
