"""A long first backup gives way: it does not take a unit for hours while the computer of a much shorter one, which
ranks before it, may be waking up.

A computer that is awake answers within a second, and one that sleeps needs minutes. So when a window opened, the first
backups of servers took all units, and for the rest of the night no unit was foreseen for sixty desktops that ranked
before them. The published order would keep a unit waiting for each source; here the unit is free for all others, and
the source that gives way is asked again (docs/decisions/0151).
"""

from datetime import date, datetime, timedelta
from typing import Any, Protocol, cast

from jobs import priorities
from jobs.clock import database_clock
from jobs.models import BacklogRecord
from jobs.order import RankedRecord, claim_key
from jobs.outcomes import ClaimedRecord, Postponed
from jobs.prepared_statements import execute
from jobs.states import UNFINISHED, Status, WaitingFor
from jobs.worker.claimer import PATIENCE_SECONDS
from sources.availability import wake
from sources.models import Assignment, Source, order_parts
from sources.planning.names import AVAILABILITY, BACKUPS, KIND, assignment_in

LONG_SECONDS = 7_200.0
"""Expected seconds from which on a first backup gives way."""
TIMES_SHORTER = 4.0
"""The number of times that another first backup must be shorter to count as much shorter."""
FOR_AT_MOST = timedelta(days=2)
"""The time from when its record was put on the backlog, after which it no longer gives way."""
PATIENCE = timedelta(seconds=PATIENCE_SECONDS)

# First backups alone. Served by `backlog_lease_expires`, and by `source_woken` with one descent of
# `one_unfinished_record_per_subject` an assignment.
ASKED_OR_WOKEN = f"""
SELECT id
  FROM jobs_backlogrecord
 WHERE status = {Status.RUNNING} AND kind = '{KIND}' AND queue = '{AVAILABILITY}' AND due_day IS NULL
 UNION
SELECT b.id
  FROM sources_source s
  JOIN sources_assignment a ON a.source_id = s.id
  JOIN jobs_backlogrecord b ON b.kind = '{KIND}' AND b.subject = 'assignment:' || a.id
 WHERE s.last_woken_at > %(since)s::timestamptz AND s.last_woken_at <= %(now)s::timestamptz
   AND b.status IN {tuple(map(int, UNFINISHED))} AND b.queue <> '{BACKUPS}' AND b.due_day IS NULL
   AND b.priority >= {priorities.WOKEN_FROM}
"""


class RankedFirst(RankedRecord, Protocol):
    """A record of the claim order with the facts of its first backup and of the question under way."""

    @property
    def due_day(self) -> date | None: ...
    @property
    def started_at(self) -> datetime | None: ...


def may_give_way(record: ClaimedRecord, source: Source) -> bool:
    """True if the first backup of a source that has just answered is one that gives way. Pure. A computer that sleeps,
    which has a MAC address, does not: it may not be there when its turn comes.
    """
    if source.mac_address or not order_parts.in_force().waking:
        return False
    return (record.expected_seconds or 0.0) >= LONG_SECONDS and record.due_day is None


def is_new(inserted_at: datetime, now: datetime) -> bool:
    """True if a record that was put on the backlog at that instant still gives way. Pure."""
    return now - inserted_at < FOR_AT_MOST


def comes_before(other: RankedFirst, assignment: Assignment, record: ClaimedRecord, now: datetime) -> bool:
    """True if `other`, which was sent a packet or whose question is under way, comes before `record` as a much shorter
    first backup, and may be waking up: it was silent for long enough to count as asleep, and may be sent a packet. One
    that was woken before in vain is demoted, and does not. Pure.
    """
    if other.due_day is not None or not _is_much_shorter(other, record) or _place(other) > _place(record):
        return False
    if priorities.is_woken(other.priority):
        return True
    is_silent = other.started_at is not None and now - other.started_at >= PATIENCE
    return is_silent and wake.without_a_packet(cast("ClaimedRecord", other), assignment, "", now) is None


def _place(record: RankedRecord) -> tuple[Any, ...]:
    """Its place in the claim order, without the precedence of woken records."""
    return claim_key(record)[1:]


def _is_much_shorter(other: RankedFirst, record: ClaimedRecord) -> bool:
    return (other.expected_seconds or 0.0) * TIMES_SHORTER <= (record.expected_seconds or 0.0)


def gives_way(record: ClaimedRecord, now: datetime) -> bool:
    """True if a record that may give way does so at `now`."""
    inserted_at = BacklogRecord.objects.filter(pk=record.id).values_list("inserted_at", flat=True).first()
    if inserted_at is None or not is_new(inserted_at, now):
        return False
    ids = [row[0] for row in execute(ASKED_OR_WOKEN, {"now": now, "since": now - wake.REMEMBERED_FOR}).fetchall()]
    others = {assignment_in(each.payload): each for each in BacklogRecord.objects.filter(pk__in=ids)}
    assignments = Assignment.objects.select_related("source", "policy__schedule").in_bulk(others)
    return any(comes_before(others[pk], each, record, now) for pk, each in assignments.items())


def outcome(record: ClaimedRecord, assignment: Assignment) -> Postponed | None:
    """The outcome of an answer after which a record that may give way does. None if it does not."""
    now = database_clock()
    return put_off(assignment, now) if gives_way(record, now) else None


def put_off(assignment: Assignment, now: datetime) -> Postponed:
    """The outcome of an answer after which it gives way."""
    policy = assignment.policy
    until = now + timedelta(seconds=policy.connect_timeout + policy.wake_wait)
    text = "it answered, and its long first backup lets much shorter ones that wake up come first; looked at again at"
    return Postponed(until, WaitingFor.RECHECK, text)
