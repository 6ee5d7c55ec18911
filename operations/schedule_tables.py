"""Schedules and their triggers as text for a terminal. Pure."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from rich.console import RenderableType

from jobs.durations import span
from jobs.formatting import moment
from operations.terminal import Column, table
from schedules.facts import STATES, trigger_times
from schedules.models import Schedule

OF_SECONDS = ("window_for", "catch_up_for")
"""Of the facts of a schedule: its durations."""


def list_view(schedules: Iterable[Schedule]) -> RenderableType:
    """A line a schedule."""
    columns = [Column("name"), Column("cron"), Column("zone"), Column("events", number=True), Column("window")]
    columns += [Column("stagger"), Column("goes to"), Column("throttle"), Column("next trigger (UTC)")]
    rows = (
        (
            schedule.name,
            schedule.cron,
            schedule.zone,
            schedule.provider or f"{schedule.event_count or 0:,}",
            span(schedule.window_for or None),
            schedule.stagger if schedule.window_for else "",
            schedule.endpoint or schedule.kind,
            schedule.throttle or "",
            moment(schedule.next_trigger_at) if schedule.enabled else "paused",
        )
        for schedule in schedules
    )
    return table(columns, rows)


def triggers_view(schedule: Schedule, triggers: Iterable[datetime]) -> RenderableType:
    """Its next triggers: in its zone, in UTC, and when the window closes."""

    def shown(instant: datetime | None) -> str:
        return f"{instant.astimezone(schedule.period.tzinfo):%a %Y-%m-%d %H:%M}" if instant else ""

    columns = [Column("next triggers"), Column("UTC"), Column("window closes")]
    rows = (
        (shown(each["trigger_at"]), moment(each["trigger_at"]), shown(each["closes_at"]))
        for each in trigger_times(schedule, triggers)
    )
    return table(columns, rows)


def facts_view(facts: dict[str, Any]) -> RenderableType:
    """A line a fact, by `schedule_facts`."""
    shown_facts = facts | {name: f"{facts[name]} s" for name in OF_SECONDS if facts[name] is not None}
    shown_facts["next_trigger_at"] = "paused" if not facts["enabled"] else _utc(facts["next_trigger_at"])
    shown = ((name.replace("_", " "), value) for name, value in shown_facts.items() if value not in (None, ""))
    return table([Column(""), Column("")], shown)


def _utc(instant: datetime | None) -> str:
    return f"{moment(instant)} UTC" if instant else ""


def past_view(facts: Iterable[dict[str, Any]]) -> RenderableType:
    """A line a trigger that has been, by `trigger_facts`."""
    columns = [Column("trigger (UTC)"), Column("state"), Column("events", number=True)]
    columns += [Column(name, number=True) for name in STATES] + [Column("window closes (UTC)"), Column("")]
    rows = (
        (
            moment(each["trigger_at"]),
            each["state"],
            f"{each['events']:,}",
            *(f"{each[name]:,}" for name in STATES),
            moment(each["closes_at"]),
            each["skipped_for"] or (f"asked for by {each['asked_by']}" if each["asked_by"] else ""),
        )
        for each in facts
    )
    return table(columns, rows)
