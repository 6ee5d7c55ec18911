"""Schedules: a list, verbs that ask first, and a page with the plan of the values that are typed in."""

from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.widgets import INPUT_CLASSES

from declarations.surfaces import pausing
from declarations.surfaces.admin.base import IN_ONE_LINE, SMALL_TEXT_AREAS, column, link, listed_under, moment
from declarations.surfaces.admin.confirmations import AsksFirst, asked, is_confirmed, question
from declarations.surfaces.admin.declared_admin import DeclaredAdmin
from declarations.surfaces.admin.preview_forms import PreviewedForm
from external.durations import span
from jobs.prepared_statements import storable
from operations import schedule_verbs
from operations.admin.schedule_form import ScheduleForm, other_providers, preview_of_form
from schedules import verbs
from schedules.capacity import check
from schedules.capacity_report import BAD, WARNING
from schedules.capacity_report import messages as messages_of
from schedules.declarations import OF_POLICIES
from schedules.facts import describe_trigger, paused_words
from schedules.models import Schedule, Stagger, Trigger
from schedules.obstacles import obstacle_to_editing, owner_of

TRIGGER_MEANS = (
    "A batch goes on the backlog now, in addition to those that its cron expression triggers. It keeps to the window, "
    "stagger, throttle and overlap of its schedule."
)
PAUSE = "Pause"
PAUSE_MEANS = (
    "It triggers nothing until it is resumed: automatically at the given instant, otherwise by a user. Records that it "
    "has already emitted continue."
)
RESUME_MEANS = "It triggers again from now on. Triggers during its pause are not caught up."

Verb = Callable[..., str]


class OfFilter(admin.SimpleListFilter):
    """Schedules of events, unless those of policies are asked for: a policy is a schedule, too, and has a separate
    list.
    """

    title, parameter_name = "of", "of"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("policies", "policies"), ("both", "events and policies")]

    def choices(self, changelist: Any) -> Any:
        events, *others = super().choices(changelist)
        return [events | {"display": "events"}, *others]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Schedule]) -> QuerySet[Schedule]:
        of_policies = Q(provider=OF_POLICIES)
        return {"policies": queryset.filter(of_policies), "both": queryset}.get(
            self.value() or "", queryset.exclude(of_policies)
        )


def _window(schedule: Schedule) -> str:
    if not schedule.window_for:
        return ""
    return span(schedule.window_for) + (", staggered" if schedule.stagger == Stagger.EVEN else "")


def _edited_with(schedule: Schedule) -> SafeString | str:
    if (owner := owner_of(schedule)) is None:
        return ""
    options = owner._meta
    page = link(f"{options.app_label}_{options.model_name}_change", owner.pk, owner)
    return format_html("the {} {}", options.verbose_name, page)


USUAL = (
    "cron", ("zone", "event_count"), "window_for", ("stagger", "throttle"), ("kind", "endpoint"), "payload_template",
)  # fmt: skip
ADVANCED = (("late", "overlap"), ("catch_up_for", "priority"), "retry_policy")


