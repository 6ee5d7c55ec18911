"""Batches under way: their progress, their ends, and late records.

No counter is decremented while events are delivered: that would slow every settle. A batch has ended once none of its
records is unfinished; one unfinished record is enough to see that it has not, and the last one found is looked up
first: the witness. So a batch of a hundred thousand costs one look at a primary key, until it ends.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from jobs import decisions
from jobs.clock import database_clock
from jobs.handlers import registry
from jobs.prepared_statements import execute, execute_in_batches
from jobs.window_ends import WINDOW_CLOSED, drop
from schedules import batch_ends
from schedules.models import Late, Schedule, Trigger
from schedules.statements import FIND_WITNESSES, LATE, PROGRESS, PRUNE, STILL_UNFINISHED

AT_ONCE = 1000
DROP_SECONDS = 0.2
"""Time of a minute's round."""
_witnesses: dict[int, int] = {}
"""Trigger id → the record that was unfinished when this process last looked. A hint."""


@dataclass(frozen=True)
class BatchCounts:
    """The numbers of a batch's records, by state. `events`: the number that was emitted."""

    events: int
    waiting: int = 0
    ready: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0


def progress(triggers: Iterable[Trigger]) -> dict[int, BatchCounts]:
    """Trigger id → how far its batch is, in one question. It reads every record of these batches."""
    asked = list(triggers)
    values = {
        "id": [trigger.pk for trigger in asked],
        "schedule_id": [trigger.schedule_id for trigger in asked],
        "trigger_at": [trigger.trigger_at for trigger in asked],
    }
    counts = {trigger_id: found for trigger_id, *found in execute(PROGRESS, values).fetchall()}
    return {trigger.pk: BatchCounts(trigger.events, *counts.get(trigger.pk, ())) for trigger in asked}


def finish_ended(now: datetime, schedule_ids: Sequence[int] | None = None) -> int:
    """Finish the batches whose records have all ended, of all schedules or of these. Returns the number of batches.

    A batch of which a user retries a record at this moment is left out (`batch_ends`).
    """
    under_way = Trigger.objects.filter(finished_at=None, emitted_at__isnull=False)
    if schedule_ids is not None:
        under_way = under_way.filter(schedule__in=schedule_ids)
    ids = list(under_way.order_by().values_list("pk", flat=True))
    if schedule_ids is None:
        for gone in set(_witnesses) - set(ids):
            _witnesses.pop(gone, None)
    ended = _without_witness(ids)
    return batch_ends.finish(ended, now) if ended else 0


def schedules_under_way(schedule_ids: Sequence[int], now: datetime) -> set[int]:
    """The ids of those schedules that have an unfinished batch, or one that waits to be emitted. A batch that has ended
    is finished along the way.

    It counts as ended also while a transaction that asks for retries holds it, which may open nothing: a trigger would
    be skipped for good.
    """
    unfinished = Trigger.objects.filter(schedule__in=schedule_ids, finished_at=None).order_by()
    rows = list(unfinished.values_list("pk", "schedule_id", "emitted_at"))
    ended = set(_without_witness([pk for pk, _, emitted_at in rows if emitted_at is not None]))
    if ended:
        batch_ends.finish(sorted(ended), now)
    return {schedule_id for pk, schedule_id, _ in rows if pk not in ended}


def _without_witness(ids: list[int]) -> list[int]:
    """Triggers without an unfinished record, as it seems: nothing is locked."""
    known = {trigger_id: _witnesses[trigger_id] for trigger_id in ids if trigger_id in _witnesses}
    alive = {row[0] for row in execute(STILL_UNFINISHED, {"ids": list(known.values())}).fetchall()} if known else set()
    doubtful = [trigger_id for trigger_id in ids if known.get(trigger_id) not in alive]
    if not doubtful:
        return []
    found: dict[int, int | None] = dict(execute(FIND_WITNESSES, {"ids": doubtful}).fetchall())
    for trigger_id, witness in found.items():
        if witness is None:
            _witnesses.pop(trigger_id, None)
        else:
            _witnesses[trigger_id] = witness
    return [trigger_id for trigger_id, witness in found.items() if witness is None]


def drop_late(now: datetime, seconds: float = DROP_SECONDS) -> int:
    """Fail records that still wait, such as in a backoff, although their window has closed and their schedule drops
    late ones.

    Works for some `seconds`; the next round does the rest. Returns how many records.
    """
    until = time.monotonic() + seconds
    closed = Trigger.objects.filter(late=Late.DROP, finished_at=None, closes_at__lte=now).select_related("schedule")
    triggers = {trigger.pk: trigger for trigger in closed}
    values = {"ids": list(triggers), "now": now, "without_windows": registry.without_windows(), "limit": AT_ONCE}
    dropped: Counter[int] = Counter()
    more = bool(triggers)
    while more:
        with transaction.atomic():
            rows = execute(LATE, values).fetchall()
            drop([record for record, _ in rows], now)
        dropped.update(trigger for _, trigger in rows)
        more = len(rows) >= AT_ONCE and time.monotonic() < until
    decisions.log_all([_dropped(triggers[pk], count) for pk, count in dropped.items()], now)
    return dropped.total()


def _dropped(trigger: Trigger, count: int) -> decisions.DecisionLine:
    text = f"dropped {count} that were still waiting: {WINDOW_CLOSED}"
    return line(trigger.schedule, "dropped", trigger.trigger_at, text)


def keep(now: datetime | None = None) -> int:
    """Drop late records and note which batches have ended, once a minute. Returns how many rows it changed."""
    instant = now or database_clock()
    return drop_late(instant) + finish_ended(instant)


def prune(before: datetime) -> int:
    """Delete triggers whose batch ended before that. Returns how many."""
    return execute_in_batches(PRUNE, {"before": before}, AT_ONCE)


def subject_of(schedule: Schedule) -> str:
    """The name of a schedule in the log of decisions."""
    return f"schedule:{schedule.pk}"


def line(schedule: Schedule, what: str, trigger_at: datetime, text: str) -> decisions.DecisionLine:
    """A line of the log about one trigger."""
    text = f"{schedule}, trigger of {trigger_at:%Y-%m-%d %H:%M:%S} UTC: {text}"
    return decisions.DecisionLine(
        what, text, schedule.kind, subject_of(schedule), {"trigger_at": trigger_at.isoformat()}
    )


def lines_of_skipped(skipped: Iterable[tuple[Schedule, datetime, str]]) -> list[decisions.DecisionLine]:
    """Lines for triggers that emit nothing: one for each schedule and reason, however many triggers there are."""
    alike: dict[tuple[int, str], list[datetime]] = defaultdict(list)
    schedules = {}
    for schedule, trigger_at, reason in skipped:
        schedules[schedule.pk] = schedule
        alike[schedule.pk, reason].append(trigger_at)
    return [_line_of_skipped(schedules[pk], sorted(instants), reason) for (pk, reason), instants in alike.items()]


def _line_of_skipped(schedule: Schedule, instants: list[datetime], reason: str) -> decisions.DecisionLine:
    first, last = instants[0], instants[-1]
    if len(instants) == 1:
        return line(schedule, "skipped", first, f"emitted nothing: {reason}")
    between = " to ".join(f"{instant:%Y-%m-%d %H:%M:%S}" for instant in (first, last))
    text = f"{schedule}, {len(instants):,} triggers from {between} UTC: emitted nothing: {reason}"
    facts = {"first": first.isoformat(), "last": last.isoformat(), "triggers": len(instants)}
    return decisions.DecisionLine("skipped", text, schedule.kind, subject_of(schedule), facts)
