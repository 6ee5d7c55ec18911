"""First step of an emission: records the triggers that are due, and moves the watermarks, in one transaction.

The row of a trigger is the intent: once it is there, an emitter will put its batch on the backlog (`emitter`), however
often emitters are killed. If one is killed before the commit, nothing has happened and the watermark is unchanged.
"""

import time
from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from django.db import transaction
from django.db.models import F, Q

from jobs import decisions
from jobs.prepared_statements import execute
from jobs.set_aside import SetAside, name_once
from schedules import batches, providers
from schedules.models import Overlap, Schedule
from schedules.statements import INTEND, MOVE_WATERMARKS, TOO_LONG_QUEUED
from schedules.unemitted_triggers import UnemittedTrigger, skip
from schedules.watermarks import DueTriggers, due

SCHEDULES_A_TRANSACTION = 100
"""The most schedules per transaction, which takes about 30 ms: an edit of one of them waits that long."""
INTENTS_A_TRANSACTION = 1000
INTENTS_AT_ONCE = 2000
"""The most triggers that a tick records: with more than it can emit, unemitted ones would pile up while it catches up.
"""

LONGEST_QUEUE = 100
"""The most triggers of one schedule that wait for its batches to end. 10,080 would cost each tick 30 ms."""

_unreadable = SetAside()
"""Schedules whose cron or zone this process cannot read. Their watermark stays: another host may know a zone that this
one does not."""

STILL_UNDER_WAY = "an earlier batch of this schedule had not ended"


class Intent(NamedTuple):
    """A trigger to record. `skipped_for`: the reason why it emits nothing, empty if it is to be emitted."""

    schedule: Schedule
    trigger_at: datetime
    skipped_for: str = ""


def unreadable(now: datetime) -> list[int]:
    """The ids of the schedules that this process need not look at before another minute is over."""
    return _unreadable.at(now)


def record_due_triggers(now: datetime, seconds: float = float("inf")) -> int:
    """Record the triggers that are due at `now`. Returns their number. Those that others handle at this moment are left
    to the next call, and so is the rest after some `seconds` or thousands of triggers."""
    until = time.monotonic() + seconds
    seen = 0
    while seen < INTENTS_AT_ONCE:
        schedules, triggers = _see_some(now, until)
        seen += triggers
        if schedules < SCHEDULES_A_TRANSACTION or time.monotonic() >= until:
            break
    return seen


def _see_some(now: datetime, until: float) -> tuple[int, int]:
    is_due = Schedule.objects.filter(Q(next_trigger_at__lte=now) | Q(next_trigger_at=None), enabled=True)
    with transaction.atomic():
        # no_key: FOR UPDATE would block the foreign-key check of another emitter's insert, which may block this one
        locked = is_due.exclude(pk__in=unreadable(now)).select_for_update(skip_locked=True, no_key=True)
        # the latest first: a trigger on time does not wait until others have caught up
        locked = locked.order_by(F("next_trigger_at").desc(nulls_first=True), "pk")
        schedules = list(locked[:SCHEDULES_A_TRANSACTION])
        if not schedules:
            return 0, 0
        found = _due(schedules, now, until)
        intents = _intents(found, now)
        if intents:
            columns = {
                "schedule_id": [intent.schedule.pk for intent in intents],
                "trigger_at": [intent.trigger_at for intent in intents],
                "skipped_for": [intent.skipped_for for intent in intents],
                "asked_again": [intent.schedule.pk for intent in intents if intent.schedule.provider],
            }
            execute(INTEND, {**columns, "now": now})
        moved = {"schedule_id": [schedule.pk for schedule, _ in found]}
        execute(MOVE_WATERMARKS, moved | {"next_trigger_at": [each.next_trigger_at for _, each in found]})
        if lines := _lines(found, intents):
            decisions.log_all(lines, now)
        _shorten_queues([schedule for schedule, each in found if each.triggers], now)
    return len(schedules), len(intents)


