"""Policies, each edited in one form with its schedule, with buttons that fill in common values."""

from collections.abc import Callable
from functools import partial
from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from unfold.widgets import (
    UnfoldAdminSelectWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanSwitchWidget,
)

from audit.entries import About
from declarations.surfaces.admin import part_fields
from declarations.surfaces.admin.base import SMALL_TEXT_AREAS, PagedByIds, anchor, column, listed_under, moment
from declarations.surfaces.admin.confirmations import is_confirmed, question
from declarations.surfaces.admin.declared_admin import DeclaredAdmin, DeclaredForm, duration_fields
from declarations.surfaces.admin.pause_page import pause_until
from declarations.surfaces.admin.preview_forms import PreviewedForm
from declarations.surfaces.admin.with_presets import Filling, LineWithPresets
from fleet import pauses
from fleet.admin.preview import preview_of
from fleet.dry_runs import Effect, effect_of
from fleet.policy_edits import SCHEDULE_FIELDS, Policies
from jobs import rollouts
from jobs.models import RetryPolicy, Throttle
from schedules.models import Schedule
from sources import planning
from sources.declarations import hook_file, policies
from sources.declarations.hook_file import HookUnusable
from sources.models import Assignment, Policy


def _range(days: str, start: str, end: str) -> list[dict[str, str]]:
    return [{"days": days, "start": start, "end": end}]


PERIODS: list[Filling] = [
    ("Hourly", "every hour", "0 * * * *"),
    ("Daily", "every day", "0 0 * * *"),
    ("Weekdays", "Monday to Friday", "0 0 * * 1-5"),
    ("Weekly", "every week, from Monday", "0 0 * * 1"),
    ("Monthly", "every month, from its first day", "0 0 1 * *"),
]
"""Periods begin at local midnight: the window decides at which hour backups run."""

WINDOWS: list[part_fields.Filling] = [
    ("Always", "at any time", []),
    ("Working hours", "Monday to Friday, 08:00 to 18:00", _range("mon-fri", "08:00", "18:00")),
    ("Nights", "every night, 22:00 to 06:00", _range("mon-sun", "22:00", "06:00")),
    ("Weekends", "Saturday and Sunday", _range("sat-sun", "00:00", "00:00")),
]


class PolicyForm(DeclaredForm):
    """A policy and its schedule in one form."""

    service = Policies

    name = forms.CharField(max_length=100, widget=UnfoldAdminTextInputWidget)
    cron = forms.CharField(initial="0 9 * * *", widget=LineWithPresets(PERIODS))
    zone = forms.CharField(initial="UTC", widget=UnfoldAdminTextInputWidget)
    enabled = forms.BooleanField(initial=True, required=False, widget=UnfoldBooleanSwitchWidget)
    priority = forms.IntegerField(initial=0, widget=UnfoldAdminTextInputWidget)
    retry_policy = forms.ModelChoiceField(RetryPolicy.objects.all(), required=False, widget=UnfoldAdminSelectWidget)
    throttle = forms.ModelChoiceField(Throttle.objects.all(), required=False, widget=UnfoldAdminSelectWidget)

    class Meta:
        model = Policy
        fields = tuple(name for name in policies.PolicyDeclaration.model_fields if name not in SCHEDULE_FIELDS)
        labels = {"ping_url": "Ping URL"}
        field_classes = duration_fields(policies.PolicyDeclaration)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "window" in self.fields:
            self.fields["window"].widget.fillings = WINDOWS
        if "hook" in self.fields:
            try:
                names = hook_file.known()
                hint = "" if names else "This host has none."
            except HookUnusable as error:
                names, hint = [], f"This host: {error}."
            self.fields["hook"].widget = LineWithPresets(
                [(name, f"The hook {name} on this host", name) for name in names]
            )
            self.fields["hook"].help_text += f" {hint}"
        if self.instance.pk:
            self.initial = {**self.initial} | {name: getattr(self.instance.schedule, name) for name in SCHEDULE_FIELDS}
        else:
            initial = {name: self.base_fields[name].initial for name in ("cron", "zone")}
            self.instance.schedule = Schedule(kind=planning.KIND, provider="assignments", **initial)


USUAL = (
    ("name", "enabled"), ("repository", "copy_to"), "keep", "cron", ("zone", "priority"), "window", "excluded_dates",
)  # fmt: skip
RUNNING = (
    ("at_close", "only_if_it_fits"), ("max_running_for", "least_rate"), ("retry_policy", "throttle"), "seeding_limit",
    "engine_options", "hook",
)  # fmt: skip
COPIES = (("copy_within", "copy_bandwidth"), "copy_window", ("check_within", "drill_every"), "drill_from")
ABSENT = (
    ("connect_timeout", "recheck_after"), ("vanish_grace", "address_follows"), ("on_battery", "on_metered"),
    ("wake_allowed", "wake_every"), "wake_wait",
)  # fmt: skip
REPORTS = ("alert_after", "outcomes_endpoint", "ping_url")


class GetsWorse(Exception):
    """Saving would make something worse for the fleet."""

    def __init__(self, effect: Effect) -> None:
        super().__init__(*effect.lines)
        self.effect = effect


