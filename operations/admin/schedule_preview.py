"""The plan of a schedule, as its page shows it while it is edited."""

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from django.template.loader import render_to_string
from django.utils.safestring import SafeString, mark_safe

from operations.admin.base import moment
from operations.backoff import pictures
from schedules.models import Schedule
from schedules.plan import Plan
from schedules.plan_figures import told_plan

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
        plan, said = told_plan(schedule, now)
    except ValueError as error:  # what was stored past the form
        return _shown([str(error)])
    return _shown(
        beside or [],
        said=said,
        table={"headers": HEADERS, "rows": _rows(plan)},
        zone=schedule.zone,
        picture=pictures.missing() or _drawn(plan),
        shared=bool(plan.others),
    )


def _drawn(plan: Plan) -> SafeString:
    from operations.plan import chart

    return mark_safe(chart.inline(plan))  # noqa: S308 - drawn by us; names in it are escaped


def _shown(wrong: list[str], **context: Any) -> SafeString:
    return render_to_string("operations/schedule_preview.html", {"wrong": wrong, **context})


def _errors(form: Any, names: Any) -> list[str]:
    return [f"{name.replace('_', ' ')}: {text}" for name in names for text in form.errors.get(name, [])]


def _rows(plan: Plan) -> list[tuple[object, ...]]:
    zone = ZoneInfo(plan.schedule.zone)
    rows: list[tuple[object, ...]] = []
    for number, trigger_at in enumerate(plan.trigger_at, 1):
        closes_at = plan.closes_at(trigger_at)
        closes = f"{closes_at.astimezone(zone):%a %Y-%m-%d %H:%M:%S}" if closes_at else ""
        rows.append((number, f"{trigger_at.astimezone(zone):%a %Y-%m-%d %H:%M}", moment(trigger_at), closes))
    return rows
