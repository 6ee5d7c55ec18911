"""Triggers: which schedule fired when, how far its batch is, and a button to cancel it."""

from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from unfold.decorators import action, display
from unfold.views import ChangeList

from delivery.models import EndpointKind
from jobs.durations import span
from jobs.formatting import storable
from operations.admin.asking import AsksFirst, is_confirmed, question
from operations.admin.base import ReadOnlyAdmin, moment
from operations.admin.event_filters import MOST_SCHEDULES
from operations.admin.events import FirstPages, url_of_batch
from operations.web.permissions import may_look
from schedules import verbs
from schedules.batches import Progress, progress
from schedules.models import Schedule, Trigger

QUEUED, UNDER_WAY, FINISHED, SKIPPED = "queued", "under way", "finished", "skipped"
STATE_LABELS = {QUEUED: "warning", UNDER_WAY: "info", FINISHED: "success", SKIPPED: ""}
CONDITIONS = {
    QUEUED: Q(emitted_at__isnull=True, finished_at__isnull=True, events=0),
    UNDER_WAY: Q(finished_at__isnull=True) & (Q(emitted_at__isnull=False) | Q(events__gt=0)),
    FINISHED: Q(emitted_at__isnull=False, finished_at__isnull=False),
    SKIPPED: Q(emitted_at__isnull=True, finished_at__isnull=False),
}

CANCEL_MEANS = (
    "What of its batch waits or is ready is taken off the backlog. What runs is told to stop, and ends as cancelled "
    "unless it succeeds first. It emits nothing more. Other triggers of its schedule go on."
)

COUNTED = 20
"""Batches of a page of the list that are counted: each may have a hundred thousand records."""

Verb = Callable[[Trigger], int]


def state_of(trigger: Trigger) -> str:
    """Queued, under way, finished or skipped."""
    if trigger.finished_at is None:
        return UNDER_WAY if has_begun(trigger) else QUEUED
    return FINISHED if trigger.emitted_at else SKIPPED


def has_begun(trigger: Trigger) -> bool:
    """Whether any of its batch is on the backlog; that of a huge one is put there bit by bit."""
    return trigger.emitted_at is not None or trigger.events > 0


def describe(found: Progress) -> str:
    """How far a batch is, in one line: of its events so many delivered, and what became of the others."""
    parts = {
        "done": found.succeeded,
        "failed": found.failed,
        "cancelled": found.cancelled,
        "running": found.running,
        "ready": found.ready,
        "waiting": found.waiting,
    }
    said = ", ".join(f"{count:,} {name}" for name, count in parts.items() if count)
    return f"{found.events:,}: {said}" if said else f"{found.events:,}"


class TriggerStateFilter(admin.SimpleListFilter):
    """By state."""

    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, name) for name in CONDITIONS]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(CONDITIONS[str(self.value())]) if self.value() in CONDITIONS else queryset


class TriggerScheduleFilter(admin.SimpleListFilter):
    """By schedule."""

    title = "schedule"
    parameter_name = "schedule"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        found = Schedule.objects.order_by("name").values_list("pk", "name")
        return [(str(pk), name) for pk, name in found[:MOST_SCHEDULES]]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        said = str(self.value() or "")
        if not said:
            return queryset
        return queryset.filter(schedule_id=int(said)) if said.isdecimal() and len(said) < 19 else queryset.none()


class TriggerList(ChangeList):
    """A page of triggers. The first of them are counted, in one question."""

    result_list: Any

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        triggers: list[Any] = list(self.result_list)
        # a batch that has ended does not change, but may be long; those under way come first
        counted = sorted(triggers, key=lambda trigger: state_of(trigger) != UNDER_WAY)[:COUNTED]
        found = progress(trigger for trigger in counted if has_begun(trigger))
        for trigger in triggers:
            trigger.progress = found.get(trigger.pk)
        self.result_list = triggers


