"""Triggers that are to be emitted, locked, and the next few thousand events of their batches, in one statement."""

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from django.db import transaction

from external.formatting import several
from jobs import decisions, throttles
from jobs.database_errors import Trouble, trouble_of
from jobs.prepared import array, execute
from jobs.set_aside import SetAside, name_once
from jobs.wakeups import notify
from schedules import batches
from schedules.events import Part, Step, Unemitted, part_of
from schedules.models import Schedule
from schedules.statements import GET_ON, INSERT_EVENTS, SKIP, UNEMITTED, WAITING
from schedules.watermarks import ON_TIME_FOR

log = logging.getLogger(__name__)

CHUNK = 5000
"""Events a transaction: some 0.2 s, for which a worker claims nothing and an edit of the schedule waits."""
TRIGGERS_A_CHUNK = 200
LARGEST_CHUNK = 16_000_000
"""Characters of payload a transaction: PostgreSQL takes 268 million in one array, and memory is not for nothing."""

failing = SetAside()
"""Triggers that this process could not emit. Their rows stay: what is wrong may be mended, or be right elsewhere."""


class Emitted(NamedTuple):
    """How many records are new, and how many triggers got on by that or were skipped."""

    records: int
    triggers: int


def emit_chunk(now: datetime, only: Sequence[int] | None = None) -> Emitted:
    """Put the next few thousand events on the backlog, of the batches that have the fewest there."""
    try:
        return _emit_chunk(now, only, TRIGGERS_A_CHUNK)
    except Exception as error:
        if trouble_of(error) is not Trouble.OURS:
            raise
        name_once(f"cannot emit several triggers at once; each by itself: {error}", error)
    # one row past the forms must not stop the others
    return _emit_chunk(now, only, 1, skip_what_fails=True)


def _emit_chunk(now: datetime, only: Sequence[int] | None, limit: int, *, skip_what_fails: bool = False) -> Emitted:
    with transaction.atomic():
        found = locked(only, limit, now, provided=False)
        schedules = schedules_of(found)
        parts: list[Part] = []
        skipped: dict[Unemitted, str] = {}
        records = 0
        try:
            with transaction.atomic():
                parts, skipped = _parts(found, schedules, now)
                records = _insert(parts, now) if parts else 0
        except Exception as error:
            if not skip_what_fails or trouble_of(error) is not Trouble.OURS:
                raise
            name_once(f"cannot emit a trigger of {schedules[found[0].schedule_id]}: {error}", error)
            parts, skipped = [], {found[0]: f"its events cannot be stored: {error}".splitlines()[0]}
        get_on([part.step for part in parts], now)
        skip(skipped, schedules, now)
        for queue in {part.queue for part in parts}:
            notify(queue)
    return Emitted(records, len(parts) + len(skipped))


def _parts(
    found: Sequence[Unemitted], schedules: dict[int, Schedule], now: datetime
) -> tuple[list[Part], dict[Unemitted, str]]:
    """What goes into one chunk, and why what is left out of it for good is skipped."""
    parts: list[Part] = []
    skipped: dict[Unemitted, str] = {}
    room, characters = CHUNK, LARGEST_CHUNK
    for trigger in found:
        if room <= 0 or characters <= 0:
            break
        part = part_of(trigger, schedules[trigger.schedule_id], now, room, characters)
        if isinstance(part, str):
            skipped[trigger] = part
            continue
        room -= len(part.payloads)
        characters -= part.characters
        parts.append(part)
    return parts, skipped


def _insert(parts: list[Part], now: datetime) -> int:
    schedules = [part.batch.schedule for part in parts]
    numbers = [number for part in parts for number in range(part.first, part.last + 1)]
    keys = [throttles.key_of([each.throttle_id] if each.throttle_id else []) for each in schedules]
    lanes = throttles.lanes_of(keys)
    values = {
        "payloads": f"[{','.join(payload for part in parts for payload in part.payloads)}]",
        "batches": array(place for place, part in enumerate(parts, 1) for _ in part.payloads),
        "numbers": array(numbers),
        "milliseconds": array(offset for part in parts for offset in part.milliseconds),
        "kind": [schedule.kind for schedule in schedules],
        "queue": [part.queue for part in parts],
        "event_ids": [part.batch.event_ids for part in parts],
        "begins_at": [part.batch.begins_at for part in parts],
        "closes_at": [part.batch.drops_at for part in parts],
        "priority": [schedule.priority for schedule in schedules],
        "schedule_id": [schedule.pk for schedule in schedules],
        "trigger_at": [part.batch.trigger_at for part in parts],
        "retry_policy_id": [schedule.retry_policy_id for schedule in schedules],
        "lane": [lanes[key] for key in keys],
        "now": now,
    }
    inserted = execute(INSERT_EVENTS, values).rowcount
    if inserted < len(numbers):
        log.warning("%s of %s events were on the backlog already", len(numbers) - inserted, len(numbers))
    return inserted


def get_on(steps: Sequence[Step], now: datetime) -> None:
    """Note how far these triggers are."""
    if steps:
        columns = map(list, zip(*steps, strict=True))
        execute(GET_ON, {**dict(zip(Step._fields, columns, strict=True)), "now": now})


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
    found = [
        (trigger, schedules[trigger.schedule_id], reason) for trigger, reason in zip(skipped, reasons, strict=True)
    ]
    cut = [_line_of_cut(*each) for each in found if each[0].events]
    unbegun = [(schedule, trigger.trigger_at, reason) for trigger, schedule, reason in found if not trigger.events]
    decisions.doing_all([*cut, *batches.lines_of_skipped(unbegun)], now)


def _line_of_cut(trigger: Unemitted, schedule: Schedule, reason: str) -> decisions.Line:
    text = f"ended after {several(trigger.events, 'event')}: {reason}"
    return batches.line(schedule, "cut short", trigger.trigger_at, text)
