"""Policies, each edited in one form with its schedule, and repositories."""

from pathlib import Path
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models import Count, QuerySet
from django.http import HttpRequest
from unfold.admin import ModelAdmin
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget, UnfoldBooleanSwitchWidget

from jobs.admin.base import SMALL_TEXT_AREAS, moment
from jobs.models import RetryPolicy, Schedule, Throttle
from sources import planning
from sources.models import Policy, Repository

SCHEDULE_FIELDS = ("name", "cron", "zone", "enabled", "priority", "retry_policy", "throttle")
PLANNED_FROM = ("cron", "zone", "window", "enabled", "priority")
"""A change of these moves next-backup dates or records on the backlog."""


class PolicyForm(forms.ModelForm):  # type: ignore[type-arg]
    """A policy and its schedule in one form."""

    name = forms.CharField(max_length=100, widget=UnfoldAdminTextInputWidget)
    cron = forms.CharField(
        initial="0 9 * * *",
        widget=UnfoldAdminTextInputWidget,
        help_text="When a period begins: minute, hour, day of month, month, day of week. As `0 9 * * 1-5`.",
    )
    zone = forms.CharField(
        initial="UTC", widget=UnfoldAdminTextInputWidget, help_text="IANA time zone, as Europe/Berlin."
    )
    enabled = forms.BooleanField(initial=True, required=False, widget=UnfoldBooleanSwitchWidget)
    priority = forms.IntegerField(
        initial=0, widget=UnfoldAdminTextInputWidget, help_text="Higher is backed up first. 0 is usual."
    )
    retry_policy = forms.ModelChoiceField(
        RetryPolicy.objects.all(), required=False, widget=UnfoldAdminSelectWidget, help_text="None: Fibonacci, 60 s."
    )
    throttle = forms.ModelChoiceField(Throttle.objects.all(), required=False, widget=UnfoldAdminSelectWidget)

    class Meta:
        model = Policy
        fields = (
            "repository", "window", "engine_options", "keep_versions", "connect_timeout", "recheck_after",
            "wake_allowed", "wake_every", "wake_wait",
        )  # fmt: skip

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            for name in SCHEDULE_FIELDS:
                self.initial[name] = getattr(self.instance.schedule, name)
        else:
            self.instance.schedule = Schedule(kind=planning.KIND, provider="assignments")

    def _post_clean(self) -> None:
        """Check schedule and policy together: the window is read in the schedule's zone."""
        schedule = self.instance.schedule
        for name in SCHEDULE_FIELDS:
            if name in self.cleaned_data:
                setattr(schedule, name, self.cleaned_data[name])
        try:
            schedule.full_clean()
        except ValidationError as error:
            for field, problems in error.error_dict.items():
                self.add_error(field if field in self.fields else None, problems)
        super()._post_clean()  # type: ignore[misc]


@admin.register(Policy)
class PolicyAdmin(ModelAdmin):
    """Policies: how often, in which window, to where, and how."""

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
    fieldsets = (
        (None, {"fields": ("name", "enabled", "repository", "priority")}),
        ("When", {"fields": ("cron", "zone", "window")}),
        ("How", {"fields": ("engine_options", "keep_versions", "retry_policy", "throttle")}),
        ("Absent sources", {"fields": ("connect_timeout", "recheck_after", "wake_allowed", "wake_every", "wake_wait")}),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Policy]:
        return super().get_queryset(request).annotate(sources=Count("assignments"))  # type: ignore[no-any-return]

    @admin.display(description="cron", ordering="schedule__cron")
    def cron(self, policy: Policy) -> str:
        return policy.schedule.cron

    @admin.display(description="zone", ordering="schedule__zone")
    def zone(self, policy: Policy) -> str:
        return policy.schedule.zone

    @admin.display(description="window")
    def shown_window(self, policy: Policy) -> str:
        spans = (f"{row.get('days', 'mon-sun')} {row['start']}–{row['end']}" for row in policy.window)
        return ", ".join(spans) or "always"

    @admin.display(description="sources", ordering="sources")
    def number_of_sources(self, policy: Any) -> int:
        return int(policy.sources)

    @admin.display(description="enabled", ordering="schedule__enabled", boolean=True)
    def enabled(self, policy: Policy) -> bool:
        return policy.schedule.enabled

    @admin.display(description="next period (UTC)", ordering="schedule__next_trigger_at")
    def next_trigger(self, policy: Policy) -> str:
        return moment(policy.schedule.next_trigger_at)

    def save_model(self, request: HttpRequest, obj: Policy, form: Any, change: bool) -> None:
        """Save the schedule first; what was computed from it is computed anew."""
        obj.schedule.save()
        obj.schedule = obj.schedule  # takes over the id of a new one
        super().save_model(request, obj, form, change)
        if change and any(name in form.changed_data for name in PLANNED_FROM):
            planning.replan(obj)

    def delete_model(self, request: HttpRequest, obj: Policy) -> None:
        """A policy's schedule goes with it."""
        schedule = obj.schedule
        super().delete_model(request, obj)
        schedule.delete()

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Policy]) -> None:
        schedules = list(queryset.values_list("schedule", flat=True))
        super().delete_queryset(request, queryset)
        Schedule.objects.filter(pk__in=schedules).delete()


@admin.register(Repository)
class RepositoryAdmin(ModelAdmin):
    """Where backups go."""

    list_display = ("name", "location")
    search_fields = ("name", "location")

    def save_model(self, request: HttpRequest, obj: Repository, form: Any, change: bool) -> None:
        """Its directory is made when it is missing, as by a fleet import."""
        super().save_model(request, obj, form, change)
        try:
            Path(obj.location).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            self.message_user(request, f"{obj.location} cannot be made: {error.strerror}", messages.WARNING)