@admin.register(Trigger)
class TriggerAdmin(AsksFirst[Verb], ReadOnlyAdmin):
    """All triggers, the latest first."""

    called = "trigger"
    list_display = ("shown_at", "schedule", "state", "batch", "shown_seen_at", "took", "why")
    list_filter = (TriggerStateFilter, TriggerScheduleFilter)
    list_select_related = ("schedule",)
    list_per_page = 50
    show_full_result_count = False
    sortable_by = ()
    paginator = FirstPages
    actions = ("cancel_batches",)
    actions_detail = ("cancel_this_batch",)
    fieldsets = (
        (None, {"fields": ("schedule", "shown_at", "state", "why", "batch", "its_events")}),
        ("When (UTC)", {"fields": ("shown_seen_at", "shown_emitted_at", "shown_closes_at", "shown_finished_at")}),
    )

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Who may look at records may look at what put them there."""
        return may_look(request) or bool(request.user.has_perm("schedules.view_trigger"))

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return TriggerList

    @admin.action(description="Cancel batch", permissions=["operate"])
    def cancel_batches(self, request: HttpRequest, triggers: QuerySet[Trigger]) -> HttpResponse | None:
        return self.ask_or_do(request, triggers, "Cancel batch", CANCEL_MEANS, verbs.cancel_batch)

    @action(description="Cancel batch", url_path="cancel", permissions=["operate"], icon="cancel")
    def cancel_this_batch(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self.ask_or_do_for_one(request, object_id, "Cancel batch", CANCEL_MEANS, verbs.cancel_batch)

    def ask_or_do(
        self, request: HttpRequest, rows: QuerySet[Trigger], name: str, means: str, verb: Verb
    ) -> HttpResponse | None:
        """The question, or None once the answer was yes and it is done."""
        found = list(rows.select_related("schedule"))
        if not is_confirmed(request):
            counts = progress(trigger for trigger in found if has_begun(trigger))
            lines = [f"{each}: {describe(counts[each.pk]) if each.pk in counts else state_of(each)}" for each in found]
            return question(request, name, means, lines, danger=True)
        unfinished = [trigger for trigger in found if trigger.finished_at is None]
        count = sum(verb(trigger) for trigger in unfinished)
        for trigger in unfinished:
            self.log_change(request, trigger, storable(f"{name}: {count:,} records"))
        said = f"{count:,} record{'s' if count != 1 else ''}" if unfinished else "it had finished before"
        self.message_user(request, f"{name}: {said}.", messages.SUCCESS if unfinished else messages.WARNING)
        return None

    @admin.display(description="launch time (UTC)", ordering="trigger_at")
    def shown_at(self, trigger: Trigger) -> str:
        by_hand = f" (by {trigger.asked_by})" if trigger.asked_by else ""
        return f"{moment(trigger.trigger_at)}{by_hand}"

    @display(description="state", label=STATE_LABELS)
    def state(self, trigger: Trigger) -> str:
        return state_of(trigger)

    @admin.display(description="its batch")
    def batch(self, trigger: Any) -> SafeString | str:
        if not has_begun(trigger):
            return "-"
        if not hasattr(trigger, "progress"):
            trigger.progress = progress([trigger])[trigger.pk]
        text = describe(trigger.progress or Progress(trigger.events))
        return format_html('<a href="{}" class="text-link">{}</a>', url_of_records(trigger), text)

    @admin.display(description="its records")
    def its_events(self, trigger: Trigger) -> SafeString:
        return format_html('<a href="{}" class="text-link">the list of them</a>', url_of_records(trigger))

    @admin.display(description="why not")
    def why(self, trigger: Trigger) -> str:
        if state_of(trigger) == QUEUED:
            return "it waits until an earlier batch of its schedule has ended"
        return trigger.skipped_for

    @admin.display(description="took")
    def took(self, trigger: Trigger) -> str:
        if not (trigger.emitted_at and trigger.finished_at):
            return ""
        return span((trigger.finished_at - trigger.emitted_at).total_seconds())

    @admin.display(description="seen (UTC)")
    def shown_seen_at(self, trigger: Trigger) -> str:
        return moment(trigger.seen_at)

    @admin.display(description="emitted")
    def shown_emitted_at(self, trigger: Trigger) -> str:
        return moment(trigger.emitted_at) or "-"

    @admin.display(description="window closes")
    def shown_closes_at(self, trigger: Trigger) -> str:
        return moment(trigger.closes_at) or "never"

    @admin.display(description="seen to have finished")
    def shown_finished_at(self, trigger: Trigger) -> str:
        return moment(trigger.finished_at) or "-"


def url_of_records(trigger: Trigger) -> str:
    """The list of what it emitted: of events, or of records of another kind."""
    if trigger.schedule.kind in EndpointKind.values:
        return url_of_batch(trigger)
    query: dict[str, str | int] = {"origin__id__exact": trigger.schedule_id, "kind": trigger.schedule.kind}
    return f"{reverse('admin:jobs_backlogrecord_changelist')}?{urlencode(query)}"
