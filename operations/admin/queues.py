"""All queues on one page, with a button to pause or resume each; who serves them; and the sweeps that refill them."""

from dataclasses import replace
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from unfold.widgets import INPUT_CLASSES

from declarations.surfaces import pausing
from declarations.surfaces.admin.base import ReadOnlyAdmin, column, moment
from declarations.surfaces.admin.confirmations import button, posting
from declarations.surfaces.admin.tables import table
from declarations.surfaces.web.permissions import may_look, may_operate
from external.durations import span
from jobs import backlog
from jobs.models import PausedQueue, Sweep, Worker
from operations.backlog.attention import attention
from operations.backlog.summary import LYING, BacklogSummary, QueueSummary, summary

CLASSES = " ".join(INPUT_CLASSES)
COLUMNS = ("queue", "waiting", "ready", "running", "oldest ready", "served by", "paused (UTC)", "")


@admin.register(PausedQueue)
class PausedQueueAdmin(ReadOnlyAdmin):
    """The page of queues. A row of this model is a paused queue; the page shows all queues."""

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Allow users who may view records to view their queues."""
        return may_look(request)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """GET: the page. POST of `name`, `verb` (pause, resume; of everything: hold, release) and `reason`: does it and
        leads back."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        if request.method == "POST":
            return self._change(request)
        context = admin.site.each_context(request) | {
            "title": "Queues",
            "opts": self.model._meta,
            "cl": self.get_changelist_instance(request),
            "content": _page(request, summary(ended=False)),
        }
        return TemplateResponse(request, "admin/base_site.html", context)

    def _change(self, request: HttpRequest) -> HttpResponse:
        if not may_operate(request):
            raise PermissionDenied
        name, by = request.POST.get("name", ""), str(request.user)
        try:
            match request.POST.get("verb"):
                case "hold":
                    done = (
                        "Everything is on hold"
                        if backlog.hold(by=by, **pausing.asked(request.POST))
                        else "It already was"
                    )
                case "release":
                    done = "Everything is resumed" if backlog.release(by=by) else "Nothing was on hold"
                case "resume":
                    done = f"Queue {name} {'is resumed' if backlog.resume_queue(name) else 'was not paused'}"
                case _:
                    done = _paused(name, backlog.pause_queue(name, **pausing.asked(request.POST)))
        except ValueError as error:
            self.message_user(request, f"{error}", messages.ERROR)
        else:
            self.message_user(request, f"{done}.")
        return HttpResponseRedirect(request.path)


def _page(request: HttpRequest, found: BacklogSummary) -> SafeString:
    rows = (
        (
            queue.name if queue.in_settings else f"{queue.name} (not in the settings)",
            *map(queue.describe, LYING),
            queue.served_by,
            _pause_of(queue),
            _form(request, queue) if may_operate(request) else "",
        )
        for queue in found.queues
    )
    lines = format_html_join("", "<li>{}</li>", ((line,) for line in attention(replace(found, held=""))))
    hold = _hold_form(request) if may_operate(request) and not found.held else ""
    content = table(COLUMNS, rows, empty="")
    return format_html('<div class="flex flex-col gap-4">{}<ul>{}</ul>{}</div>', content, lines, hold)


def _pause_of(queue: QueueSummary) -> str:
    if queue.paused_at is None:
        return ""
    end = f" until {moment(queue.paused_until)}" if queue.paused_until else ""
    return f"since {moment(queue.paused_at)}{end}{f': {queue.paused_reason}' if queue.paused_reason else ''}"


def _paused(name: str, changed: bool) -> str:
    return f"Queue {name} {'is paused' if changed else 'was paused before'}"


HOLD_MEANS = (
    "Holds every queue at once: no backup, retention, check, drill, restore or delivery starts, and running "
    "records are stopped, without counting a failure. They start again after the release, by a user or at the "
    "given instant."
)


def _hold_form(request: HttpRequest) -> SafeString:
    content = format_html("{}{}", pausing.fields(CLASSES, required=True), button("Hold everything", submit=1))
    return format_html("<div><p>{}</p>{}</div>", HOLD_MEANS, posting(request, content, verb="hold"))


def _form(request: HttpRequest, queue: QueueSummary) -> SafeString:
    verb = "resume" if queue.paused_at else "pause"
    asks = "" if queue.paused_at else pausing.fields(CLASSES)
    content = format_html("{}{}", asks, button(verb.capitalize(), submit=1))
    return posting(request, content, name=queue.name, verb=verb)


def _life(worker: Any) -> str:
    """A worker's sign of life, by the database's clock, which heartbeats use."""
    return "stopped" if worker.stopped_at else "alive" if worker.is_alive(worker.now) else "silent"


@admin.register(Worker)
class WorkerAdmin(ReadOnlyAdmin):
    """The workers: the queues that each one serves, and whether it is alive."""

    when_empty = "A worker is a process that makes backups and delivers events. Start one on the host that does it."
    list_display = ("__str__", "life", "shown_queues", "started_at", "heartbeat", "stopped_at")
    list_filter = ("hostname", ("stopped_at", admin.EmptyFieldListFilter))
    ordering = ("-id",)

    life = column(_life, "life", label={"alive": "success", "silent": "danger", "stopped": ""})
    shown_queues = column(
        lambda worker: ", ".join(f"{name} {concurrency}" for name, concurrency in worker.queues.items()), "queues"
    )
    heartbeat = column(
        lambda worker: f"{span(max(0.0, (worker.now - worker.heartbeat_at).total_seconds()))} ago", "heartbeat",
        ordered="heartbeat_at",
    )  # fmt: skip

    def get_queryset(self, request: HttpRequest) -> QuerySet[Worker]:
        found: QuerySet[Worker] = super().get_queryset(request)
        return found.annotate(now=Now())


@admin.register(Sweep)
class SweepAdmin(ReadOnlyAdmin):
    """One line for each tier that has been swept. Records that wait for a sweep that does not come are listed by the
    doctor.
    """

    when_empty = "Each tier of the progressive schedule is listed here once it has been swept."
    list_display = ("__str__", "swept_at", "swept", "left")

    left = column("left_some", "left some", lambda some: "yes" if some else "", label={"yes": "warning"})
