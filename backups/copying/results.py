"""The results of a settled attempt for its assignment, and the line of the log that explains them."""

from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from django.db.models import F, Value
from django.db.models.functions import Coalesce

import engines
from backups import known_points
from backups.copying import notifications
from backups.upkeep import retention
from engines.base import EngineResult
from external.durations import span
from external.formatting import several
from jobs import decisions
from jobs.models import BacklogRecord
from jobs.outcomes import (
    Cancelled,
    Claimed,
    Failed,
    Handoff,
    Held,
    Outcome,
    Postponed,
    Released,
    Succeeded,
    Unavailable,
)
from jobs.prepared import storable
from jobs.states import Status
from sources import planning
from sources.domain.due import next_backup_at
from sources.domain.overdue import thresholds
from sources.domain.suspicion import LAST_RUNS, Counts, suspicion
from sources.models import Assignment, Backup, Progress
from storage import layout

WRITTEN = (
    "last_backup_at", "last_backup_for", "last_backup_size", "last_contacted_at", "failures", "first_failure_at",
    "skips", "losses", "vanished_at", "next_backup_at", "overdue_since", "asked_for_at", "held_back_since",
    "held_back_why", "to_copy_since", "room_lacked",
)  # fmt: skip

NOT_KEPT = ("verdict", "error", "warnings", "not_kept", "repository", "engine", "room", "doubt", "manifest")
"""Fields of a result that its row has under another name, or not at all."""


def write_down(record: Claimed, outcome: Outcome, now: datetime) -> None:
    """Bring the assignment of a settled attempt up to date. Runs in the settle's transaction."""
    assignments = Assignment.objects.filter(pk=planning.assignment_in(record.payload))
    asked = record.queue != planning.BACKUPS
    if not asked:
        Progress.objects.filter(record_id=record.id).delete()
    match outcome:
        case Handoff():
            answered = outcome.queue == planning.BACKUPS
            if answered:
                assignments.update(last_contacted_at=now)
            _log(record, "answered" if answered else "asked again", outcome.found, now)
        case Unavailable():
            _write_silence(record, outcome, now)
        case Postponed():
            _write_postponement(record, outcome, now)
        case Released():
            _log(record, "released", outcome.reason, now)
        case Held():
            # the repository's failure and not the assignment's, whose failures and promises stay as they are
            _log(record, "failed for its repository" if outcome.tried else "held", _first_line(outcome.reason), now)
            # an edit has closed it, perhaps to another repository: refused again, it waits again
            BacklogRecord.objects.filter(pk=record.id, closes_at__lte=now).update(run_after=now)
        case Cancelled():
            # out of its trigger, so that a resume in the same period emits again, also one that has come already; what
            # a user cancelled stays cancelled
            ended = BacklogRecord.objects.filter(pk=record.id)
            if assignments.active().exists():
                ended = ended.filter(cancel_requested_at=None)
            ended.update(trigger_at=None)
            assignments.update(asked_for_at=None)
            _log(record, "cancelled", outcome.reason, now)
        case Failed():
            first_failure_at = Coalesce("first_failure_at", Value(now))
            assignments.update(failures=F("failures") + 1, first_failure_at=first_failure_at, asked_for_at=None)
            if record.closes_at is None:
                _back_into_its_window(record, now)
            _log_failure(record, outcome, now)
            if wants := notifications.goes_out(assignments):
                body = {"event": "backup.failed", "error": _first_line(outcome.error), "failures": wants.failures}
                notifications.follow(wants, record, now, body)
        case Succeeded(result=EngineResult() as result):
            # locked before its policy is read: an edit of the policy comes before both or after both
            if assignment := assignments.select_for_update().first():
                _write_success(assignment, record, result, now)
                if notifications.goes_out(assignments):
                    body = {"event": "backup.succeeded", "started_at": record.started_at.isoformat(),
                            "size": result.size, "files": result.files}  # fmt: skip
                    notifications.follow(assignment, record, now, body)
    if asked and not isinstance(outcome, Failed | Cancelled):
        planning.keep_promise(assignments, record.id, now)


def _write_silence(record: Claimed, outcome: Unavailable, now: datetime) -> None:
    assignments = Assignment.objects.filter(pk=planning.assignment_in(record.payload))
    what, reason = decisions.SILENT, outcome.reason
    if record.queue == planning.BACKUPS:
        assignments.update(vanished_at=now, losses=F("losses") + 1)
        what, reason = "vanished", f"{reason}{_broke_off(assignments.first())}"
    since = record.started_at if outcome.silent_for is None else now - timedelta(seconds=outcome.silent_for)
    again_at = planning.has_checked_in_since(record, since, now)
    if again_at is not None and again_at <= now:
        _log(record, what, f"{reason}; but it checked in meanwhile and is asked at once", now)
        return
    again_at = again_at or now + timedelta(seconds=outcome.recheck_after)
    is_first = outcome.first_in_line or outcome.woken
    place = ", first in line" if is_first else ""
    facts = {"again_at": again_at.isoformat(), "first_in_line": is_first}
    _log(record, what, f"{reason}; asked again at {again_at:%H:%M:%S} UTC{place}", now, **facts)


def _broke_off(assignment: Assignment | None) -> str:
    words = assignment.loss.in_words if assignment else ""
    return words and f"; it {words}"


