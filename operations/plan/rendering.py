"""Schedules, their plans and triggers as text for a terminal. Pure."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from rich.console import Group, RenderableType
from rich.text import Text

from jobs.formatting import moment
from operations.backlog.rendering import Column, plain, table
from schedules.models import Schedule
from schedules.plan import Curve, Plan
from schedules.plan_facts import STATES
from schedules.plan_sentences import Sentence, span_of, told_load, told_share

MARKS = {"bad": ("! ", "red"), "warning": ("! ", "yellow"), "good": ("", "green"), "": ("", "")}

BARS = " ▁▂▃▄▅▆▇█"
HOURS_A_BAR = 3

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
            span_of(schedule.window_for),
            schedule.stagger if schedule.window_for else "",
            schedule.endpoint or schedule.kind,
            schedule.throttle or "",
            moment(schedule.next_trigger_at) if schedule.enabled else "paused",
        )
        for schedule in schedules
    )
    return table(columns, rows)


def said_view(said: Iterable[Sentence]) -> RenderableType:
    """What is said of a plan, a line each."""
    lines = []
    for sentence in said:
        mark, style = MARKS[sentence.level]
        lines.append(Text(f"{mark}{plain(sentence.text)}", style=style))
    return Group(*lines)


def triggers_view(plan: Plan) -> RenderableType:
    """Its next triggers: in its zone, in UTC, and when the window closes."""
    zone = ZoneInfo(plan.schedule.zone)

    def shown(instant: datetime | None) -> str:
        return f"{instant.astimezone(zone):%a %Y-%m-%d %H:%M}" if instant else ""

    columns = [Column("next triggers"), Column("UTC"), Column("window closes")]
    return table(columns, ((shown(at), moment(at), shown(plan.closes_at(at))) for at in plan.trigger_at))


def plan_view(plan: Plan, said: Iterable[Sentence]) -> RenderableType:
    """The load with and without stagger, a bar for each three hours, and what is said of it."""
    curves = [("all at the trigger", plan.bunched)]
    if plan.spread:
        curves.insert(0, ("spread over the window", plan.spread))
    parts: list[RenderableType] = []
    for name, curve in curves:
        chosen = " (as it is set)" if curve is plan.chosen and len(curves) > 1 else ""
        share = f", {told_share(curve)}" if any(curve.others) else ""
        parts.append(Text(f"{name}{chosen}: {plain(told_load(plan, curve))}{share}", style="bold"))
        parts.append(Text(f"  {bars(curve)}"))
    since = f"  since {plan.start.astimezone(ZoneInfo(plan.schedule.zone)):%a %Y-%m-%d %H:%M} {plan.schedule.zone}"
    parts.append(Text(f"{since}, the busiest minute of every {HOURS_A_BAR} hours", style="dim"))
    return Group(*parts, Text(""), said_view(said))


def bars(curve: Curve) -> str:
    """The busiest minute of every three hours as the height of a letter; the lowest is none."""
    both, width = curve.both, HOURS_A_BAR * 60
    columns = [max(both[first : first + width]) for first in range(0, len(both), width)]
    top = max(columns, default=0.0)
    steps = len(BARS) - 1
    return "".join(BARS[max(1, round(value / top * steps)) if value else 0] for value in columns) if top else ""


def facts_view(facts: dict[str, Any]) -> RenderableType:
    """A line a fact, by `schedule_facts`."""
    told = facts | {name: f"{facts[name]} s" for name in OF_SECONDS if facts[name] is not None}
    told["next_trigger_at"] = "paused" if not facts["enabled"] else _utc(facts["next_trigger_at"])
    shown = ((name.replace("_", " "), value) for name, value in told.items() if value not in (None, ""))
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
