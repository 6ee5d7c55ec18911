"""Triggers that are to be emitted, and the locks under which that is done."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from jobs import decisions
from jobs.prepared import execute
from jobs.set_aside import SetAside
from schedules import batches
from schedules.models import Schedule
from schedules.statements import SKIP, UNEMITTED, WAITING
from schedules.watermarks import ON_TIME_FOR

failing = SetAside()
"""Triggers that this process could not emit. Their rows stay: what is wrong may be mended, or be right elsewhere."""


class Unemitted(NamedTuple):
    """A trigger, locked with its schedule. `events`: how many of them are on the backlog. `frozen_config`: as JSON."""

    id: int
    schedule_id: int
    trigger_at: datetime
    seen_at: datetime
    events: int
    frozen_config: str | None = None


class Emitted(NamedTuple):
    """How many records are new, and how many triggers got on by that or were skipped."""

    records: int
    triggers: int


def locked(only: Sequence[int] | None, limit: int, now: datetime, *, provided: bool) -> list[Unemitted]:
    """The triggers that may be emitted now, locked with their schedules."""
    values = {
        "only": only, "limit": limit, "provided": provided, "on_time_for": ON_TIME_FOR, "set_aside": failing.at(now),
    }  # fmt: skip
    found = [Unemitted(*row) for row in execute(UNEMITTED, values).fetchall()]
    if not found:
        return []
    waiting = {row[0] for row in execute(WAITING, {"ids": [trigger.id for trigger in found]}).fetchall()}
    return [trigger for trigger in found if trigger.id not in waiting]


def schedules_of(found: Sequence[Unemitted]) -> dict[int, Schedule]:
    ids = {trigger.schedule_id for trigger in found}
    return Schedule.objects.select_related("endpoint").in_bulk(ids) if ids else {}


def skip(skipped: dict[Unemitted, str], schedules: dict[int, Schedule], now: datetime) -> None:
    """Let these triggers emit nothing more, each for its reason. Where events are out, they are the batch."""
    if not skipped:
        return
    reasons = [reason[:200] for reason in skipped.values()]
    execute(SKIP, {"id": [trigger.id for trigger in skipped], "reason": reasons, "now": now})
    lines = [
        _line(trigger, schedules[trigger.schedule_id], reason) for trigger, reason in zip(skipped, reasons, strict=True)
    ]
    decisions.doing_all(lines, now)


def _line(trigger: Unemitted, schedule: Schedule, reason: str) -> decisions.Line:
    if trigger.events:
        told = f"ended after {trigger.events:,} events: {reason}"
        return batches.line(schedule, "cut short", trigger.trigger_at, told)
    return batches.line(schedule, "skipped", trigger.trigger_at, f"emitted nothing: {reason}")