@admin.register(Schedule)
class ScheduleAdmin(AsksFirst[Verb], DeclaredAdmin, PreviewedForm):
    """Schedules of all kinds. That of a policy is read-only here, and edited with the policy."""

    when_empty = (
        "A schedule puts events on the backlog, again and again, and delivers each to an endpoint. Those of "
        "policies are listed under Policies."
    )
    called = "schedule"
    form = ScheduleForm
    formfield_overrides = SMALL_TEXT_AREAS
    list_display = (
        "name", "shown_cron", "zone", "kind", "batch", "shown_window", "throttle_name", "enabled", "shown_next",
        "lists",
    )  # fmt: skip
    list_filter = (OfFilter, "enabled", "kind", "throttle", "endpoint")
    list_select_related = ("throttle",)
    search_fields = ("name",)
    ordering = ("name",)
    readonly_fields = ("shown_next", "edited_with")
    actions = ("trigger_now", "pause", "resume")
    actions_detail = ("trigger_this", "pause_this", "resume_this")

    shown_cron = column("cron", "cron", lambda cron: format_html(IN_ONE_LINE, cron))
    throttle_name = column("throttle", "throttle", lambda throttle: throttle.name, ordered="throttle__name")
    batch = column(lambda each: each.provider if each.event_count is None else f"{each.event_count:,}", "batch")
    shown_window = column(_window, "window", ordered="window_for")
    shown_next = column(
        lambda schedule: paused_words(schedule) or moment(schedule.next_trigger_at),
        "next trigger (UTC)", ordered="next_trigger_at",
    )  # fmt: skip
    lists = column(
        lambda each: listed_under("schedule", each.pk, records="jobs_backlogrecord", triggers="schedules_trigger"),
        "lists",
    )
    edited_with = column(_edited_with, "edited with")

    trigger_now, trigger_this = asked(
        "trigger_now", "Trigger now", TRIGGER_MEANS,
        lambda schedule, by: describe_trigger(verbs.trigger_now(schedule, by)), "play_arrow",
    )  # fmt: skip
    pause, pause_this = asked(
        "pause", PAUSE, PAUSE_MEANS, lambda each, by, **given: schedule_verbs.pause(each, **given)[1], "pause"
    )
    resume, resume_this = asked(
        "resume", "Resume", RESUME_MEANS, lambda each, by: schedule_verbs.resume(each)[1], "resume"
    )

    def get_fieldsets(self, request: HttpRequest, obj: Schedule | None = None) -> Any:
        """The fields that most users set; the others are folded."""
        head = [("name", "enabled"), *(["shown_next"] if obj else []), *(["edited_with"] if _of_policy(obj) else [])]
        batch = [*(["provider"] if other_providers() or (obj and obj.provider) else []), *ADVANCED]
        return (
            (None, {"fields": (*head, *USUAL)}),
            ("Advanced: late batches and retries", {"classes": ["collapse"], "fields": batch}),
        )

    def preview_of_form(self, form: Any) -> str:
        return preview_of_form(form)

    def idle_verbs(self, row: Schedule) -> set[str]:
        """All verbs for the schedule of a policy, which is operated on the policy's page."""
        if obstacle_to_editing(row):
            return set(self.actions_detail)
        return {"resume_this" if row.enabled else "pause_this"}

    def ask_or_do(
        self, request: HttpRequest, rows: QuerySet[Schedule], name: str, means: str, verb: Verb
    ) -> HttpResponse | None:
        """The question, or None once the answer was yes and it is done."""
        schedules, given = list(rows.order_by("name")), self._given(request, name)
        if given is None:
            lines = [f"{each}: `{each.cron}` in {each.zone}{'' if each.enabled else ', paused'}" for each in schedules]
            fields = pausing.fields(" ".join(INPUT_CLASSES)) if name == PAUSE else ""
            return question(request, name, means, lines, fields=fields)
        for schedule in schedules:
            try:
                text, level = verb(schedule, str(request.user), **given), messages.SUCCESS
            except ValueError as error:
                text, level = str(error), messages.ERROR
            except Schedule.DoesNotExist:
                text, level = "it was deleted in the meantime", messages.ERROR
            else:
                self.log_change(request, schedule, storable(f"{name}: {text}."))
            self.message_user(request, f"{name}: {schedule}: {text}.", level)
        return None

    def _given(self, request: HttpRequest, name: str) -> dict[str, Any] | None:
        """The answer to the question: the end and reason of a pause. None if the question is still to be asked, also
        again after an answer that cannot be accepted.
        """
        if not is_confirmed(request):
            return None
        try:
            return dict(pausing.asked(request.POST)) if name == PAUSE else {}
        except ValueError as error:
            self.message_user(request, str(error), messages.ERROR)
            return None

    def has_change_permission(self, request: HttpRequest, obj: Schedule | None = None) -> bool:
        """Refuse the schedule of a policy: it is edited there, so that the dates that follow from it are recomputed."""
        return not _of_policy(obj) and super().has_change_permission(request, obj)

    def has_view_permission(self, request: HttpRequest, obj: Schedule | None = None) -> bool:
        return bool(super().has_view_permission(request, obj) or super().has_change_permission(request, obj))

    def has_delete_permission(self, request: HttpRequest, obj: Schedule | None = None) -> bool:
        return not _of_policy(obj) and super().has_delete_permission(request, obj)

    def save_model(self, request: HttpRequest, obj: Schedule, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        try:
            found = messages_of(check(obj))
        except ValueError as error:
            self.message_user(request, f"{obj} has no plan: {error}", messages.WARNING)
            return
        for message in found:
            if message.level in (BAD, WARNING):
                self.message_user(request, f"{obj}: {message.text}", messages.WARNING)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """The question, with the rows that go and the rows that stay: Django would list each record, and there may be
        millions.
        """
        _, counts, lacking, protected = super().get_deleted_objects(objs, request)
        counts[Trigger._meta.verbose_name_plural] = Trigger.objects.filter(schedule__in=list(objs)).count()
        shown = [f"{schedule}; its finished records stay in the list of records" for schedule in objs]
        return shown, counts, lacking, protected


def _of_policy(schedule: Schedule | None) -> bool:
    return schedule is not None and schedule.provider == OF_POLICIES
