"""A schedule and its triggers by name, for `--json`, and as text."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q

from external.formatting import moment, several
from jobs.zones import in_zone
from schedules.batches import BatchCounts
from schedules.editing import Schedules
from schedules.models import Schedule, Trigger

STATES = ("waiting", "ready", "running", "succeeded", "failed", "cancelled")


def schedule_facts(schedule: Schedule) -> dict[str, Any]:
    """Durations are seconds, instants aware; rows that it refers to are given by name, null for none.

    `next_trigger_at` is null also for one that is paused.
    """
    facts = {"id": schedule.pk, **Schedules().values(schedule)}
    pause = {"paused_until": schedule.paused_until, "paused_why": schedule.paused_why}
    return facts | pause | {"next_trigger_at": schedule.next_trigger_at if schedule.enabled else None}


def paused_words(schedule: Schedule) -> str:
    """A phrase: it is paused, until when and why, as far as that is known. Empty while it triggers."""
    if schedule.enabled:
        return ""
    until = f" until {moment(schedule.paused_until)} UTC" if schedule.paused_until else ""
    return f"paused{until}{f': {schedule.paused_why}' if schedule.paused_why else ''}"


def trigger_times(schedule: Schedule, triggers: Iterable[datetime]) -> list[dict[str, Any]]:
    """Instants of triggers: UTC, the schedule's own zone, and when the window closes (null without one)."""
    window = timedelta(seconds=schedule.window_for)
    return [
        {
            "trigger_at": at,
            "trigger_at_local": in_zone(at, schedule.period.tzinfo).isoformat(),
            "closes_at": at + window if window else None,
        }
        for at in triggers
    ]


def trigger_facts(trigger: Trigger, progress: BatchCounts | None) -> dict[str, Any]:
    """One trigger, and how many of its events are where."""
    return {
        "id": trigger.pk,
        "trigger_at": trigger.trigger_at,
        "state": state_of(trigger),
        "events": trigger.events,
        "emitted_at": trigger.emitted_at,
        "closes_at": trigger.closes_at,
        "finished_at": trigger.finished_at,
        "skipped_for": trigger.skipped_for,
        "asked_by": trigger.asked_by,
        **{name: getattr(progress, name, 0) for name in STATES},
    }


def describe_trigger(trigger: Trigger) -> str:
    """The outcome of a trigger as text, for a user who has just asked for it."""
    at = f"{moment(trigger.trigger_at)} UTC"
    events = several(trigger.events, "event")
    if state_of(trigger) == "skipped":
        return f"nothing was emitted at {at}: {trigger.skipped_for}"
    if state_of(trigger) == "queued":
        return f"the trigger of {at} waits until an earlier batch has ended"
    if trigger.emitted_at is None:
        return f"triggered at {at}; {events} are on the backlog, the workers see to the rest"
    return f"triggered at {at}: {events}"


IN_STATE = {
    "queued": Q(emitted_at__isnull=True, finished_at__isnull=True, events=0),
    "under way": Q(finished_at__isnull=True) & (Q(emitted_at__isnull=False) | Q(events__gt=0)),
    "finished": Q(emitted_at__isnull=False, finished_at__isnull=False),
    "skipped": Q(emitted_at__isnull=True, finished_at__isnull=False),
}
"""State of a trigger → which triggers are in it."""


def state_of(trigger: Trigger) -> str:
    """`queued` behind an earlier batch, `under way`, `finished` or `skipped`."""
    if trigger.finished_at is None:
        return "under way" if has_begun(trigger) else "queued"
    return "finished" if trigger.emitted_at else "skipped"


def has_begun(trigger: Trigger) -> bool:
    """True if any of its batch is on the backlog; a huge one is put there bit by bit."""
    return trigger.emitted_at is not None or trigger.events > 0
