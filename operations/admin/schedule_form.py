"""The form of a schedule, with buttons that fill in common values, and the plan of the values that are typed in."""

from datetime import datetime
from typing import Any

from django import forms
from django.template.loader import render_to_string
from django.utils.safestring import SafeString, mark_safe
from unfold.widgets import UnfoldAdminSelectWidget

from declarations.surfaces.admin.declared_admin import DeclaredForm, duration_fields
from declarations.surfaces.admin.preview_forms import problems_of
from declarations.surfaces.admin.with_presets import LinesWithPresets, LineWithPresets, ParametersField
from delivery.models import EndpointKind
from external.formatting import moment
from jobs.handlers import registry
from jobs.zones import in_zone
from operations.capacity import picture
from schedules import declarations, providers
from schedules.capacity import check
from schedules.capacity_report import messages
from schedules.declarations import OF_POLICIES
from schedules.editing import Schedules, takes_events
from schedules.facts import trigger_times
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
    ("Nothing", "no payload", "{}"),
]
INITIAL = {"cron": "0 3 * * *", "kind": EndpointKind.HTTP_CALLBACK.value, "event_count": 1}

DECIDING = (
    "cron", "zone", "provider", "event_count", "window_for", "stagger", "late", "overlap", "catch_up_for", "throttle",
    "priority",
)  # fmt: skip
"""The fields that a plan is made from."""

BESIDE = ("kind", "endpoint", "payload_template", "retry_policy")
"""The other fields that can be wrong: their errors are shown next to the plan, once the fields have a value."""

HEADERS = ("number", "trigger", "the same in UTC", "window closes")


class ScheduleForm(DeclaredForm):
    service = Schedules

    class Meta:
        model = Schedule
        fields = tuple(declarations.ScheduleDeclaration.model_fields)
        field_classes = {"payload_template": ParametersField, **duration_fields(declarations.ScheduleDeclaration)}
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
    """True if any provider other than a policy's assignments yields batches here."""
    return bool(_providers())


def _providers() -> dict[str, str]:
    return {name: name for name in providers.known if name != OF_POLICIES}


def _words_of(kind: str) -> str:
    return str(dict(EndpointKind.choices).get(kind, kind))


def preview_of_form(form: Any) -> SafeString:
    """The plan of the values in `form`, saved or not; or the errors of the fields that decide it."""
    wrong = problems_of(form, DECIDING)
    beside = problems_of(form, [name for name in BESIDE if form.is_bound and form.data.get(name)])
    return _shown(wrong + beside) if wrong else _preview_of(form.instance, beside)


def _preview_of(schedule: Schedule, beside: list[str]) -> SafeString:
    """The next triggers, messages about the plan, and the load curve; `beside`: errors of other fields."""
    try:
        found = check(schedule)
    except ValueError as error:  # values that were not stored by the form
        return _shown([str(error)])
    return _shown(
        beside,
        messages=messages(found),
        table={"headers": HEADERS, "rows": _rows(schedule, found.next_triggers)},
        zone=schedule.zone,
        picture=mark_safe(picture(found)),  # noqa: S308 - drawn by us; names in it are escaped
    )


def _shown(wrong: list[str], **context: Any) -> SafeString:
    return render_to_string("operations/schedule_preview.html", {"wrong": wrong, **context})


def _rows(schedule: Schedule, triggers: list[datetime]) -> list[tuple[object, ...]]:
    def local(instant: datetime | None) -> str:
        return f"{in_zone(instant, schedule.period.tzinfo):%a %Y-%m-%d %H:%M:%S}" if instant else ""

    return [
        (number, local(each["trigger_at"]), moment(each["trigger_at"]), local(each["closes_at"]))
        for number, each in enumerate(trigger_times(schedule, triggers), 1)
    ]
