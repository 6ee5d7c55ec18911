"""Queue `restores`: runs the restores that were asked for, and notes their results. One that was
interrupted continues.
"""

from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from backups.progress import ProgressWriter
from backups.restores import process, requests
from backups.specifications import specification_as
from engines.base import EngineProgress
from external.formatting import several
from external.processes.programs import ProgramMissing
from jobs import conf, decisions
from jobs.handlers import Run
from jobs.models import BacklogRecord
from jobs.outcomes import Cancelled, ClaimedRecord, Failed, Outcome, Released, Succeeded
from jobs.states import Status
from sources.models import Progress, Restore, RestoreOutcome, To
from storage.points.store import StorageFailed, StorageStopped
from storage.restoring.base import Report, RestoreProgress, RestoreRefused, Wish

DO = {To.FOLDER: "restore", To.SOURCE: "put_back", To.DATABASE: "create_database"}
"""The place to restore to → the order of `engines.restores.restore_process`."""
KEPT = ("files", "size", "present", "not_set", "failed", "old", "missing")
"""The fields of a report that are kept with its restore."""
REFUSED = "nothing was written: "
"""The beginning of the error of a record that was ended since no further attempt would help."""


def run_restore(run: Run) -> Outcome:
    """Restore. Blocks for as long as that takes."""
    related = Restore.objects.select_related("assignment__source", "repository")
    row = related.filter(pk=run.record.payload["restore"]).first()
    if row is None:
        return Cancelled("the source or policy to restore was deleted")
    writer = ProgressWriter(run.record)

    def on_step(step: RestoreProgress) -> None:
        writer(EngineProgress(step.bytes_done, step.bytes_total, step.files_done))

    decisions.log(
        "began",
        f"{'looking at' if row.dry_run else 'restoring'} {row} to {requests.describe_target(row)}",
        record=run.record,
    )
    place = run.record.payload.get("place", "")
    target = Path(place if place and row.to == To.FOLDER else row.target)
    how = {"overwrite": row.overwrite, "dry_run": row.dry_run}
    wish = Wish(row.assignment.directory, row.point, target, tuple(row.paths), **how)
    source, repository = row.assignment.source, row.repository
    if repository is None:
        why = f"{REFUSED}the repository that held point {row.point} was deleted"
        return Cancelled(process.added(why, process.way_out(None, wish.assignment, row.point)))
    try:
        specification = None if row.to == To.FOLDER else specification_as(source, row.user, row.secret)
        if specification and place:
            name = Path(source.path).name if row.to == To.DATABASE else ""
            specification = replace(specification, path=str(Path(place) / name))
        loader = process.scratch_for(source.kind, needs_server=False) if row.to == To.DATABASE else None
        what: dict[str, Any] = {"do": DO[To(row.to)], "source": specification, "loader": loader, "foreign": row.foreign}
        what |= {"terms": row.terms} if row.to == To.DATABASE else {}
        return Succeeded(process.restore(repository, wish, run.stop, on_step, conf.ending_seconds(), **what))
    except RestoreRefused as error:
        return Cancelled(f"{REFUSED}{error}")
    except StorageStopped:
        return Released("stopped in the middle; it continues there")
    except (ImproperlyConfigured, StorageFailed, ProgramMissing, ValueError, OSError) as error:
        return Failed(str(error))


def write_down(record: ClaimedRecord, outcome: Outcome, now: datetime) -> None:
    """Store the result of a settled attempt with its restore. Runs in the settle's transaction."""
    Progress.objects.filter(record_id=record.id).delete()
    found: dict[str, Any] = {}
    title = record.payload.get("title") or record.subject
    match outcome:
        case Succeeded(result=Report() as report):
            found = {"outcome": RestoreOutcome.INCOMPLETE if report.failed_files else RestoreOutcome.SUCCEEDED}
            found |= {name: getattr(report, name) for name in KEPT}
            found["error"] = report.elsewhere
            lost = several(report.failed_files, report.what)
            text = f"{several(report.files, 'file')}, {report.size:,} bytes; not restored: {lost}"
            text = "; ".join([text, *report.old])
            if report.missing_files:
                text = f"{text}; not in this point: {several(report.missing_files, 'path')}"
            if Restore.objects.filter(pk=record.payload["restore"], dry_run=True).exists():
                text = f"nothing was written; it would be {text}"
            text = process.added(text, report.elsewhere)
            facts = {name: value for name, value in asdict(report).items() if isinstance(value, int)}
            decisions.log("succeeded", f"{title}: {text}", record=record, facts=facts, now=now)
        case Cancelled(reason):
            refused = reason.startswith(REFUSED)
            found = {"outcome": RestoreOutcome.FAILED if refused else RestoreOutcome.CANCELLED, "error": reason}
            decisions.log("refused" if refused else "cancelled", f"{title}: {reason}", record=record, now=now)
        case Failed(error):
            gave_up = BacklogRecord.objects.filter(pk=record.id, status=Status.FAILED).exists()
            found = {"outcome": RestoreOutcome.FAILED} if gave_up else {}
            found["error"] = error
            decisions.log("failed", f"{title}: {error}", record=record, now=now)
        case _:
            return
    if found.get("outcome"):
        found |= {"ended_at": now, "secret": ""}
    Restore.objects.filter(pk=record.payload["restore"]).update(**found)
