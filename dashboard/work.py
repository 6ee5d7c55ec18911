"""Running work, the next work, and the next window to open. A bounded number of rows, by indexes."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Min, OuterRef, Subquery
from django.db.models.expressions import RawSQL

from backups.restores import requests
from engines import engine_for
from jobs import breakers, order
from jobs.models import BacklogRecord
from jobs.states import Status, WaitingFor
from operations.backlog.surroundings import expected_end
from sources.models import Assignment, Policy, Progress
from sources.planning import ARRIVALS, AVAILABILITY, BACKUPS, KIND, OF_ASSIGNMENTS
from sources.planning.names import assignment_of

SHOWN = 6
"""Rows of each list."""

SURE_AFTER = timedelta(seconds=5)
"""Seconds of a run before which its speed cannot be estimated."""


WAITS = {
    WaitingFor.START: "does not start before",
    WaitingFor.WINDOW: "waits for its window until",
    WaitingFor.BACKOFF: "failed, and is not tried again before",
    WaitingFor.RECHECK: "did not answer, and is not asked again before",
    WaitingFor.SNOOZE: "is snoozed until",
    WaitingFor.THROTTLE: "waits for other work on its source, and looks again at",
    WaitingFor.BREAKER: "waits for its repository, which is tried at",
    WaitingFor.SWEEP: "failed, and is not tried again before",
}
"""The words before the instant at which the wait ends."""


def running(now: datetime) -> tuple[list[dict[str, Any]], int]:
    """Running copies, removals, checks and restores, the longest first, and how many there are."""
    found = BacklogRecord.objects.running().filter(queue__in=(BACKUPS, requests.QUEUE)).order_by("started_at", "pk")
    records = list(found[:SHOWN])
    count = len(records) if len(records) < SHOWN else found.count()
    progress = Progress.objects.in_bulk([record.pk for record in records])
    assignments = _assignments(records)
    return [_running(each, assignments.get(each.subject), progress.get(each.pk), now) for each in records], count


def _running(
    record: BacklogRecord, assignment: Assignment | None, progress: Progress | None, now: datetime
) -> dict[str, Any]:
    """`share`: percent done, None if unknown. `speed`: bytes a second since it began."""
    began = record.started_at or now
    so_far = now - began
    done, total = (progress.bytes_done, progress.bytes_total) if progress else (0, 0)
    speed = done / so_far.total_seconds() if done and so_far > SURE_AFTER else None
    end = expected_end(record, now, vars(progress) if progress else None)
    return {
        "record": record.pk, "kind": record.kind, "name": _name(record, assignment),
        "source": assignment.source_id if assignment else None,
        "policy": str(assignment.policy) if assignment else "",
        "engine": engine_for(assignment.source.kind).name if assignment and record.kind == KIND else record.kind,
        "began_at": began, "share": min(100, 100 * done // total) if total else None, "done": done, "total": total,
        "speed": speed, "ends_at": end.at if end and end.at > now else None,
    }  # fmt: skip


# One walk of `backlog_claim_order` in each lane, which has that order: over all lanes, every ready record of the queue
# would be sorted.
FIRST_OF_EACH_LANE = f"""
SELECT first.id
  FROM (SELECT 0 AS id UNION ALL SELECT id FROM jobs_lane) AS l
 CROSS JOIN LATERAL (
       SELECT b.id
         FROM jobs_backlogrecord b
        WHERE b.status = {Status.READY} AND b.queue = %s AND b.lane = l.id
          AND (b.closes_at IS NULL OR b.closes_at > %s)
        ORDER BY {order.IN_SQL}
        LIMIT %s) AS first
"""


def _first_ready(queue: str, now: datetime, most: int) -> list[BacklogRecord]:
    """The ready records of a queue that are claimed first, at most that many."""
    ids = RawSQL(FIRST_OF_EACH_LANE, (queue, now, most))  # noqa: S611 - ours
    return list(BacklogRecord.objects.filter(pk__in=ids).in_claim_order()[:most])


def coming(now: datetime) -> list[dict[str, Any]]:
    """The next records: those ready for an execution unit, then those about to be asked, both in claim order, then
    those that wait, the earliest first.
    """
    found: list[BacklogRecord] = []
    for queue in (BACKUPS, ARRIVALS, AVAILABILITY):
        if room := SHOWN - len(found):
            found += _first_ready(queue, now, room)
    if room := SHOWN - len(found):
        waiting = BacklogRecord.objects.waiting().filter(kind__in=OF_ASSIGNMENTS)
        found += waiting.order_by("run_after").select_related("breaker")[:room]
    assignments = _assignments(found)
    # a deleted source is never backed up, though its record is there until its time has come
    there = [record for record in found if record.kind not in OF_ASSIGNMENTS or record.subject in assignments]
    return [_coming(record, assignments.get(record.subject)) for record in there]


def _coming(record: BacklogRecord, assignment: Assignment | None) -> dict[str, Any]:
    """A record that is claimed soon, or ready later: `at`."""
    if record.waiting_for is not None:
        what = WAITS[WaitingFor(record.waiting_for)]
    else:
        is_asked = record.kind == KIND and record.queue != BACKUPS
        what = "is asked whether it is there" if is_asked else "starts at the next free execution unit"
    return {
        "record": record.pk, "name": _name(record, assignment),
        "source": assignment.source_id if assignment else None,
        "what": what if record.kind == KIND else f"{record.kind}: {what}",
        "at": breakers.next_try_at(record) if record.waiting_for is not None else None,
    }  # fmt: skip


def next_due(now: datetime) -> datetime | None:
    """The earliest next-backup date in the future: the earliest of each policy, by `assignment_due`, and of these the
    first.
    """
    ahead = Assignment.objects.active().filter(policy=OuterRef("pk"), next_backup_at__gt=now)
    first = Subquery(ahead.order_by("next_backup_at").values("next_backup_at")[:1])
    found: datetime | None = Policy.objects.filter(schedule__enabled=True).aggregate(at=Min(first))["at"]
    return found


def next_opening() -> tuple[str, datetime] | None:
    """The next window to open that records wait for: its policy and instant. None if nothing waits for one."""
    waiting = BacklogRecord.objects.waiting().filter(waiting_for=WaitingFor.WINDOW, kind__in=OF_ASSIGNMENTS)
    first = waiting.order_by("run_after").first()
    assignment = _assignments([first]).get(first.subject) if first else None
    return (str(assignment.policy), first.run_after) if first and assignment else None


def _assignments(records: Iterable[BacklogRecord]) -> dict[str, Assignment]:
    """Subject → the assignment that it names."""
    of = {each.subject: assignment_of(each.subject) for each in records if each.kind in OF_ASSIGNMENTS}
    rows = Assignment.objects.select_related("source", "policy__schedule").in_bulk(of.values())
    return {subject: rows[pk] for subject, pk in of.items() if pk in rows}


def _name(record: BacklogRecord, assignment: Assignment | None) -> str:
    return assignment.source.name if assignment else str(record.payload.get("title") or record.subject)
