"""The form of a schedule, with buttons that fill in what most want."""

from typing import Any

from django import forms
from unfold.widgets import UnfoldAdminSelectWidget

from delivery.models import EndpointKind
from jobs.handlers import registry
from operations.admin.declared import DeclaredForm, duration_fields
from operations.admin.retry_policy_form import ParametersField
from operations.admin.with_presets import LinesWithPresets, LineWithPresets
from schedules import declarations, providers
from schedules.declarations import OF_POLICIES
from schedules.editing import Schedules, takes_events
from schedules.models import Schedule

CRONS = [
    ("Every 5 minutes", "at 0, 5, 10 … minutes past each hour", "*/5 * * * *"),
    ("Hourly", "every hour, on the hour", "0 * * * *"),
    ("Daily", "every day at 03:00", "0 3 * * *"),
    ("Weekdays", "Monday to Friday at 09:00", "0 9 * * 1-5"),
    ("Weekly", "every Monday at 03:00", "0 3 * * 1"),
    ("Monthly", "on the first of each month at 03:00", "0 3 1 * *"),
]
WINDOWS = [
    ("None", "no window", "0"),
    ("15 minutes", "15 minutes from the trigger", "15m"),
    ("1 hour", "an hour from the trigger", "1h"),
    ("8 hours", "8 hours from the trigger", "8h"),
    ("1 day", "a day from the trigger", "1d"),
]
PAYLOADS = [
    ("Shards", "each event names its share of the work", '{"shard": "$number", "of": "$count"}'),
    ("Instants", "each event names its trigger", '{"id": "$event_id", "trigger_at": "$trigger_at"}'),
    ("Nothing", "no body of its own", "{}"),
]
INITIAL = {"cron": "0 3 * * *", "kind": EndpointKind.HTTP_CALLBACK.value, "event_count": 1}


class ScheduleForm(DeclaredForm):
    service = Schedules

    class Meta:
        model = Schedule
        fields = tuple(declarations.Schedule.model_fields)
        field_classes = {"payload_template": ParametersField, **duration_fields(declarations.Schedule)}
        labels = {"window_for": "Window", "catch_up_for": "Catch up for"}
        widgets = {
            "cron": LineWithPresets(CRONS),
            "window_for": LineWithPresets(WINDOWS),
            "payload_template": LinesWithPresets(PAYLOADS, attrs={"rows": 3}),
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not self.instance.pk:
            for name, value in INITIAL.items():
                setattr(self.instance, name, value)
                self.initial.setdefault(name, value)
        kinds = [name for name in registry.kinds if takes_events(name) or other_providers()]
        self._choose_from("kind", {name: _words_of(name) for name in kinds})
        self._choose_from("provider", {"": "its events, as many as counted", **_providers()})

    def _choose_from(self, name: str, choices: dict[str, str]) -> None:
        """Offer these values for a field, and the one that is stored, known here or not."""
        if name not in self.fields:
            return
        stored = getattr(self.instance, name) or ""
        choices = {stored: stored, **choices} if stored not in choices else choices
        field = self.fields[name]
        self.fields[name] = forms.ChoiceField(
            choices=list(choices.items()),
            required=field.required,
            help_text=field.help_text,
            label=field.label,
            widget=UnfoldAdminSelectWidget,
        )


def other_providers() -> bool:
    """Whether anything but a policy's assignments provides batches here."""
    return bool(_providers())


def _providers() -> dict[str, str]:
    return {name: name for name in providers.known if name != OF_POLICIES}


def _words_of(kind: str) -> str:
    return str(dict(EndpointKind.choices).get(kind, kind))