def _due(schedules: list[Schedule], now: datetime, until: float) -> list[tuple[Schedule, DueTriggers]]:
    """The due triggers of these schedules, or of as many of them as fit into the time and a transaction."""
    found: list[tuple[Schedule, DueTriggers]] = []
    triggers = 0
    for schedule in schedules:
        if found and (triggers >= INTENTS_A_TRANSACTION or time.monotonic() >= until):
            break
        try:
            each = due(schedule, now)
        except Exception as error:  # not of the database: its cron cannot be read, or yields a time that does not exist
            _set_aside(schedule, error, now)
        else:
            found.append((schedule, each))
            triggers += len(each.triggers)
    return found


def _set_aside(schedule: Schedule, error: Exception, now: datetime) -> None:
    """Set a schedule aside. A ValueError names what cannot be read; any other error may be the fault of code."""
    if isinstance(error, ValueError):
        name_once(f"schedule {schedule} emits nothing: {error}")
    else:
        name_once(f"schedule {schedule} emits nothing: {type(error).__name__}: {error}", error)
    _unreadable.put([schedule.pk], now)


def _intents(found: list[tuple[Schedule, DueTriggers]], now: datetime) -> list[Intent]:
    busy = busy_ones([schedule for schedule, each in found if each.triggers], now)
    intents = []
    for schedule, each in found:
        for trigger_at in each.triggers:
            intents.append(Intent(schedule, trigger_at, reason_to_skip(schedule, busy)))
            if schedule.overlap == Overlap.SKIP:
                busy.add(schedule.pk)  # by the one that was just seen
    return intents


def busy_ones(schedules: Iterable[Schedule], now: datetime) -> set[int]:
    """The ids of schedules that skip a trigger now, since their last batch is unfinished. Asked under their locks."""
    ids = [schedule.pk for schedule in schedules if schedule.overlap == Overlap.SKIP]
    return batches.schedules_under_way(ids, now) if ids else set()


def reason_to_skip(schedule: Schedule, busy: set[int]) -> str:
    """The reason why a trigger of a schedule emits nothing. Empty if it does."""
    if schedule.provider and schedule.provider not in providers.known:
        return f"there is no provider {schedule.provider!r} here: is its app installed?"
    return STILL_UNDER_WAY if schedule.pk in busy else ""


def _lines(found: list[tuple[Schedule, DueTriggers]], intents: list[Intent]) -> list[decisions.DecisionLine]:
    passed = [_skipped(schedule, each.skipped) for schedule, each in found if each.skipped]
    skipped = [(intent.schedule, intent.trigger_at, intent.skipped_for) for intent in intents if intent.skipped_for]
    return passed + batches.lines_of_skipped(skipped)


def _skipped(schedule: Schedule, between: tuple[datetime, datetime]) -> decisions.DecisionLine:
    first, last = (f"{instant:%Y-%m-%d %H:%M:%S} UTC" for instant in between)
    those = f"those from {first} to {last} are" if first != last else f"that of {first} is"
    limit = "only the last is caught up"
    if schedule.catch_up_for is not None:
        limit = f"older than {schedule.catch_up_for} s" if schedule.catch_up_for else "it does not catch up"
    text = f"of the missed triggers of {schedule} {those} skipped: {limit}"
    facts = {"first": between[0].isoformat(), "last": between[1].isoformat()}
    return decisions.DecisionLine("missed", text, schedule.kind, batches.subject_of(schedule), facts)


def _shorten_queues(schedules: Iterable[Schedule], now: datetime) -> None:
    """Keep the latest of the triggers that wait for batches of these schedules to end, and skip the others: after a
    long downtime there may be thousands."""
    queues = {schedule.pk: schedule for schedule in schedules if schedule.overlap == Overlap.QUEUE}
    if queues:
        rows = execute(TOO_LONG_QUEUED, {"schedule_ids": list(queues), "longest": LONGEST_QUEUE}).fetchall()
        reason = f"{LONGEST_QUEUE} later ones wait for an earlier batch to end"
        skip({UnemittedTrigger(*row): reason for row in rows}, queues, now)
