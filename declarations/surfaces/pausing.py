"""Pauses on every surface: when one ends automatically, and its reason."""

from argparse import ArgumentParser
from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypedDict

from django.utils.html import format_html
from django.utils.safestring import SafeString

from external import durations
from jobs.backlog.pausing import MAX_REASON, checked_end
from jobs.clock import database_clock

UNTIL_MEANS = (
    "until when, such as 7d or 2026-12-24T08:00 (UTC), when it resumes automatically; left out: until it is resumed"
)
REASON_MEANS = "the reason, for whoever looks next"


class PauseArguments(TypedDict):
    """Keyword arguments of each verb that pauses."""

    until: datetime | None
    reason: str


def add_options(parser: ArgumentParser) -> None:
    """Add the options to a command."""
    parser.add_argument("--until", metavar="WHEN", help=UNTIL_MEANS)
    parser.add_argument("--reason", default="", metavar="TEXT", help=REASON_MEANS)


def asked(given: Mapping[str, Any]) -> PauseArguments:
    """The pause from the options of a command, or the fields of a form. Raises: ValueError for an instant that is
    invalid, or in the past.
    """
    until, now = str(given.get("until") or "").strip(), database_clock()
    return {
        "until": checked_end(durations.coming(until, now), now) if until else None,
        "reason": str(given.get("reason") or "").strip(),
    }


def fields(classes: str, *, required: bool = False) -> SafeString:
    """The fields of a form. `required`: the reason is."""
    html = (
        '<input type="text" name="reason" maxlength="{}" placeholder="reason" aria-label="Reason" class="{}" {}>'
        '<input type="text" name="until" maxlength="40" placeholder="until: 7d, or 2026-12-24T08:00 (UTC)" '
        'aria-label="Until" class="{}">'
    )
    return format_html(html, MAX_REASON, classes, "required" if required else "", classes)
