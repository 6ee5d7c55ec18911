"""What the kinds `retention`, `check` and `drill` share: records of their own that work on what an assignment has in a
repository, at most one of a kind for each assignment.

They wait for the policy's window, under its throttle, and go through `availability`, where nothing is asked, since what
is handed on from there passes the gate: one record of a source is at work at a time.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from django.db.models import Exists, F, OuterRef, Q
from django.db.utils import Error

from jobs import conf, decisions
from jobs.clock import boot_seconds, database_clock
from jobs.database_errors import Trouble, trouble_of
from jobs.handlers import Run
from jobs.models import BacklogRecord
from jobs.outcomes import Cancelled, Claimed, Failed, Handoff, Outcome, Postponed, Released, Succeeded
from jobs.priorities import MAX_PRIORITY
from jobs.states import Status, WaitingFor
from jobs.wakeups import notify
from sources import planning
from sources.availability.check import assignment_of, database_away, not_wanted
from sources.backups import repositories
from sources.backups.handler import BUSY_FOR, ProgressWriter
from sources.engines.base import EngineProgress
from sources.models import Assignment, AtClose, Backup, Progress
from sources.planning.lanes import lane_of
from sources.storage.store import Stopped, StorageFailed

AT_ONCE = 100
"""Records a minute: thousands of assignments do not begin together."""
PRIORITY = -10
"""Of what is planned by itself, added to the policy's: a backup comes first."""
CLOSED = "its window closed; it goes on in the next opening"


def due(wanted: Q, since: str) -> list[Assignment]:
    """Those assignments with a backup in their policy's repository, as many as are begun at once, the longest ago
    first by the column `since`."""
    backed_up = Exists(Backup.objects.filter(assignment=OuterRef("pk"), repository=OuterRef("policy__repository")))
    ordered = Assignment.objects.active().filter(wanted, backed_up).order_by(F(since).asc(nulls_first=True), "pk")
    return list(ordered.select_related("source", "policy__schedule", "policy__repository")[:AT_ONCE])


def enqueue(
    kind: str, assignments: Iterable[Assignment], now: datetime, *, priority: int = 0, at_once: bool = False
) -> int:
    """Put a record of each on the backlog, for the next opening of its policy's window. Returns how many are new.

    `priority`: added to the policy's. `at_once`: whatever its window; those that waited for it count as new.
    """
    records = {planning.subject_of(each.pk): _record(kind, each, now, priority, at_once) for each in assignments}
    unfinished = BacklogRecord.objects.unfinished().filter(kind=kind, subject__in=records)
    for subject in unfinished.values_list("subject", flat=True):
        del records[subject]
    waited = unfinished.filter(status=Status.WAITING, waiting_for=WaitingFor.WINDOW) if at_once else unfinished.none()
    moved = waited.update(status=Status.READY, waiting_for=None, run_after=now, closes_at=None)
    BacklogRecord.objects.bulk_create(records.values(), ignore_conflicts=True)
    if records or moved:
        notify(planning.AVAILABILITY)
    return len(records) + moved


def _record(kind: str, assignment: Assignment, now: datetime, priority: int, at_once: bool) -> BacklogRecord:
    source, schedule = assignment.source, assignment.policy.schedule
    opens_at, closes_at = (now, None) if at_once else assignment.policy.opening(now)
    today = now.astimezone(ZoneInfo(schedule.zone)).date()
    return BacklogRecord(
        kind=kind,
        queue=planning.AVAILABILITY,
        subject=planning.subject_of(assignment.pk),
        payload={"assignment": assignment.pk, "title": source.name, "key": source.exclusive_key},
        status=Status.READY if opens_at <= now else Status.WAITING,
        waiting_for=None if opens_at <= now else WaitingFor.WINDOW,
        run_after=opens_at,
        closes_at=closes_at,
        priority=max(-MAX_PRIORITY, schedule.priority + priority),
        due_day=today,
        rank_day=today,
        origin=schedule,
        retry_policy_id=schedule.retry_policy_id,
        lane=lane_of(assignment.policy, first_backup=False),
    )


async def hand_on(run: Run) -> Outcome:
    """Pass the gate. The source is not asked: nothing is wanted of it."""
    return Handoff(planning.BACKUPS, exclusive_key=run.record.payload["key"])


class Work:
    """A record at work in its execution unit: the stop signal and the progress of what it starts."""

    def __init__(self, run: Run, assignment: Assignment) -> None:
        self.record, self.assignment, self.grace = run.record, assignment, conf.ending_seconds()
        self._stop, self._writer = run.stop, ProgressWriter(run.record)
        closes_at = run.record.closes_at if assignment.policy.at_close == AtClose.STOP else None
        seconds = (closes_at - database_clock()).total_seconds() if closes_at else float("inf")
        self._closes_at = boot_seconds() + seconds

    @property
    def closed(self) -> bool:
        return boot_seconds() >= self._closes_at

    def is_set(self) -> bool:
        return self._stop.is_set() or self.closed

    def on_progress(self, progress: EngineProgress) -> None:
        self._writer(progress)


def do(run: Run, work: Callable[[Work], Any]) -> Outcome:
    """Do the work of a record; what it returns becomes the result. Blocks for as long as that takes."""
    try:
        assignment = assignment_of(run.record)
        if assignment is None:
            return Cancelled("its assignment is gone")
        if refused := not_wanted(assignment):
            return refused
        run.max_seconds = assignment.policy.max_running_for
        at_work = Work(run, assignment)
        try:
            return Succeeded(work(at_work))
        except Refused as error:
            return error.outcome
        except repositories.Busy as error:
            return Postponed(database_clock() + BUSY_FOR, WaitingFor.RECHECK, f"{error}; looked at again at")
        except Stopped:
            return Released(CLOSED) if at_work.closed else Released()
        except StorageFailed as error:
            return Failed(f"repository {assignment.policy.repository}: {error}")
    except Error as error:
        if trouble_of(error) is Trouble.OURS:
            raise
        return database_away(run.record, error)


class Refused(Exception):
    """It does not begin now: its record gets this outcome."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__()
        self.outcome = outcome


def log_outcome(record: Claimed, outcome: Outcome, now: datetime) -> None:
    """The line of the log for what did not succeed. Runs in the settle's transaction."""
    if record.queue != planning.BACKUPS:
        return
    Progress.objects.filter(record_id=record.id).delete()
    match outcome:
        case Failed(error):
            log(record, "failed", error.partition("\n")[0], now)
        case Cancelled(reason) | Released(reason):
            log(record, "cancelled" if isinstance(outcome, Cancelled) else "released", reason, now)
        case Postponed(until, _, reason):
            log(record, "postponed", f"{reason} {until:%Y-%m-%d %H:%M} UTC", now)


def log(record: Claimed, what: str, text: str, now: datetime, **facts: Any) -> None:
    title = f"{record.kind} of {record.payload['title']}"
    decisions.doing(what, f"{title}: {text}", record=record, facts={"attempt": record.attempt, **facts}, now=now)
