"""The next few thousand events of triggers, put on the backlog in one statement."""

import logging
from collections.abc import Sequence
from datetime import datetime

from django.db import transaction

from jobs import throttles
from jobs.database_errors import DatabaseTrouble, trouble_of
from jobs.prepared_statements import array, execute
from jobs.set_aside import name_once
from schedules.events import BatchPart, part_of
from schedules.models import Schedule
from schedules.statements import INSERT_EVENTS
from schedules.unemitted_triggers import Emission, UnemittedTrigger

log = logging.getLogger(__name__)

CHUNK = 5000
"""Events per transaction, which takes about 0.2 s: this worker claims nothing and an edit of the schedule waits that
long.
"""
TRIGGERS_A_CHUNK = 200
"""The most triggers in one transaction: a fleet of small batches, all due at once, takes few transactions."""
LARGEST_CHUNK = 16_000_000
"""Characters of payload in one transaction: PostgreSQL accepts 268 million in one array, at the cost of memory."""


def put_events(found: Sequence[UnemittedTrigger], schedules: dict[int, Schedule], now: datetime) -> Emission:
    """Put the next few thousand events of these triggers on the backlog, in the order of the triggers. Raises: the
    database's errors about them; then none of them is on the backlog.
    """
    with transaction.atomic():
        parts, skipped = _parts(found, schedules, now)
        records = _insert(parts, now) if parts else 0
    return Emission(records, frozenset(part.queue for part in parts), [part.step for part in parts], skipped)


def put_or_skip(found: Sequence[UnemittedTrigger], schedules: dict[int, Schedule], now: datetime) -> Emission:
    """Put the events of one trigger on the backlog, or skip it if they cannot be stored."""
    try:
        return put_events(found, schedules, now)
    except Exception as error:
        if trouble_of(error) is not DatabaseTrouble.OURS:
            raise
        name_once(f"cannot emit a trigger of {schedules[found[0].schedule_id]}: {error}", error)
        reason = f"its events cannot be stored: {error}".splitlines()[0]
        return Emission(0, frozenset(), [], {found[0]: reason})


def _parts(
    found: Sequence[UnemittedTrigger], schedules: dict[int, Schedule], now: datetime
) -> tuple[list[BatchPart], dict[UnemittedTrigger, str]]:
    """The parts of one chunk, and the triggers that emit nothing more, each with the reason."""
    parts: list[BatchPart] = []
    skipped: dict[UnemittedTrigger, str] = {}
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


def _insert(parts: list[BatchPart], now: datetime) -> int:
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
