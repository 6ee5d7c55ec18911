"""Check-ins of sources: a record that waited for the answer takes its true place at once, in a queue where no question
hangs, and a worker is notified.

Its true place: overdue first, or the place that its last failure had given it. A source that was lost in mid-backup is
first in line, once; one that was lost several times in a row keeps the place that its last loss had given it, in
`availability`, in one order with the sources that have no agent, and not before `recheck_after` of its policy is over
(`sources/domain/losses.py`).

A check-in ends only a wait for a re-check, never a backoff, a pause or a closed window. Its facts
(`Source.checked_in_at`) are written before or with its records, which it locks although they run. A settle that finds
the source silent holds its record's lock and looks at `checked_in_at` last, so whichever comes second sees the other:
silence that is settled after a check-in neither demotes nor waits.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from jobs import priorities
from jobs.clock import database_clock
from jobs.models import Attempt, BacklogRecord
from jobs.order import place_after_an_answer
from jobs.outcomes import ClaimedRecord
from jobs.prepared_statements import execute
from jobs.states import Status, WaitingFor
from jobs.wakeups import notify_at_once
from sources.domain.losses import Loss
from sources.models import Assignment, Source
from sources.planning.emission import emit_due
from sources.planning.names import ARRIVALS, AVAILABILITY, KIND, assignment_in
from sources.planning.standings import Standing, standings_of

CHECKED_IN = """
SELECT silent.record
  FROM unnest(%(records)s::bigint[], %(assignments)s::bigint[], %(since)s::timestamptz[])
    AS silent(record, assignment, since)
  JOIN sources_assignment a ON a.id = silent.assignment
  JOIN sources_source s ON s.id = a.source_id AND s.checked_in_at >= silent.since