def _write_postponement(record: Claimed, outcome: Postponed, now: datetime) -> None:
    """The source may have reported better since that was looked up."""
    planning.has_checked_in_since(record, record.started_at, now)
    _log(record, "postponed", f"{outcome.reason} {outcome.until:%Y-%m-%d %H:%M} UTC", now)


def _log_failure(record: Claimed, outcome: Failed, now: datetime) -> None:
    row = BacklogRecord.objects.filter(pk=record.id).values_list("status", "run_after", "failures").first()
    if row is None:
        return
    status, run_after, failures = row
    then = "it gave up" if status == Status.FAILED else f"tried again at {run_after:%Y-%m-%d %H:%M:%S} UTC"
    what = "rescued" if outcome.rescued else "failed"
    _log(record, what, f"{_first_line(outcome.error)}; {then}", now, failures=failures)


def _first_line(text: str) -> str:
    return (text.splitlines() or [""])[0]


def _back_into_its_window(record: Claimed, now: datetime) -> None:
    """Close the window of a backup that ran outside of it for one attempt, since a user asked for it: a tick finds the
    next opening."""
    retried = BacklogRecord.objects.filter(pk=record.id, status=Status.WAITING)
    retried.exclude(origin__schedule__policy__window=[], origin__schedule__policy__excluded_dates=[]).update(
        closes_at=now
    )


def _write_success(assignment: Assignment, record: Claimed, result: EngineResult, now: datetime) -> None:
    """The next-backup date follows the period in which the backup *started*; if that has passed already, the next
    record is emitted here, so no period is lost."""
    started_at = record.started_at
    assignment.last_backup_at = started_at
    assignment.last_backup_for = (now - started_at).total_seconds()
    assignment.last_backup_size = result.size
    assignment.last_contacted_at = now
    assignment.failures = assignment.skips = assignment.losses = 0
    assignment.vanished_at = assignment.asked_for_at = assignment.first_failure_at = assignment.room_lacked = None
    assignment.next_backup_at = next_backup_at(assignment.policy.schedule.period, started_at, now)
    if assignment.policy.copy_to_id and assignment.to_copy_since is None:
        assignment.to_copy_since = now
    policy, window = assignment.policy, None
    with suppress(ValueError):  # a window that cannot be read, which is set aside where it is asked for
        window = policy.weekly_window
    limits = thresholds(policy.schedule.period, policy.alert_after, now, window)
    if min(started_at, assignment.next_backup_at) > limits.clear_after:
        assignment.overdue_since = None
    _hold_back_what_looks_wrong(assignment, record, result, now)
    assignment.save(update_fields=WRITTEN)
    # the policy may have been given another one since
    repository_id = result.repository or assignment.policy.repository_id
    if result.manifest and (point := layout.point_of(result.snapshot)):
        known_points.replace(assignment.pk, repository_id, {point: result.manifest})
        known_points.forget_marks(assignment.pk, repository_id)
    Backup.objects.create(
        assignment=assignment,
        repository_id=repository_id,
        record_id=record.id,
        attempt=record.attempt,
        engine=result.engine or engines.engine_for(assignment.source.kind).name,
        started_at=started_at,
        ended_at=now,
        **{name: value for name, value in vars(result).items() if name not in NOT_KEPT},
        warnings=[storable(each) for each in result.warnings],
        not_kept=[storable(each) for each in result.not_kept],
    )
    retention.plan([assignment], now)
    text = (
        f"backed up in {span(assignment.last_backup_for)}, {_counted(result)}; "
        f"its next-backup date is {assignment.next_backup_at:%Y-%m-%d %H:%M} UTC"
    )
    _log(record, "succeeded", text, now, size=result.size, next_backup_at=assignment.next_backup_at.isoformat())
    if assignment.next_backup_at <= now:
        planning.emit_due(now, [assignment.pk])


def _hold_back_what_looks_wrong(assignment: Assignment, record: Claimed, result: EngineResult, now: datetime) -> None:
    names = Counts._fields
    before = [Counts(*row) for row in assignment.backups.values_list(*names)[:LAST_RUNS]]
    found = suspicion(Counts(*(getattr(result, name) for name in names)), before)
    why = "; ".join(each for each in (found, result.doubt) if each)
    if not why or assignment.held_back_since:
        return
    assignment.held_back_since, assignment.held_back_why = now, why
    _log(record, "held back", f"{why}; nothing of it is removed until a person has looked", now)


def _counted(result: EngineResult) -> str:
    """As `7 files (1 new, 2 removed), 500 bytes (300 read), 1 warning`; what is unknown or nothing is left out."""
    files, size = (
        ", ".join(f"{number:,} {name}" for name in names if (number := getattr(result, name)))
        for names in (("new", "changed", "removed"), ("read", "added"))
    )
    text = f"{several(result.files, 'file')}{files and f' ({files})'}, {result.size:,} bytes{size and f' ({size})'}"
    number = len(result.warnings)
    return text + (f", {several(number, 'warning')}" if number else "")


def _log(record: Claimed, what: str, text: str, now: datetime, **facts: Any) -> None:
    title = record.payload.get("title") or record.subject
    decisions.doing(what, f"{title}: {text}", record=record, facts={"attempt": record.attempt, **facts}, now=now)
