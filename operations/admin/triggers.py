"""Triggers: the schedule and instant of each, the progress of its batch, and a button to cancel it."""

from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.safestring import SafeString

from declarations.surfaces.admin.base import CompletingAdmin, FirstPages, ReadOnlyAdmin, anchor, column, moment
from declarations.surfaces.admin.confirmations import AsksFirst, asked, is_confirmed, question
from declarations.surfaces.web.permissions import may_look
from external.durations import span
from external.formatting import several
from jobs.prepared_statements import storable
from operations.admin.filters import OneOf, ScheduleFilter
from operations.admin.records import url_of_batch
from schedules import verbs
from schedules.batches import BatchCounts, progress
from schedules.facts import IN_STATE, has_begun, state_of
from schedules.models import Trigger

STATE_LABELS = {"queued": "warning", "under way": "info", "finished": "success", "skipped": ""}

CANCEL_MEANS = (
    "Waiting and ready records of its batch are taken off the backlog. Running ones are asked to stop, and end as "
    "cancelled unless they succeed first. It emits nothing more. Other triggers of its schedule continue."
)

COUNTED = 20
"""Batches of a page of the list that are counted: each may have a hundred thousand records."""

Verb = Callable[[Trigger], int]


def describe(found: BatchCounts) -> str:
    """The progress of a batch, in one line: the number of its events delivered, and the fate of the others."""
    names = {"succeeded": "done"} | {name: name for name in ("failed", "cancelled", "running", "ready", "waiting")}
    parts = [f"{count:,} {words}" for name, words in names.items() if (count := getattr(found, name))]
    return f"{found.events:,}: {', '.join(parts)}" if parts else f"{found.events:,}"


def _why_not(trigger: Trigger) -> str:
    if state_of(trigger) == "queued":
        return "it waits until an earlier batch of its schedule has ended"
    return trigger.skipped_for


def _took(trigger: Trigger) -> str:
    if not (trigger.emitted_at and trigger.finished_at):
        return ""
    return span((trigger.finished_at - trigger.emitted_at).total_seconds())


class TriggerStateFilter(OneOf):
    title, parameter_name = "state", "state"

    def names(self) -> Any:
        return IN_STATE

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(IN_STATE[str(self.value())]) if self.value() in IN_STATE else queryset


class TriggerScheduleFilter(ScheduleFilter):
    path = "schedule_id"


@admin.register(Trigger)
class TriggerAdmin(AsksFirst[Verb], CompletingAdmin, ReadOnlyAdmin):
    """All triggers, the latest first."""

    when_empty = "Each time a schedule fires, it is listed here, with how far its batch is."
    called = "trigger"
    adds = "progress"
    list_display = ("shown_at", "schedule", "state", "batch", "seen_at", "took", "why")
    list_filter = (TriggerStateFilter, TriggerScheduleFilter)
    list_select_related = ("schedule",)
    show_full_result_count = False
    sortable_by = ()
    paginator = FirstPages
    actions = ("cancel",)
    actions_detail = ("cancel_this",)
    fieldsets = (
        (None, {"fields": ("schedule", "shown_at", "state", "why", "batch")}),
        ("When", {"fields": ("seen_at", "emitted_at", "closes_at", "finished_at")}),
    )

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Allow users who may view records to view the triggers that put them there."""
        return may_look(request) or bool(request.user.has_perm("schedules.view_trigger"))

    def complete(self, rows: list[Any]) -> None:
        """Count the batches of the first rows: those under way come first, since a batch that has ended does not
        change.
        """
        counted = sorted(rows, key=lambda trigger: state_of(trigger) != "under way")[:COUNTED]
        found = progress(trigger for trigger in counted if has_begun(trigger))
        for trigger in rows:
            trigger.progress = found.get(trigger.pk)

    cancel, cancel_this = asked("cancel", "Cancel batch", CANCEL_MEANS, verbs.cancel_batch, "cancel")

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
            self.log_change(request, trigger, storable(f"{name}: {several(count, 'record')}"))
        text = several(count, "record") if unfinished else "it had finished before"
        self.message_user(request, f"{name}: {text}.", messages.SUCCESS if unfinished else messages.WARNING)
        return None

    shown_at = column(
        lambda trigger: f"{moment(trigger.trigger_at)}{f' (by {trigger.asked_by})' if trigger.asked_by else ''}",
        "launch time (UTC)", ordered="trigger_at",
    )  # fmt: skip
    state = column(state_of, "state", label=STATE_LABELS)
    why = column(_why_not, "why not")
    took = column(_took, "took")

    @admin.display(description="its batch")
    def batch(self, trigger: Any) -> SafeString | str:
        if not has_begun(trigger):
            return "-"
        return anchor(url_of_batch(trigger), describe(self.added(trigger) or BatchCounts(trigger.events)))