"""

ASKED_ONCE_IN = timedelta(seconds=30)
"""The least time between two questions asked because of check-ins, if the first one was not answered: an agent may
announce its source each second.
"""


def check_in(source: Source, now: datetime | None = None, standings: list[Standing] | None = None) -> int:
    """Move the due records of a source that checked in to their true places in `arrivals`. Returns the number that
    moved.

    Due assignments that are not on the backlog yet are emitted. Call it after the facts of the check-in were written.
    `standings`: as they were then, if they are known.
    """
    instant = now or database_clock()
    found = standings_of(source.pk) if standings is None else standings
    willing = [
        each
        for each in found
        if each.is_active and not source.unwilling(instant, on_battery=each.on_battery, on_metered=each.on_metered)
    ]
    due = [each for each in willing if each.status is None and each.is_due(instant)]
    concerned = {each.subject: each for each in willing if each.waits_for_an_answer or each in due}
    return _move(source, concerned, [each.id for each in due], instant) if concerned else 0


@transaction.atomic(savepoint=False)
def _move(source: Source, concerned: dict[str, Standing], due: list[int], instant: datetime) -> int:
    """Emit the `due` assignments by id, and move the records with `concerned` as their subjects. Returns the number of
    moves."""
    if due:
        emit_due(instant, due)
    unfinished = BacklogRecord.objects.filter(kind=KIND, subject__in=concerned).unfinished()
    records = unfinished.select_for_update().order_by("pk")
    return sum(_arrived(source, record, concerned[record.subject], instant) for record in records)


def _arrived(source: Source, record: BacklogRecord, standing: Standing, now: datetime) -> bool:
    """True if the record waited for an answer of its source, and was moved."""
    rechecks = record.status == Status.WAITING and record.waiting_for == WaitingFor.RECHECK
    if not (rechecks or (record.status == Status.READY and record.queue == AVAILABILITY)):
        return False
    if (
        standing.last_backup_at is None
        and record.expected_seconds is None
        and source.expected_first_seconds is not None
    ):
        # emitted before its agent had reported how much there is
        record.expected_seconds = source.expected_first_seconds
        record.save(update_fields=["expected_seconds"])
    return _arrive(record, standing.loss, standing.zone, standing.recheck_after, now)


def _arrive(record: BacklogRecord, loss: Loss, zone: str, recheck_after: float, now: datetime) -> bool:
    """Returns whether that made it ready. If not, it may wait for less long."""
    asked_at = _asked_lately(record) if record.status == Status.WAITING else None
    place = place_after_a_check_in(record, loss, zone, recheck_after, now, asked_at)
    if place is None:
        return False
    for name, value in place.items():
        setattr(record, name, value)
    record.save(update_fields=place)
    if record.status != Status.READY:
        return False
    notify_at_once(record.queue)
    return True


def _asked_lately(record: BacklogRecord) -> datetime | None:
    """The instant at which it was last asked because of a check-in. One such question makes three attempts at most."""
    attempts = Attempt.objects.filter(record=record.pk).order_by("-number").values_list("queue", "started_at")[:3]
    return next((started_at for queue, started_at in attempts if queue == ARRIVALS), None)


def place_after_a_check_in(
    record: BacklogRecord,
    loss: Loss,
    zone: str,
    recheck_after: float,
    now: datetime,
    asked_at: datetime | None = None,
) -> dict[str, Any] | None:
    """The new place of a record that waits for a re-check, or is ready to be asked, when its source checks in: the
    fields to write. None if it stays where it is. Pure. `asked_at`: when it was last asked because of a check-in.
    """
    waits = record.status == Status.WAITING
    if waits and loss.holds_off(now, recheck_after):
        return None
    if waits and asked_at and asked_at <= now < asked_at + ASKED_ONCE_IN and not loss.is_first_in_line:
        again_at = asked_at + ASKED_ONCE_IN
        return {"run_after": again_at} if again_at < record.run_after else None
    lost_at = loss.demoted_since
    rank_day, tried_at = place_after_an_answer(
        record.due_day, record.failures, record.last_failure_at, record.inserted_at, zone=zone, now=now, lost_at=lost_at
    )
    if lost_at and not waits and (record.rank_day, record.tried_at) == (rank_day, tried_at):
        return None
    return {
        "queue": AVAILABILITY if lost_at else ARRIVALS,
        "status": Status.READY,
        "waiting_for": None,
        "run_after": min(record.run_after, now),
        "rank_day": rank_day,
        "tried_at": tried_at,
        "priority": priorities.first_in_line(record.priority) if loss.is_first_in_line else record.priority,
    }


def checked_in_among(silent: Sequence[tuple[ClaimedRecord, datetime]]) -> set[int]:
    """The ids of records whose source has checked in since that instant, or since its claim, whichever was later. One
    statement for all.
    """
    values = {
        "records": [record.id for record, _ in silent],
        "assignments": [assignment_in(record.payload) for record, _ in silent],
        "since": [max(since, record.started_at) for record, since in silent],
    }
    return {row[0] for row in execute(CHECKED_IN, values).fetchall()} if silent else set()


def has_checked_in_since(record: ClaimedRecord, since: datetime, now: datetime) -> datetime | None:
    """Undo the wait if the source of `record`, which a settle found silent from `since` on, has checked in in the
    meantime.

    An agent also checks in after a change of network that broke a copy. Runs in the settle's transaction. Returns the
    time at which the source is asked again (at once, if that is not after `now`); None if it did not check in.
    """
    checked_in = Assignment.objects.filter(
        pk=assignment_in(record.payload), source__checked_in_at__gte=max(since, record.started_at)
    )
    found = checked_in.select_related("policy__schedule").first()
    waiting = BacklogRecord.objects.filter(pk=record.id, status=Status.WAITING, waiting_for=WaitingFor.RECHECK)
    if found is None or (row := waiting.first()) is None:
        return None
    _arrive(row, found.loss, found.policy.schedule.zone, found.policy.recheck_after, now)
    return row.run_after
