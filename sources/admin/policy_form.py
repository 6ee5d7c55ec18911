"""The form of a policy: it edits a policy and its schedule as one thing, with buttons that fill in what most want."""

import json
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from unfold.widgets import (
    UnfoldAdminSelectWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanSwitchWidget,
)

from jobs.models import RetryPolicy, Throttle
from operations.admin.duration_fields import DurationField
from operations.admin.with_presets import Filling, LinesWithPresets, LineWithPresets
from schedules.models import Schedule
from sources import planning
from sources.domain.presets import PRESETS, WINDOW_PRESETS
from sources.edits import SCHEDULE_FIELDS
from sources.models import Policy

WHEN_FIELDS = ("cron", "zone", "window", "excluded_dates")
"""What decides when its periods begin and its window is open."""

DURATIONS = (
    "max_running_for", "connect_timeout", "recheck_after", "vanish_grace", "wake_every", "wake_wait", "alert_after",
)  # fmt: skip

PERIODS: list[Filling] = [(preset.name.capitalize(), preset.title, preset.cron) for preset in PRESETS.values()]
WINDOWS: list[Filling] = [
    (preset.name.replace("-", " ").capitalize(), preset.title, json.dumps(preset.rows))
    for preset in WINDOW_PRESETS.values()
]


class PolicyForm(forms.ModelForm):  # type: ignore[type-arg]
    """A policy and its schedule in one form."""

    name = forms.CharField(max_length=100, widget=UnfoldAdminTextInputWidget)
    cron = forms.CharField(
        initial="0 9 * * *",
        widget=LineWithPresets(PERIODS),
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
            "repository", "window", "excluded_dates", "at_close", "only_if_it_fits", "engine_options", "keep_versions",
            "max_running_for", "least_rate", "seeding_limit", "connect_timeout", "recheck_after", "vanish_grace",
            "address_follows", "on_battery", "on_metered", "wake_allowed", "wake_every", "wake_wait", "alert_after",
        )  # fmt: skip
        field_classes = dict.fromkeys(DURATIONS, DurationField)
        widgets = {"window": LinesWithPresets(WINDOWS, attrs={"rows": 3})}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for field in self.fields.values():
            # what has changed is told against what is stored, not against what the page showed a while ago
            field.show_hidden_initial = False
        if self.instance.pk:
            for name in SCHEDULE_FIELDS:
                self.initial[name] = getattr(self.instance.schedule, name)
        else:
            initial = {name: self.base_fields[name].initial for name in ("cron", "zone")}
            self.instance.schedule = Schedule(kind=planning.KIND, provider="assignments", **initial)

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
