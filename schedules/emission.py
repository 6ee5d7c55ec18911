"""Second step of an emission: the batches of triggers that were written down are put on the backlog.

    record_due_triggers  locks due schedules; writes their triggers, moves their watermarks     one transaction
    emit                 locks a trigger and its schedule; puts the next few thousand of its
                         events on the backlog, notes in `events` how far it is                 one transaction each

`Trigger.events` is the place at which the next emitter goes on, so a batch of a million is a row of short transactions,
other batches come in between, and an emitter that is killed loses its current chunk and no more. Two never work at one
schedule at the same moment: what one has locked the other skips. Behind that stand the unique indexes: one trigger per
launch time, one record per trigger and event.

A batch keeps to what it was begun with: its first chunk writes that down in the trigger (`frozen_config`).

What a provider yields is one chunk: the batches of any number of its triggers are one call and one transaction.
"""

import time
from collections.abc import Sequence
from datetime import datetime
from itertools import chain, repeat

from django.db import transaction

from jobs.prepared import execute
from schedules import batches
from schedules.chunks import emit_chunk
from schedules.provided import emit_provided
from schedules.statements import EXPIRED_IN_QUEUE, WHAT_IS_UNEMITTED
from schedules.unemitted import Unemitted, schedules_of, skip
from schedules.watermarks import ON_TIME_FOR


def emit(now: datetime, only: Sequence[int] | None = None, seconds: float = float("inf")) -> int:
    """Put what is unemitted on the backlog, of all triggers or of these, for some `seconds`. Returns how many records.

    What is left when the time is up is gone on with by the next call, whoever makes it.
    """
    until = time.monotonic() + seconds
    records = 0
    for is_first in chain([True], repeat(False)):
        provided, counted, queues = execute(WHAT_IS_UNEMITTED, {"only": only}).fetchall()[0]
        if is_first and queues:
            end_waits(now, queues)
        got_on = [emit_provided(now, only)] if provided else []
        got_on += [emit_chunk(now, only)] if counted else []
        records += sum(each.records for each in got_on)
        if not any(each.triggers for each in got_on) or time.monotonic() >= until:
            break
    return records


def end_waits(now: datetime, schedule_ids: Sequence[int]) -> None:
    """See whether what their queues wait for has ended, and end the wait of what has waited for too long."""
    batches.finish_ended(now, schedule_ids)
    values = {"schedule_ids": list(schedule_ids), "now": now, "on_time_for": ON_TIME_FOR}
    with transaction.atomic():
        # what is being emitted is locked
        expired = [Unemitted(*row) for row in execute(EXPIRED_IN_QUEUE, values).fetchall()]
        schedules = schedules_of(expired)
        reasons = {
            trigger: f"an earlier batch did not end within {schedules[trigger.schedule_id].catch_up_for} s"
            for trigger in expired
        }
        skip(reasons, schedules, now)
