"""The hold of everything, as users see it: the same sentence on every page, in commands and in the doctor."""

from typing import Any

from django.http import HttpRequest

from jobs.backlog.pausing import held
from jobs.models import Hold

__all__ = ["clause", "held", "in_pages", "sentence"]


def sentence(hold: Hold) -> str:
    """A sentence about the hold: since when, by whom and why nothing starts."""
    return (
        f"Everything has been on hold since {hold.since:%Y-%m-%d %H:%M} UTC, by {hold.by}: {hold.reason}. No backup, "
        "retention, check, drill, restore or delivery starts before it is released"
        f"{f', automatically at {hold.until:%Y-%m-%d %H:%M} UTC' if hold.until else ''}."
    )


def clause(hold: Hold) -> str:
    """The same as one reason among others, without a full stop."""
    until = f", automatically at {hold.until:%Y-%m-%d %H:%M} UTC" if hold.until else ""
    return (
        f"everything has been on hold since {hold.since:%Y-%m-%d %H:%M} UTC, by {hold.by} ({hold.reason}): nothing "
        f"starts before it is released{until}"
    )


def in_pages(request: HttpRequest) -> dict[str, Any]:
    """Context for templates: `hold_sentence`, which asks the database when it is used; empty when nothing is held."""

    def hold_sentence() -> str:
        found = held()
        return sentence(found) if found else ""

    return {"hold_sentence": hold_sentence}
