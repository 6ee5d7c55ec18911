"""The results of a successful backup: the dates of its assignment, the row of the backup, and the
records planned next.
"""

from contextlib import suppress
from datetime import datetime

import engines
from backups import known_points
from backups.copying.log_lines import write_line
from backups.upkeep import retention
from engines.base import EngineResult
from external.durations import span
from external.formatting import several
from jobs.outcomes import ClaimedRecord
from jobs.prepared_statements import storable
from sources import planning
from sources.domain import wake_hours
from sources.domain.due import next_backup_at
from sources.domain.overdue import thresholds
from sources.domain.suspicion import LAST_RUNS, Counts, suspicion
from sources.models import Assignment, Backup
from storage import layout

WRITTEN = (
    "last_backup_at", "last_backup_for", "last_backup_size", "last_contacted_at", "failures", "first_failure_at",
    "skips", "losses", "vanished_at", "next_backup_at", "overdue_since", "asked_for_at", "held_back_since",
    "held_back_why", "to_copy_since", "room_lacked", "seen_hours",
)  # fmt: skip

NOT_KEPT = ("verdict", "error", "warnings", "not_kept", "repository", "engine", "room", "doubt", "manifest")
"""Fields of a result that its row has under another name, or not at all."""


def write_success(assignment: Assignment, record: ClaimedRecord, result: EngineResult, now: datetime) -> None:
    """Bring an assignment, which is locked, up to date after a success, and store the backup.

    The next-backup date follows the period in which the backup *started*; if that has passed already, the next record
    is emitted here, so no period is lost.
    """
    next_at = _set_dates(assignment, record, result, now)
    _hold_back_what_looks_wrong(assignment, record, result, now)
    assignment.save(update_fields=WRITTEN)
    _store_backup(assignment, record, result, now)
    retention.plan([assignment], now)
    took = f" in {span(assignment.last_backup_for)}" if record.started_at <= now else ""
    text = f"backed up{took}, {_counted(result)}; its next-backup date is {next_at:%Y-%m-%d %H:%M} UTC"
    write_line(record, "succeeded", text, now, size=result.size, next_backup_at=next_at.isoformat())
    if next_at <= now:
        planning.emit_due(now, [assignment.pk])


def _set_dates(assignment: Assignment, record: ClaimedRecord, result: EngineResult, now: datetime) -> datetime:
    """Set them, unsaved. Returns the next-backup date."""
    started_at = min(record.started_at, now)
    assignment.last_backup_at = started_at
    if record.started_at <= now:  # otherwise the clock was set back in the meantime
        assignment.last_backup_for = (now - started_at).total_seconds()
    assignment.last_backup_size = result.size
    assignment.seen_hours |= wake_hours.seen(started_at, now)
    assignment.last_contacted_at = now
    assignment.failures = assignment.skips = assignment.losses = 0
    assignment.vanished_at = assignment.asked_for_at = assignment.first_failure_at = assignment.room_lacked = None
    assignment.next_backup_at = next_at = next_backup_at(assignment.policy.schedule.period, started_at, now)
    if assignment.policy.copy_to_id and assignment.to_copy_since is None:
        assignment.to_copy_since = now
    policy, window = assignment.policy, None
    with suppress(ValueError):  # a window that cannot be read, which is set aside where it is needed
        window = policy.weekly_window
    limits = thresholds(policy.schedule.period, policy.alert_after, now, window)
    if min(started_at, next_at) > limits.clear_after:
        assignment.overdue_since = None
    return next_at


def _store_backup(assignment: Assignment, record: ClaimedRecord, result: EngineResult, now: datetime) -> None:
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
        started_at=record.started_at,
        ended_at=now,
        **{name: value for name, value in vars(result).items() if name not in NOT_KEPT},
        warnings=[storable(each) for each in result.warnings],
        not_kept=[storable(each) for each in result.not_kept],
    )


def _hold_back_what_looks_wrong(
    assignment: Assignment, record: ClaimedRecord, result: EngineResult, now: datetime
) -> None:
    names = Counts._fields
    before = [Counts(*row) for row in assignment.backups.values_list(*names)[:LAST_RUNS]]
    found = suspicion(Counts(*(getattr(result, name) for name in names)), before)
    why = "; ".join(each for each in (found, result.doubt) if each)
    if not why or assignment.held_back_since:
        return
    assignment.held_back_since, assignment.held_back_why = now, why
    write_line(record, "held back", f"{why}; none of its points are removed until an operator has looked", now)


def _counted(result: EngineResult) -> str:
    """The counts of a run, such as `7 files (1 new, 2 removed), 500 bytes (300 read), 1 warning`. Counts that are
    unknown or 0 are left out.
    """
    files, size = (
        ", ".join(f"{number:,} {name}" for name in names if (number := getattr(result, name)))
        for names in (("new", "changed", "removed"), ("read", "added"))
    )
    text = f"{several(result.files, 'file')}{files and f' ({files})'}, {result.size:,} bytes{size and f' ({size})'}"
    number = len(result.warnings)
    return text + (f", {several(number, 'warning')}" if number else "")
