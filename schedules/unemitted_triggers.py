"""Triggers that are not emitted yet: locked with their schedules, advanced, skipped or set aside.

`emitter` locks them and stores how far they are, in one transaction with the records that `chunks` and `providers` put
on the backlog for them.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from external.formatting import several
from jobs import decisions
from jobs.prepared_statements import execute
from jobs.set_aside import SetAside
from schedules import batches
from schedules.models import Schedule
from schedules.statements import SKIP, STORE_STEPS, UNEMITTED, WAITING
from schedules.watermarks import ON_TIME_FOR

_failing = SetAside()
"""Triggers that this process could not emit. Their rows stay: the fault may be corrected, or not exist on another
host."""


class UnemittedTrigger(NamedTuple):
    """A trigger, locked with its schedule. `events`: the number of its events on the backlog. `frozen_config`: JSON."""

    id: int
    schedule_id: int
    trigger_at: datetime
    seen_at: datetime
    events: int
    frozen_config: str | None = None


class TriggerStep(NamedTuple):
    """The place a trigger has reached: `events` of its batch are on the backlog, or all (`complete`)."""

    id: int
    events: int
    closes_at: datetime | None
    seen_at: datetime
    begins_at: datetime
    stagger: str
    late: str
    frozen_config: str | None
    complete: bool


class Emission(NamedTuple):
    """The number of new records on the backlog, and their `queues`; `steps`: how far their triggers are; `skipped`: the
    triggers that emit nothing more, each with the reason."""

    records: int
    queues: frozenset[str]
    steps: list[TriggerStep]
    skipped: dict[UnemittedTrigger, str]

    @property
    def triggers(self) -> int:
        """The number of triggers that were advanced or skipped."""
        return len(self.steps) + len(self.skipped)


def locked(
    only: Sequence[int] | None, limit: int, now: datetime, *, provided: bool
) -> tuple[list[UnemittedTrigger], dict[int, Schedule]]:
    """Up to `limit` triggers that may be emitted now, and their schedules by id, all locked. `provided`: triggers of
    providers, or else of events."""
    values = {
        "only": only, "limit": limit, "provided": provided, "on_time_for": ON_TIME_FOR, "set_aside": _failing.at(now),
    }  # fmt: skip
    found = [UnemittedTrigger(*row) for row in execute(UNEMITTED, values).fetchall()]
    if found:
        waiting = {row[0] for row in execute(WAITING, {"ids": [trigger.id for trigger in found]}).fetchall()}
        found = [trigger for trigger in found if trigger.id not in waiting]
    return found, schedules_of(found)


def schedules_of(found: Sequence[UnemittedTrigger]) -> dict[int, Schedule]:
    """The schedules of these triggers, by id, with their endpoints."""
    ids = {trigger.schedule_id for trigger in found}
    return Schedule.objects.select_related("endpoint").in_bulk(ids) if ids else {}


def store(emission: Emission, schedules: dict[int, Schedule], now: datetime) -> None:
    """Store the progress of an emission's triggers, and skip those that emit nothing more."""
    if emission.steps:
        columns = map(list, zip(*emission.steps, strict=True))
        execute(STORE_STEPS, {**dict(zip(TriggerStep._fields, columns, strict=True)), "now": now})
    skip(emission.skipped, schedules, now)


def skip(skipped: dict[UnemittedTrigger, str], schedules: dict[int, Schedule], now: datetime) -> None:
    """Let these triggers emit nothing more, each for its reason. The events emitted so far are then the whole batch."""
    if not skipped:
        return
    reasons = [reason[:200] for reason in skipped.values()]
    execute(SKIP, {"id": [trigger.id for trigger in skipped], "reason": reasons, "now": now})
    found = [
        (trigger, schedules[trigger.schedule_id], reason) for trigger, reason in zip(skipped, reasons, strict=True)
    ]
    cut = [_line_of_cut(*each) for each in found if each[0].events]
    unbegun = [(schedule, trigger.trigger_at, reason) for trigger, schedule, reason in found if not trigger.events]
    decisions.log_all([*cut, *batches.lines_of_skipped(unbegun)], now)


def _line_of_cut(trigger: UnemittedTrigger, schedule: Schedule, reason: str) -> decisions.DecisionLine:
    text = f"ended after {several(trigger.events, 'event')}: {reason}"
    return batches.line(schedule, "cut short", trigger.trigger_at, text)


def set_aside(triggers: Iterable[UnemittedTrigger], now: datetime) -> None:
    """Leave these triggers alone for a minute, in this process."""
    _failing.put([trigger.id for trigger in triggers], now)
