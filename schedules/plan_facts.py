"""A schedule and its plan by name: for `--json`, the API and whoever reads them by program. Pure."""

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from jobs.formatting import moment
from schedules.batches import Progress
from schedules.models import Schedule, Trigger
from schedules.plan import Curve, Plan
from schedules.plan_sentences import Sentence

HOUR = 60
STATES = ("waiting", "ready", "running", "succeeded", "failed", "cancelled")


def schedule_facts(schedule: Schedule) -> dict[str, Any]:
    """Durations are seconds, instants aware; what it names is told by name, null for none.

    `next_trigger_at` is null also for one that is paused.
    """
    return {
        "id": schedule.pk,
        "name": schedule.name,
        "enabled": schedule.enabled,
        "cron": schedule.cron,
        "zone": schedule.zone,
        "kind": schedule.kind,
        "provider": schedule.provider,
        "event_count": schedule.event_count,
        "endpoint": schedule.endpoint.name if schedule.endpoint else None,
        "payload_template": schedule.payload_template,
        "window_for": schedule.window_for,
        "stagger": schedule.stagger,
        "late": schedule.late,
        "overlap": schedule.overlap,
        "catch_up_for": schedule.catch_up_for,
        "throttle": schedule.throttle.name if schedule.throttle else None,
        "retry_policy": schedule.retry_policy.name if schedule.retry_policy else None,
        "priority": schedule.priority,
        "next_trigger_at": schedule.next_trigger_at if schedule.enabled else None,
    }


def plan_facts(plan: Plan, said: list[Sentence]) -> dict[str, Any]:
    """The plan: what is said of it, its load, and its verdict (null when its throttle is paused).

    `pace` is null when nothing is known to hold the events back. Loads have the busiest minute of each hour.
    """
    verdict = plan.verdict
    pace = verdict.pace if verdict else 0.0
    return {
        "schedule": plan.schedule.name,
        "start": plan.start,
        "triggers": plan.triggers,
        "next_triggers": list(plan.trigger_at),
        "events": plan.schedule.events,
        "shares_its_throttle_with": [other.name for other in plan.others],
        "seconds_each": plan.schedule.seconds_each,
        "seconds_each_is_assumed": plan.schedule.assumed,
        "pace": pace if pace != float("inf") else None,
        "verdict": None
        if verdict is None
        else {
            "needed_pace": verdict.needed,
            "batch_takes": verdict.alone_for,
            "batches": verdict.judged,
            "batches_too_late": len(verdict.late),
            "first_too_late": plan.at(verdict.late[0].trigger) if verdict.late else None,
            "longest": verdict.slowest.seconds if verdict.slowest else None,
            "busy": verdict.busy,
        },
        "load": {
            "all_at_the_trigger": _curve(plan, plan.bunched),
            "spread_over_the_window": _curve(plan, plan.spread) if plan.spread else None,
        },
        "said": [{"level": sentence.level, "text": sentence.text} for sentence in said],
    }


def trigger_times(plan: Plan) -> list[dict[str, Any]]:
    """The next triggers: UTC, the schedule's own zone, and when the window closes (null without one)."""
    zone = ZoneInfo(plan.schedule.zone)
    return [
        {"trigger_at": at, "trigger_at_local": at.astimezone(zone).isoformat(), "closes_at": plan.closes_at(at)}
        for at in plan.trigger_at
    ]


def trigger_facts(trigger: Trigger, progress: Progress | None) -> dict[str, Any]:
    """One trigger, and how many of its events are where."""
    return {
        "id": trigger.pk,
        "trigger_at": trigger.trigger_at,
        "state": _state(trigger),
        "events": trigger.events,
        "emitted_at": trigger.emitted_at,
        "closes_at": trigger.closes_at,
        "finished_at": trigger.finished_at,
        "skipped_for": trigger.skipped_for,
        "asked_by": trigger.asked_by,
        **{name: getattr(progress, name, 0) for name in STATES},
    }


def told_trigger(trigger: Trigger) -> str:
    """What became of a trigger, in words: for who has just asked for it."""
    at = f"{moment(trigger.trigger_at)} UTC"
    events = f"{trigger.events:,} event{'s' if trigger.events != 1 else ''}"
    return {
        "skipped": f"nothing was emitted at {at}: {trigger.skipped_for}",
        "queued": f"the trigger of {at} waits until an earlier batch has ended",
        "emitting": f"triggered at {at}; {events} are on the backlog, the workers see to the rest",
    }.get(_state(trigger), f"triggered at {at}: {events}")


def _state(trigger: Trigger) -> str:
    if trigger.skipped_for:
        return "skipped"
    if trigger.emitted_at is None:
        return "emitting" if trigger.events else "queued"
    return "finished" if trigger.finished_at else "under way"


def _curve(plan: Plan, curve: Curve) -> dict[str, Any]:
    both = curve.both
    busiest: datetime | None = plan.at(curve.busiest) if curve.peak else None
    return {
        "peak": curve.peak,
        "busiest_minute": busiest,
        "mean": curve.mean,
        "busiest_minute_of_each_hour": [max(both[first : first + HOUR]) for first in range(0, len(both), HOUR)],
    }
