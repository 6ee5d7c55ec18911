"""The coming periods of a policy with their openings, as the policy's page shows them while it is edited."""

from collections import Counter
from datetime import date, datetime

from django import forms
from django.template.loader import render_to_string
from django.utils.safestring import SafeString, mark_safe

from backups.upkeep import retention_decisions
from sources.models import Policy
from sources.models.source import SourceKind
from sources.planning.previews import HEADERS, holidays_of, lost_of, preview, rows_of

WHEN_FIELDS = ("cron", "zone", "window", "excluded_dates")
"""The fields that decide when its periods begin and its window is open."""

SHOWN_PERIODS = 10
SHOWN_SOURCES = 10
SHOWN_POINTS = 5
KEPT_HEADERS = ("source", "points that stay", "since they are", "points that go", "these (UTC)")


def preview_of(form: forms.ModelForm, now: datetime | None = None) -> SafeString:  # type: ignore[type-arg]
    """The next ten periods of the values in `form`, saved or not; or the errors of the fields that decide them."""
    wrong = [f"{name.replace('_', ' ')}: {text}" for name in WHEN_FIELDS for text in form.errors.get(name, [])]
    policy: Policy = form.instance
    rows: list[tuple[str, ...]] = []
    holidays: list[tuple[date, str]] = []
    if not wrong:
        try:
            periods = preview(policy, SHOWN_PERIODS, now=now)
        except ValueError as error:  # values that were not stored by the form
            wrong = [f"{error}"]
        else:
            rows, holidays = list(rows_of(policy, periods)), holidays_of(policy, periods)
    context = {
        "wrong": wrong,
        "zone": policy.schedule.zone,
        "table": {"headers": HEADERS, "rows": rows},
        "holidays": holidays,
        "not_kept": [(SourceKind(kind).label, "; ".join(lost)) for kind, lost in lost_of(policy).items()],
    }
    return mark_safe(render_to_string("fleet/preview.html", context) + _kept_of(policy))  # noqa: S308 - both escape


def _kept_of(policy: Policy) -> str:
    """The effect of its rules, saved or not, on the existing points."""
    rows = []
    assignments = policy.assignments.select_related("source").order_by("source__name") if policy.pk else None
    for assignment in assignments[:SHOWN_SOURCES] if assignments is not None else ():
        assignment.policy = policy
        try:
            found = retention_decisions.decide(assignment)
        except ValueError:  # the field shows the error
            break
        goes = [f"{each.point.started_at:%Y-%m-%d %H:%M}" for each in found if not each.reasons]
        reasons = Counter(reason for each in found for reason in each.reasons)
        why = ", ".join(f"{number} {reason}" for reason, number in reasons.items())
        names = ", ".join(goes[:SHOWN_POINTS]) + (", …" if len(goes) > SHOWN_POINTS else "")
        rows.append((assignment.source.name, len(found) - len(goes), why, len(goes), names))
    return render_to_string("fleet/kept.html", {"table": {"headers": KEPT_HEADERS, "rows": rows}}) if rows else ""
