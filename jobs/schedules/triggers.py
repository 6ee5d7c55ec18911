"""First step of an emission: triggers that are due are written down, and the watermarks moved, in one transaction.

The row of a trigger is the intent: once it is there, somebody will put its batch on the backlog (`emission`), however
often emitters are killed. Killed before the commit, nothing has happened and the watermark stands where it stood.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection, transaction
from django.db.models import F, Q

from jobs import decisions
from jobs.handlers import registry
from jobs.models import Overlap, Schedule
from jobs.schedules import batches
from jobs.schedules.statements import INTEND, MOVE_WATERMARKS
from jobs.schedules.watermarks import COUNTED, LOOK_AT_BROKEN_AGAIN, Due, can_emit, due

SCHEDULES_A_TRANSACTION = 1000

_unreadable_until: dict[int, datetime] = {}
"""Schedules whose cron or zone this process cannot read, and until when it does not try again. The shared watermark
stays: another host may know a zone that this one does not."""

STILL_UNDER_WAY = "an earlier batch of this schedule had not ended"


@dataclass(frozen=True)
class Intent:
    """A trigger to write down. `skipped_for`: why it emits nothing; empty: it is to be emitted."""

    schedule: Schedule
    trigger_at: datetime
    skipped_for: str = ""


def unreadable(now: datetime) -> list[int]:
    """The ids of the schedules that this process need not look at before another minute is over."""
    return [schedule_id for schedule_id, until in _unreadable_until.items() if until > now]


def see_triggers(now: datetime, seconds: float = float("inf")) -> int:
    """Write down the triggers that are due at `now`. Returns how many. What others see to at this moment is left, and
    after some `seconds` the rest, to the next call."""
    until = time.monotonic() + seconds
    seen = 0
    while True:
        schedules, triggers = _see_some(now)
        seen += triggers
        if schedules < SCHEDULES_A_TRANSACTION or time.monotonic() >= until:
            return seen


def _see_some(now: datetime) -> tuple[int, int]:
    is_due = Schedule.objects.filter(Q(next_trigger_at__lte=now) | Q(next_trigger_at=None), enabled=True)
    with transaction.atomic():
        # no_key: FOR UPDATE would block the foreign-key check of another emitter's insert, which may block ours
        locked = is_due.exclude(pk__in=unreadable(now)).select_for_update(skip_locked=True, no_key=True)
        locked = locked.order_by(F("next_trigger_at").asc(nulls_first=True), "pk")  # who catches up starves nobody
        schedules = list(locked[:SCHEDULES_A_TRANSACTION])
        if not schedules:
            return 0, 0
        readable = [schedule for schedule in schedules if can_emit(schedule)]
        others = {schedule.pk for schedule in schedules} - {schedule.pk for schedule in readable}
        _unreadable_until.update(dict.fromkeys(others, now + LOOK_AT_BROKEN_AGAIN))
        found = [(schedule, due(schedule, now)) for schedule in readable]
        intents = _intents(found, now)
        _write_down(intents, now)
        _move_watermarks({schedule.pk: each.next_trigger_at for schedule, each in found})
        decisions.doing_all(_lines(found, intents), now)
    return len(schedules), len(intents)


def _intents(found: list[tuple[Schedule, Due]], now: datetime) -> list[Intent]:
    busy = busy_ones([schedule for schedule, each in found if each.triggers], now)
    intents = []
    for schedule, each in found:
        for trigger_at in each.triggers:
            intents.append(Intent(schedule, trigger_at, reason_to_skip(schedule, busy)))
            if schedule.overlap == Overlap.SKIP:
                busy.add(schedule.pk)  # by the one that was just seen
    return intents


def busy_ones(schedules: Iterable[Schedule], now: datetime) -> set[int]:
    """The ids of those that skip a trigger now, since a batch of theirs is unfinished. Asked under their locks."""
    ids = [schedule.pk for schedule in schedules if schedule.overlap == Overlap.SKIP]
    return batches.schedules_under_way(ids, now) if ids else set()


def reason_to_skip(schedule: Schedule, busy: set[int]) -> str:
    """Why a trigger of it emits nothing. Empty: it does."""
    if schedule.provider and schedule.provider not in registry.providers:
        return f"there is no provider {schedule.provider!r} here: is its app installed?"
    return STILL_UNDER_WAY if schedule.pk in busy else ""


def _write_down(intents: list[Intent], now: datetime) -> None:
    if not intents:
        return
    columns: dict[str, Any] = {
        "schedule_id": [intent.schedule.pk for intent in intents],
        "trigger_at": [intent.trigger_at for intent in intents],
        "skipped_for": [intent.skipped_for for intent in intents],
        "asked_again": [intent.schedule.pk for intent in intents if intent.schedule.provider],
    }
    with connection.cursor() as cursor:
        cursor.execute(INTEND, {**columns, "now": now})


def _move_watermarks(watermarks: dict[int, datetime]) -> None:
    columns: dict[str, Any] = {"schedule_id": list(watermarks), "next_trigger_at": list(watermarks.values())}
    with connection.cursor() as cursor:
        cursor.execute(MOVE_WATERMARKS, columns)


def _lines(found: list[tuple[Schedule, Due]], intents: list[Intent]) -> list[decisions.Line]:
    passed = [_passed_over(schedule, each) for schedule, each in found if each.passed_over]
    return passed + [
        batches.line(intent.schedule, "skipped", intent.trigger_at, f"emitted nothing: {intent.skipped_for}")
        for intent in intents
        if intent.skipped_for
    ]


def _passed_over(schedule: Schedule, found: Due) -> decisions.Line:
    count = f"{COUNTED:,} or more" if found.passed_over >= COUNTED else str(found.passed_over)
    what = "missed triggers of" if found.passed_over > 1 else "missed trigger of"
    limit = "only the last is made up for"
    if schedule.catch_up_for is not None:
        limit = f"older than {schedule.catch_up_for} s" if schedule.catch_up_for else "it does not catch up"
    text = f"{count} {what} {schedule} passed over: {limit}"
    return decisions.Line(
        "passed over", text, schedule.kind, batches.subject_of(schedule), {"count": found.passed_over}
    )
