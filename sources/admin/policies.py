"""Policies, each edited in one form with its schedule."""

from typing import Any

from django.contrib import admin
from django.db.models import Count, QuerySet
from django.http import HttpRequest

from operations.admin.base import SMALL_TEXT_AREAS, column, moment
from operations.admin.declared import DeclaredAdmin
from operations.admin.previewing import PreviewedForm
from schedules import rollouts
from sources.admin.policy_form import WHEN_FIELDS, PolicyForm
from sources.admin.preview import preview_of
from sources.models import Policy

LIMITS = ("max_running_for", "least_rate", "retry_policy", "throttle", "seeding_limit")


@admin.register(Policy)
class PolicyAdmin(DeclaredAdmin, PreviewedForm):
    """Policies: how often, in which window, to where, and how."""

    when_empty = "A policy says how often its sources are backed up, in which window, and to which repository."
    form = PolicyForm
    formfield_overrides = SMALL_TEXT_AREAS
    list_display = (
        "__str__",
        "cron",
        "zone",
        "shown_window",
        "repository",
        "number_of_sources",
        "enabled",
        "next_trigger",
    )
    list_filter = ("repository", "schedule__enabled")
    list_select_related = ("schedule", "repository")
    search_fields = ("schedule__name",)
    ordering = ("schedule__name",)
    fieldsets = (
        (None, {"fields": ("name", "enabled", "repository", "priority")}),
        ("When", {"fields": (*WHEN_FIELDS, "at_close", "only_if_it_fits")}),
        ("How", {"fields": ("engine_options", "hook", "keep", "check_within", "drill_every", *LIMITS)}),
        ("Copies", {"fields": ("copy_to", "copy_within", "copy_window", "copy_bandwidth", "drill_from")}),
        (
            "Absent sources",
            {
                "fields": (
                    ("connect_timeout", "recheck_after"),
                    "vanish_grace",
                    "address_follows",
                    "on_battery",
                    "on_metered",
                    "wake_allowed",
                    ("wake_every", "wake_wait"),
                )
            },
        ),
        ("Alerts", {"fields": ("alert_after", "outcomes_endpoint", "ping_url")}),
    )

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        if (policy := context.get("original")) and (found := rollouts.progress("policy", [policy.pk])):
            self.message_user(request, f"Assignments of {policy}: {found[policy.pk]}.")
        return super().render_change_form(request, context, *args, **kwargs)

    def preview_of_form(self, form: Any) -> str:
        return preview_of(form)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Policy]:
        return super().get_queryset(request).annotate(sources=Count("assignments"))  # type: ignore[no-any-return]

    cron = column("schedule__cron", "cron")
    zone = column("schedule__zone", "zone")

    # who may only look at a policy is shown its schedule's fields by these

    name = column("schedule__name", "name", ordered=False)
    priority = column("schedule__priority", "priority", ordered=False)

    @admin.display(description="retry policy")
    def retry_policy(self, policy: Policy) -> str:
        return str(policy.schedule.retry_policy or "")

    @admin.display(description="throttle")
    def throttle(self, policy: Policy) -> str:
        return str(policy.schedule.throttle or "")

    @admin.display(description="window")
    def shown_window(self, policy: Policy) -> str:
        if policy.problem:
            return f"cannot be read: {policy.problem}"
        spans = (f"{row.get('days', 'mon-sun')} {row['start']}–{row['end']}" for row in policy.window)
        return ", ".join(spans) or "always"

    @admin.display(description="sources", ordering="sources")
    def number_of_sources(self, policy: Any) -> int:
        return int(policy.sources)

    @admin.display(description="enabled", ordering="schedule__enabled", boolean=True)
    def enabled(self, policy: Policy) -> bool:
        return policy.schedule.enabled

    next_trigger = column("schedule__next_trigger_at", "next period (UTC)", moment)
