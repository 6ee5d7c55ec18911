"""The backup kind: ask the source, copy it, write down what happened.

queue availability   `ask_source`     answers → handed to the execution units; silent → woken or asked again later
queue backups        `copy_source`    an engine copies, in an execution unit
settle               `write_down`     in the settle's own transaction, so a lost attempt changes nothing
"""

import logging
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from asgiref.sync import sync_to_async
from django.db import close_old_connections
from django.db.models import F
from django.utils.text import slugify

from jobs.clock import database_clock
from jobs.handlers import Kind, Run, registry
from jobs.models import BacklogRecord
from jobs.outcomes import Cancelled, Claimed, Failed, Handoff, Outcome, Released, Succeeded, Unavailable
from jobs.states import Status
from sources import availability, engines, planning, wake
from sources.engines.base import BackupTask, EngineProgress, EngineResult, SourceSpec, Verdict
from sources.models import Assignment, Backup, Progress, Source
from sources.secrets_by_reference import SecretNotFound, read_secret

log = logging.getLogger(__name__)

PROGRESS_EVERY_SECONDS = 0.5


def register() -> None:
    """Tell the backlog about backups."""
    registry.add(
        Kind(
            planning.KIND,
            home_queue=planning.AVAILABILITY,
            after_settle=write_down,
            next_opening=planning.next_openings,
        )
    )
    registry.add_provider("assignments", planning.emit_batches, catch_up=planning.emit_due)
    registry.handler(planning.KIND, queue=planning.AVAILABILITY)(ask_source)
    registry.handler(planning.KIND, queue=planning.BACKUPS)(copy_source)


def _assignment_of(record: Claimed) -> Assignment | None:
    close_old_connections()
    related = Assignment.objects.select_related("source", "policy__schedule", "policy__repository")
    return related.filter(pk=record.payload["assignment"]).first()


async def ask_source(run: Run) -> Outcome:
    """Contact the source; hand the record on if it answers, else wake it or ask again later."""
    assignment = await sync_to_async(_assignment_of)(run.record)
    if assignment is None:
        return Cancelled("its assignment is gone")
    if assignment.source.paused_at:
        return Cancelled("its source is paused")
    answer = await availability.ask(assignment.source, assignment.policy.connect_timeout)
    if answer.present:
        return Handoff(planning.BACKUPS, exclusive_key=assignment.source.exclusive_key)
    return await sync_to_async(_after_silence)(assignment, answer.said)


def _after_silence(assignment: Assignment, said: str) -> Outcome:
    policy, source = assignment.policy, assignment.source
    now = database_clock()
    if wake.may_wake(source, policy, now):
        error = wake.wake(source, now)
        if error is None:
            return Unavailable(f"{said}; sent a magic packet", policy.wake_wait, first_in_line=True)
        said = f"{said}; {error}"
    return Unavailable(said, policy.recheck_after)


def copy_source(run: Run) -> Outcome:
    """Run the engine on the source of a record. Blocks for as long as the copy takes."""
    assignment = _assignment_of(run.record)
    if assignment is None:
        return Cancelled("its assignment is gone")
    source, policy = assignment.source, assignment.policy
    if source.paused_at:
        return Cancelled("its source is paused")
    repository = Path(policy.repository.location)
    if not repository.is_dir():
        return Failed(f"repository {policy.repository}: {repository} is no directory here; is it mounted?")
    try:
        specification = _specification(source)
    except SecretNotFound as error:
        return Failed(f"source {source.name}: {error}")
    engine = engines.engine_for(source.kind)
    task = BackupTask(
        source=specification,
        destination=repository / _directory(assignment),
        started_at=run.record.started_at,
        keep_versions=policy.keep_versions,
        options=policy.engine_options,
        connect_timeout=policy.connect_timeout,
    )
    log.info("backing up %s with %s, attempt %s", source.name, engine.name, run.record.attempt)
    result = engine.run(task, on_progress=ProgressWriter(run.record), stop=run.stop)
    return _outcome(result, assignment)


def _specification(source: Source) -> SourceSpec:
    return SourceSpec(
        name=source.name,
        kind=source.kind,
        address=source.address,
        port=source.port,
        path=source.path,
        options=dict(source.options),
        secret=read_secret(source.secret),
        host_key=source.host_key,
    )


