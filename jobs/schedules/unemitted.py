"""Triggers that are to be emitted, and the locks under which that is done."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from jobs import decisions
from jobs.models import Schedule
from jobs.prepared import execute
from jobs.schedules import batches
from jobs.schedules.statements import SKIP, UNEMITTED, WAITING


class Unemitted(NamedTuple):
    """A trigger, locked with its schedule. `events`: how many of them are on the backlog."""

    id: int
    schedule_id: int
    trigger_at: datetime
    seen_at: datetime
    events: int


class Emitted(NamedTuple):
    """How many records are new, and how many triggers got on by that or were skipped."""

    records: int
    triggers: int


def locked(only: Sequence[int] | None, limit: int, *, provided: bool) -> list[Unemitted]:
    """The triggers that may be emitted now, locked with their schedules."""
    values = {"only": only, "limit": limit, "provided": provided}
    found = [Unemitted(*row) for row in execute(UNEMITTED, values).fetchall()]
    if not found:
        return []
    waiting = {row[0] for row in execute(WAITING, {"ids": [trigger.id for trigger in found]}).fetchall()}
    return [trigger for trigger in found if trigger.id not in waiting]


def schedules_of(found: Sequence[Unemitted]) -> dict[int, Schedule]:
    ids = {trigger.schedule_id for trigger in found}
    return Schedule.objects.select_related("endpoint").in_bulk(ids) if ids else {}


def skip(skipped: dict[Unemitted, str], schedules: dict[int, Schedule], now: datetime) -> None:
    if not skipped:
        return
    reasons = [reason[:200] for reason in skipped.values()]
    execute(SKIP, {"id": [trigger.id for trigger in skipped], "reason": reasons, "now": now})
    lines = [
        batches.line(schedules[trigger.schedule_id], "skipped", trigger.trigger_at, f"emitted nothing: {reason}")
        for trigger, reason in zip(skipped, reasons, strict=True)
    ]
    decisions.doing_all(lines, now)
