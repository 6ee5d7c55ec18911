"""The form of a policy: it edits a policy and its schedule as one thing, with buttons that fill in what most want."""

import json
from typing import Any

from django import forms
from unfold.widgets import (
    UnfoldAdminSelectWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanSwitchWidget,
)

from jobs.models import RetryPolicy, Throttle
from operations.admin.declared import DeclaredForm, duration_fields
from operations.admin.with_presets import Filling, LinesWithPresets, LineWithPresets
from schedules.models import Schedule
from sources import planning, policy_declaration
from sources.domain.presets import PRESETS, WINDOW_PRESETS
from sources.edits import SCHEDULE_FIELDS, Policies
from sources.hooks import definitions
from sources.hooks.definitions import HookUnusable
from sources.models import Policy

WHEN_FIELDS = ("cron", "zone", "window", "excluded_dates")
"""What decides when its periods begin and its window is open."""

PERIODS: list[Filling] = [(preset.name.capitalize(), preset.title, preset.cron) for preset in PRESETS.values()]
WINDOWS: list[Filling] = [
    (preset.name.replace("-", " ").capitalize(), preset.title, json.dumps(preset.rows))
    for preset in WINDOW_PRESETS.values()
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
        fields = tuple(name for name in policy_declaration.Policy.model_fields if name not in SCHEDULE_FIELDS)
        field_classes = duration_fields(policy_declaration.Policy)
        widgets = {"window": LinesWithPresets(WINDOWS, attrs={"rows": 3})}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "hook" in self.fields:
            try:
                names = definitions.known()
                hint = "" if names else "This host has none."
            except HookUnusable as error:
                names, hint = [], f"This host: {error}."
            self.fields["hook"].widget = LineWithPresets(
                [(name, f"The hook {name} of this host", name) for name in names]
            )
            self.fields["hook"].help_text += f" {hint}"
        if self.instance.pk:
            self.initial = {**self.initial} | {name: getattr(self.instance.schedule, name) for name in SCHEDULE_FIELDS}
        else:
            initial = {name: self.base_fields[name].initial for name in ("cron", "zone")}
            self.instance.schedule = Schedule(kind=planning.KIND, provider="assignments", **initial)