def _directory(assignment: Assignment) -> str:
    """Where in the repository this assignment's backups lie: chosen at its first backup, kept when it is renamed."""
    if not assignment.directory:
        source = slugify(assignment.source.name) or "source"
        policy = slugify(assignment.policy.schedule.name) or "policy"
        assignment.directory = f"{source}-{assignment.pk}/{policy}"
        assignment.save(update_fields=["directory"])
    return assignment.directory


def _outcome(result: EngineResult, assignment: Assignment) -> Outcome:
    match result.verdict:
        case Verdict.SUCCEEDED | Verdict.WARNINGS:
            return Succeeded(result)
        case Verdict.STOPPED:
            return Released()
        case Verdict.UNAVAILABLE:
            return Unavailable(result.error, assignment.policy.recheck_after)
        case Verdict.REPOSITORY_FAILED:
            return Failed(f"repository {assignment.policy.repository}: {result.error}")
        case Verdict.SOURCE_FAILED:
            answer = availability.ask_now(assignment.source, assignment.policy.connect_timeout)
            if not answer.present:
                return Unavailable(f"it went away: {answer.said}", assignment.policy.recheck_after)
            return Failed(result.error)


class ProgressWriter:
    """Saves how far a run is, a few times a second at the most."""

    def __init__(self, record: Claimed) -> None:
        self._record = record
        self._written_at = float("-inf")

    def __call__(self, progress: EngineProgress) -> None:
        now = time.monotonic()
        if now - self._written_at < PROGRESS_EVERY_SECONDS:
            return
        self._written_at = now
        facts: dict[str, Any] = {
            "attempt": self._record.attempt,
            "bytes_done": progress.bytes_done,
            "bytes_total": progress.bytes_total,
            "files_done": progress.files_done,
        }
        Progress.objects.update_or_create(record_id=self._record.id, defaults=facts)


def write_down(record: Claimed, outcome: Outcome, now: datetime) -> None:
    """What a settled attempt means for its assignment. Runs in the settle's transaction."""
    assignments = Assignment.objects.filter(pk=record.payload["assignment"])
    if record.queue == planning.BACKUPS:
        Progress.objects.filter(record_id=record.id).delete()
    match outcome:
        case Handoff():
            assignments.update(last_contacted_at=now)
        case Cancelled():
            # out of its trigger, so that a resume in the same period emits again; what a person cancelled stays so
            if assignments.filter(source__paused_at__isnull=False).exists():
                BacklogRecord.objects.filter(pk=record.id).update(trigger_at=None)
        case Failed():
            assignments.update(failures=F("failures") + 1)
            if record.closes_at is None:
                _back_into_its_window(record, now)
        case Succeeded(result=EngineResult() as result):
            if assignment := assignments.select_related("policy__schedule").first():
                _write_success(assignment, record, result, now)


def _back_into_its_window(record: Claimed, now: datetime) -> None:
    """What a person asked for runs out of its window for one attempt; a tick finds the opening of the next one."""
    retried = BacklogRecord.objects.filter(pk=record.id, status=Status.WAITING)
    retried.exclude(schedule__policy__window=[]).update(closes_at=now)


def _write_success(assignment: Assignment, record: Claimed, result: EngineResult, now: datetime) -> None:
    """The next-backup date follows the period in which the backup *started*; if that has passed already, the next
    record is emitted here, so no period is lost."""
    started_at = record.started_at
    assignment.last_backup_at = started_at
    assignment.last_backup_for = (now - started_at).total_seconds()
    assignment.last_backup_size = result.size
    assignment.last_contacted_at = now
    assignment.failures = 0
    assignment.next_backup_at = assignment.policy.schedule.period.next_after(started_at)
    assignment.save()
    Backup.objects.create(
        assignment=assignment,
        repository=assignment.policy.repository,
        record_id=record.id,
        attempt=record.attempt,
        engine=engines.engine_for(assignment.source.kind).name,
        started_at=started_at,
        ended_at=now,
        size=result.size,
        transferred=result.transferred,
        files=result.files,
        snapshot=result.snapshot,
        warnings=result.warnings,
    )
    if assignment.next_backup_at <= now:
        planning.emit_due(now, [assignment.pk])
