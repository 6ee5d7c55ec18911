"""The results of a settled attempt for its assignment, and the line of the log that explains them."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db.models import F, Value
from django.db.models.expressions import CombinedExpression
from django.db.models.functions import Coalesce

from backups.copying import notifications
from backups.copying.log_lines import line_of, write_line
from backups.copying.successes import write_success
from engines.base import EngineResult
from jobs import decisions
from jobs.decisions import RecordLine
from jobs.models import BacklogRecord
from jobs.outcomes import (
    Cancelled,
    ClaimedRecord,
    Failed,
    Handoff,
    Held,
    Outcome,
    Postponed,
    Released,
    Results,
    Succeeded,
    Unavailable,
)
from jobs.states import Status
from sources import planning
from sources.domain import wake_hours
from sources.models import Assignment, Progress


def write_down(results: Results, now: datetime) -> None:
    """Bring the assignments of settled attempts up to date. Runs in the settle's transaction. The answers and silences
    of sources, which are most of a batch, take a few statements for all.
    """
    asked = [(record, outcome) for record, outcome in results if record.queue != planning.BACKUPS]
    others = _write_questions(asked, now)
    for record, outcome in results:
        if record.queue == planning.BACKUPS or record.id in others:
            _write_down(record, outcome, now)
    stays = [record for record, outcome in asked if not isinstance(outcome, Failed | Cancelled)]
    records = {planning.assignment_in(record.payload): record.id for record in stays}
    for assignment in sorted(planning.promised_among(records)):
        planning.keep_promise(Assignment.objects.filter(pk=assignment), records[assignment], now)


def _write_questions(asked: Results, now: datetime) -> set[int]:
    """Record which sources answered and which were silent. Returns the ids of the other records: those with another
    outcome, and those whose source has checked in in the meantime.
    """
    silent = [(record, _silent_since(record, end, now)) for record, end in asked if isinstance(end, Unavailable)]
    arrived = planning.checked_in_among(silent)
    lines, answered = list[RecordLine](), list[int]()
    for record, outcome in asked:
        match outcome:
            case Handoff(queue=planning.BACKUPS):
                answered.append(planning.assignment_in(record.payload))
                lines.append(line_of(record, "answered", outcome.found))
            case Handoff():
                lines.append(line_of(record, "asked again", outcome.found))
            case Unavailable() if record.id not in arrived:
                again_at = now + timedelta(seconds=outcome.recheck_after)
                lines.append(_silence(record, outcome, again_at, decisions.SILENT, outcome.reason))
    if answered:
        _were_there(answered, now)
    if lines:
        decisions.log_for_records(lines, now)
    return {record.id for record, _ in asked} - {line.record.id for line in lines}


def _were_there(assignments: Sequence[int], now: datetime) -> None:
    """Note an answer of each. They are locked by id, as everywhere that several are locked."""
    rows = Assignment.objects.filter(pk__in=assignments).order_by("pk").select_for_update(no_key=True)
    found = list(rows.values_list("pk", flat=True))
    Assignment.objects.filter(pk__in=found).update(last_contacted_at=now, seen_hours=_with(now, now))


def _write_down(record: ClaimedRecord, outcome: Outcome, now: datetime) -> None:
    assignments = Assignment.objects.filter(pk=planning.assignment_in(record.payload))
    if record.queue == planning.BACKUPS:
        Progress.objects.filter(record_id=record.id).delete()
    match outcome:
        case Handoff():  # its source has to be asked again before it is copied
            write_line(record, "asked again", outcome.found, now)
        case Unavailable():
            _write_silence(record, outcome, now)
        case Postponed():
            _write_postponement(record, outcome, now)
        case Released():
            write_line(record, "released", outcome.reason, now)
        case Held():
            # the repository's failure and not the assignment's: its failures and promises stay as they are
            write_line(
                record, "failed for its repository" if outcome.tried else "held", _first_line(outcome.reason), now
            )
            # an edit has closed it, perhaps to another repository: refused again, it waits again
            BacklogRecord.objects.filter(pk=record.id, closes_at__lte=now).update(run_after=now)
        case Cancelled():
            # taken out of its trigger, so that a resume in the same period emits its assignment again, even one that
            # came while the record still ran; but one that a user cancelled stays cancelled for its trigger
            ended = BacklogRecord.objects.filter(pk=record.id)
            if assignments.active().exists():
                ended = ended.filter(cancel_requested_at=None)
            ended.update(trigger_at=None)
            assignments.update(asked_for_at=None)
            write_line(record, "cancelled", outcome.reason, now)
        case Failed():
            first_failure_at = Coalesce("first_failure_at", Value(now))
            assignments.update(failures=F("failures") + 1, first_failure_at=first_failure_at, asked_for_at=None)
            if record.closes_at is None:
                _back_into_its_window(record, now)
            _log_failure(record, outcome, now)
            if wants := notifications.wanted_by(assignments):
                body = {"event": "backup.failed", "error": _first_line(outcome.error), "failures": wants.failures}
                notifications.follow(wants, record, now, body)
        case Succeeded(result=EngineResult() as result):
            # locked before its policy is read: an edit of the policy comes before both or after both
            if assignment := assignments.select_for_update().first():
                write_success(assignment, record, result, now)
                if notifications.wanted_by(assignments):
                    body = {"event": "backup.succeeded", "started_at": record.started_at.isoformat(),
                            "size": result.size, "files": result.files}  # fmt: skip
                    notifications.follow(assignment, record, now, body)


def _with(since: datetime, until: datetime) -> CombinedExpression:
    """The hours in which its source was seen, with those from `since` to `until`."""
    return F("seen_hours").bitor(wake_hours.seen(since, until))


def _write_silence(record: ClaimedRecord, outcome: Unavailable, now: datetime) -> None:
    assignments = Assignment.objects.filter(pk=planning.assignment_in(record.payload))
    what, reason = decisions.SILENT, outcome.reason
    if record.queue == planning.BACKUPS:
        seen_hours = _with(record.started_at, now)
        assignments.update(vanished_at=now, losses=F("losses") + 1, seen_hours=seen_hours)
        what, reason = "vanished", f"{reason}{_broke_off(assignments.first())}"
    again_at = planning.has_checked_in_since(record, _silent_since(record, outcome, now), now)
    if again_at is not None and again_at <= now:
        write_line(record, what, f"{reason}; but it has checked in since then and is asked at once", now)
        return
    again_at = again_at or now + timedelta(seconds=outcome.recheck_after)
    decisions.log_for_records([_silence(record, outcome, again_at, what, reason)], now)


def _silent_since(record: ClaimedRecord, outcome: Unavailable, now: datetime) -> datetime:
    return record.started_at if outcome.silent_for is None else now - timedelta(seconds=outcome.silent_for)


def _silence(
    record: ClaimedRecord, outcome: Unavailable, again_at: datetime, what: str, reason: str
) -> RecordLine:  # fmt: skip
    is_first = outcome.first_in_line or outcome.woken
    text = f"{reason}; asked again at {again_at:%H:%M:%S} UTC{', first in line' if is_first else ''}"
    return line_of(record, what, text, again_at=again_at.isoformat(), first_in_line=is_first)


def _broke_off(assignment: Assignment | None) -> str:
    words = assignment.loss.sentence if assignment else ""
    return words and f"; it {words}"


def _write_postponement(record: ClaimedRecord, outcome: Postponed, now: datetime) -> None:
    """The source may have reported better since that was looked up."""
    planning.has_checked_in_since(record, record.started_at, now)
    write_line(record, "postponed", f"{outcome.reason} {outcome.until:%Y-%m-%d %H:%M} UTC", now)


def _log_failure(record: ClaimedRecord, outcome: Failed, now: datetime) -> None:
    row = BacklogRecord.objects.filter(pk=record.id).values_list("status", "run_after", "failures").first()
    if row is None:
        return
    status, run_after, failures = row
    then = "it gave up" if status == Status.FAILED else f"tried again at {run_after:%Y-%m-%d %H:%M:%S} UTC"
    what = "rescued" if outcome.rescued else "failed"
    write_line(record, what, f"{_first_line(outcome.error)}; {then}", now, failures=failures)


def _first_line(text: str) -> str:
    return (text.splitlines() or [""])[0]


def _back_into_its_window(record: ClaimedRecord, now: datetime) -> None:
    """Close the window of a backup that ran outside of it for one attempt at a user's request: a tick finds the next
    opening.
    """
    retried = BacklogRecord.objects.filter(pk=record.id, status=Status.WAITING)
    retried.exclude(origin__schedule__policy__window=[], origin__schedule__policy__excluded_dates=[]).update(
        closes_at=now
    )