@admin.register(Policy)
class PolicyAdmin(PagedByIds, DeclaredAdmin, PreviewedForm):
    """Policies: how often, in which window, to which repository, and how."""

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
        "lists",
        "enabled",
        "next_trigger",
    )
    actions = ("pause_until", "resume")
    list_filter = ("repository", "schedule__enabled")
    list_select_related = ("schedule", "repository")
    search_fields = ("schedule__name",)
    ordering = ("schedule__name",)
    fieldsets = (
        (None, {"fields": USUAL}),
        ("Advanced: limits, engine and hook", {"classes": ["collapse"], "fields": RUNNING}),
        ("Advanced: copies, checks and drills", {"classes": ["collapse"], "fields": COPIES}),
        ("Advanced: absent sources", {"classes": ["collapse"], "fields": ABSENT}),
        ("Advanced: alerts and reports", {"classes": ["collapse"], "fields": REPORTS}),
    )

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        if (policy := context.get("original")) and (found := rollouts.progress("policy", [policy.pk])):
            self.message_user(request, f"Assignments of {policy}: {found[policy.pk]}.")
        return super().render_change_form(request, context, *args, **kwargs)

    def preview_of_form(self, form: Any) -> str:
        return preview_of(form)

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Ask before an edit is saved that makes something worse for the fleet. Nothing is saved before the answer."""
        try:
            return super().changeform_view(request, *args, **kwargs)
        except GetsWorse as found:
            sent = [(name, value) for name in request.POST for value in request.POST.getlist(name)]
            kept = format_html_join(
                "", '<input type="hidden" name="{}" value="{}">',
                [(name, value) for name, value in sent if name != "csrfmiddlewaretoken"],
            )  # fmt: skip
            return question(
                request, "Save", "Something would get worse for the fleet: its recorded days were simulated twice, as "
                "they were and with this policy.", found.effect.lines, asks="Save it all the same?",
                yes="Yes, save it", fields=format_html("{}{}", kept, found.effect.chart),
            )  # fmt: skip

    def save_model(self, request: HttpRequest, obj: Policy, form: Any, change: bool) -> None:
        if change and form.changed and not form.changed.isdisjoint(("cron", "zone", "window")):
            self._look_ahead(request, obj)
        super().save_model(request, obj, form, change)

    def _look_ahead(self, request: HttpRequest, policy: Policy) -> None:
        """Show the effect of the edit on the fleet. Raises: GetsWorse, unless that was agreed to."""
        if is_confirmed(request):
            return
        effect = effect_of(policy)
        if effect.is_worse:
            raise GetsWorse(effect)
        if effect.lines:
            self.message_user(request, f"The fleet with this policy: {'; '.join(effect.lines)}.")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Policy]:
        """All policies, with `sources`, counted for each row that is read: a join would count all before the first."""
        of_each = Assignment.objects.filter(policy=OuterRef("pk")).order_by().values("policy")
        number = Subquery(of_each.annotate(number=Count("pk")).values("number"))
        return super().get_queryset(request).annotate(sources=Coalesce(number, 0))  # type: ignore[no-any-return]

    cron = column("schedule__cron", "cron")
    zone = column("schedule__zone", "zone")

    # who may only look at a policy is shown its schedule's fields by these

    name = column("schedule__name", "name", ordered=False)
    priority = column("schedule__priority", "priority", ordered=False)

    retry_policy = column("schedule__retry_policy", "retry policy", ordered=False)
    throttle = column("schedule__throttle", "throttle", ordered=False)

    @admin.display(description="window")
    def shown_window(self, policy: Policy) -> str:
        if policy.problem:
            return f"cannot be read: {policy.problem}"
        spans = (f"{row.get('days', 'mon-sun')} {row['start']}–{row['end']}" for row in policy.window)
        return ", ".join(spans) or "always"

    @admin.display(description="sources", ordering="sources")
    def number_of_sources(self, policy: Any) -> str:
        return anchor(f"{reverse('admin:sources_source_changelist')}?policy={policy.pk}", f"{policy.sources:,}")

    lists = column(
        lambda policy: listed_under("policy", policy.pk, assignments="sources_assignment", backups="sources_backup"),
        "lists",
    )

    @admin.action(description="Pause until…", permissions=["change"])
    def pause_until(self, request: HttpRequest, policies: QuerySet[Policy]) -> HttpResponse | None:
        pause = partial(self._each, request, policies, pauses.pause_policy)
        return pause_until(self, request, policies, pause, pauses.MEANS)

    @admin.action(description="Resume", permissions=["change"])
    def resume(self, request: HttpRequest, policies: QuerySet[Policy]) -> None:
        resumed = self._each(request, policies, pauses.resume_policy, by=request.user.get_username())
        self.message_user(request, f"{resumed} resumed; due sources are on the backlog.")

    @staticmethod
    def _each(request: HttpRequest, policies: QuerySet[Policy], verb: Callable[..., bool], **asked: Any) -> int:
        return sum(verb(policy, account=request.user, **asked) for policy in policies)

    def rows_of_history(self, row: Policy) -> list[About]:
        return [(Policy, row.pk), (Schedule, row.schedule_id)]

    @admin.display(description="enabled", ordering="schedule__enabled", boolean=True)
    def enabled(self, policy: Policy) -> bool:
        return policy.schedule.enabled

    next_trigger = column("schedule__next_trigger_at", "next period (UTC)", moment)
