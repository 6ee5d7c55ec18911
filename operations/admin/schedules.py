"""Schedules: a list, and a page with the plan of what is typed. A policy's schedule is edited with its policy."""

from typing import Any

from django.contrib import admin, messages
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from jobs.durations import span
from operations.admin.base import SMALL_TEXT_AREAS, moment
from operations.admin.declared import DeclaredAdmin
from operations.admin.previewing import PreviewedForm
from operations.admin.schedule_actions import ScheduleActions
from operations.admin.schedule_form import ScheduleForm, other_providers
from operations.admin.schedule_preview import preview_of_form
from schedules.capacity import check
from schedules.capacity_report import BAD, WARNING
from schedules.capacity_report import messages as messages_of
from schedules.declarations import OF_POLICIES
from schedules.models import Schedule, Stagger, Trigger
from schedules.obstacles import owner_of


class OfFilter(admin.SimpleListFilter):
    """Of events, unless those of policies are asked for: a policy is a schedule, too, and has a list of its own."""

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


@admin.register(Schedule)
class ScheduleAdmin(ScheduleActions, DeclaredAdmin, PreviewedForm):
    """Schedules of all kinds. That of a policy is to be looked at here, and edited with the policy."""

    when_empty = (
        "A schedule puts events on the backlog, again and again, and delivers each to an endpoint. Those of "
        "policies are listed under Policies."
    )
    form = ScheduleForm
    formfield_overrides = SMALL_TEXT_AREAS
    list_display = (
        "name", "shown_cron", "zone", "kind", "batch", "shown_window", "throttle_name", "enabled", "shown_next",
    )  # fmt: skip
    list_filter = (OfFilter, "enabled", "kind", "throttle", "endpoint")
    list_select_related = ("throttle",)
    search_fields = ("name",)
    ordering = ("name",)
    readonly_fields = ("shown_next", "edited_with")

    def get_fieldsets(self, request: HttpRequest, obj: Schedule | None = None) -> Any:
        batch = ["event_count", "window_for", "stagger", "late", "overlap", "catch_up_for"]
        if other_providers() or (obj and obj.provider):
            batch.insert(0, "provider")
        head = ["name", "enabled", *(["shown_next"] if obj else []), *(["edited_with"] if _of_policy(obj) else [])]
        return (
            (None, {"fields": head}),
            ("When", {"fields": ("cron", "zone")}),
            ("Batch", {"fields": batch}),
            ("What is delivered", {"fields": ("kind", "endpoint", "payload_template")}),
            ("How", {"fields": ("throttle", "retry_policy", "priority")}),
        )

    def preview_of_form(self, form: Any) -> str:
        return preview_of_form(form)

    @admin.display(description="cron", ordering="cron")
    def shown_cron(self, schedule: Schedule) -> SafeString:
        return format_html('<span class="whitespace-nowrap">{}</span>', schedule.cron)

    @admin.display(description="throttle", ordering="throttle__name")
    def throttle_name(self, schedule: Schedule) -> str:
        return schedule.throttle.name if schedule.throttle else ""

    @admin.display(description="batch")
    def batch(self, schedule: Schedule) -> str:
        return f"{schedule.event_count:,}" if schedule.event_count is not None else schedule.provider

    @admin.display(description="window", ordering="window_for")
    def shown_window(self, schedule: Schedule) -> str:
        if not schedule.window_for:
            return ""
        return span(schedule.window_for) + (", staggered" if schedule.stagger == Stagger.EVEN else "")

    @admin.display(description="next trigger (UTC)", ordering="next_trigger_at")
    def shown_next(self, schedule: Schedule) -> str:
        return moment(schedule.next_trigger_at) if schedule.enabled else "paused"

    @admin.display(description="edited with")
    def edited_with(self, schedule: Schedule) -> SafeString | str:
        owner = owner_of(schedule)
        if owner is None:
            return ""
        options = owner._meta
        url = reverse(f"admin:{options.app_label}_{options.model_name}_change", args=[owner.pk])
        return format_html('the {} <a href="{}" class="text-link">{}</a>', options.verbose_name, url, owner)

    def has_change_permission(self, request: HttpRequest, obj: Schedule | None = None) -> bool:
        """That of a policy is edited there, so that the dates that follow from it are computed anew."""
        return not _of_policy(obj) and super().has_change_permission(request, obj)

    def has_view_permission(self, request: HttpRequest, obj: Schedule | None = None) -> bool:
        return bool(super().has_view_permission(request, obj) or super().has_change_permission(request, obj))

    def has_delete_permission(self, request: HttpRequest, obj: Schedule | None = None) -> bool:
        return not _of_policy(obj) and super().has_delete_permission(request, obj)

    def save_model(self, request: HttpRequest, obj: Schedule, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        for message in messages_of(check(obj)):
            if message.level in (BAD, WARNING):
                self.message_user(request, f"{obj}: {message.text}", messages.WARNING)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """With what goes and what stays: Django would list each record, and there may be millions."""
        _, counts, lacking, protected = super().get_deleted_objects(objs, request)
        counts[Trigger._meta.verbose_name_plural] = Trigger.objects.filter(schedule__in=list(objs)).count()
        shown = [f"{schedule}; its finished records stay in the list of records" for schedule in objs]
        return shown, counts, lacking, protected


def _of_policy(schedule: Schedule | None) -> bool:
    return schedule is not None and schedule.provider == OF_POLICIES
