"""The plan of a schedule, as its page shows it while it is edited."""

from datetime import datetime
from typing import Any

from django.template.loader import render_to_string
from django.utils.safestring import SafeString, mark_safe

from operations.admin.base import moment
from operations.capacity import picture
from schedules.capacity import check
from schedules.capacity_report import messages
from schedules.facts import trigger_times
from schedules.models import Schedule

DECIDING = (
    "cron", "zone", "provider", "event_count", "window_for", "stagger", "late", "overlap", "catch_up_for", "throttle",
    "priority",
)  # fmt: skip
"""The fields that a plan is made from."""

BESIDE = ("kind", "endpoint", "payload_template", "retry_policy")
"""The others that can be wrong: told beside the plan, once there is something in them."""

HEADERS = ("number", "trigger", "the same in UTC", "window closes")


def preview_of_form(form: Any, now: datetime | None = None) -> SafeString:
    """The plan of what `form` says, saved or not; or what is wrong with the fields that decide it."""
    wrong = _errors(form, DECIDING)
    beside = _errors(form, [name for name in BESIDE if form.is_bound and form.data.get(name)])
    return _shown(wrong + beside) if wrong else preview_of(form.instance, now, beside)


def preview_of(schedule: Schedule, now: datetime | None = None, beside: list[str] | None = None) -> SafeString:
    """Its next triggers, what is said of its plan, and its load curve; `beside`: what else is wrong."""
    try:
        found = check(schedule, now)
    except ValueError as error:  # what was stored past the form
        return _shown([str(error)])
    return _shown(
        beside or [],
        messages=messages(found),
        table={"headers": HEADERS, "rows": _rows(schedule, found.next_triggers)},
        zone=schedule.zone,
        picture=mark_safe(picture(found)),  # noqa: S308 - drawn by us; names in it are escaped
    )


def _shown(wrong: list[str], **context: Any) -> SafeString:
    return render_to_string("operations/schedule_preview.html", {"wrong": wrong, **context})


def _errors(form: Any, names: Any) -> list[str]:
    return [f"{name.replace('_', ' ')}: {text}" for name in names for text in form.errors.get(name, [])]


def _rows(schedule: Schedule, triggers: list[datetime]) -> list[tuple[object, ...]]:
    def local(instant: datetime | None) -> str:
        return f"{instant.astimezone(schedule.period.tzinfo):%a %Y-%m-%d %H:%M:%S}" if instant else ""

    return [
        (number, local(each["trigger_at"]), moment(each["trigger_at"]), local(each["closes_at"]))
        for number, each in enumerate(trigger_times(schedule, triggers), 1)
    ]
