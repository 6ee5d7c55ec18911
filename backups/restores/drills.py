"""Kind `drill`: proves now and then that the newest point of an assignment can be restored (`engines.restores`).

Its result is stored with the assignment: *last proved restorable* next to its last success, or the reason why it is
not.
"""

from collections.abc import Iterable
from dataclasses import asdict
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import transaction
from django.db.models import DurationField, ExpressionWrapper, F, Q, Value
from django.db.models.lookups import LessThanOrEqual
from django.template.defaultfilters import filesizeformat

from backups import holdings
from backups.restores import process
from backups.upkeep import records
from engines.base import EngineProgress
from engines.kinds import RULES
from engines.restores.drilling import DrillResult
from engines.restores.scratch import Scratch
from external.formatting import several
from external.processes.programs import ProgramMissing
from jobs import breakers
from jobs.clock import database_clock
from jobs.handlers import Run
from jobs.outcomes import ClaimedRecord, Failed, Outcome, Succeeded
from sources import planning
from sources.availability import repository_breaker
from sources.models import Assignment, DrillFrom
from storage.points.store import StorageFailed
from storage.restoring.base import RestoreProgress

KIND = planning.DRILL
AGAIN_AFTER = timedelta(days=1)
"""The wait after a drill that proved nothing."""
KEPT_TABLES = 500
SHOWN = 3


def plan(now: datetime | None = None) -> int:
    """Put the assignments that were not drilled for the time their policy names on the backlog. Returns how many are
    new.
    """
    instant = now or database_clock()
    time = ExpressionWrapper(Value(timedelta(seconds=1)) * F("policy__drill_every"), DurationField())
    first = Q(drill_planned_at=None) & LessThanOrEqual(records.first_from("policy__drill_every"), instant)
    again = first | Q(drill_planned_at__lt=Value(instant) - time) | Q(drill_planned_at__gt=instant + records.AHEAD)
    again |= ~Q(drill_error="") & Q(drill_planned_at__lt=instant - AGAIN_AFTER)
    assignments = records.due(again & Q(policy__drill_every__isnull=False), "drill_planned_at")
    return _enqueue(assignments, instant) if assignments else 0


@transaction.atomic
def drill_now(assignment_ids: Iterable[int], *, by: str = "a user", now: datetime | None = None) -> int:
    """Drill these now, outside of their windows as well. Returns the number that have something to drill, and are not
    at work yet."""
    instant = now or database_clock()
    found = records.asked_for(KIND, assignment_ids, "drill_planned_at", by, instant)
    return _enqueue(found, instant, at_once=True)


@transaction.atomic
def _enqueue(assignments: list[Assignment], now: datetime, *, at_once: bool = False) -> int:
    rows = Assignment.objects.filter(pk__in=[each.pk for each in assignments])
    list(rows.select_for_update(no_key=True).order_by("pk").values_list("pk"))  # which an update alone does not keep to
    rows.update(drill_planned_at=now)
    priority = planning.BACK_UP_NOW_PRIORITY if at_once else records.PRIORITY
    return records.enqueue(KIND, assignments, now, priority=priority, at_once=at_once) if assignments else 0


def run_drill(run: Run) -> Outcome:
    """Restore into scratch space, and compare. Blocks for as long as that takes."""
    return records.do(run, _drill)


def _drill(work: records.Work) -> DrillResult:
    assignment = work.assignment
    copy = assignment.copies.filter(repository=assignment.policy.copy_to_id).exclude(points=[]).first()
    second = copy.repository if copy and assignment.policy.drill_from == DrillFrom.COPY else None
    of_second = breakers.refusal(repository_breaker.guarded_by(second), work.record) if second else None
    if held := of_second if second else repository_breaker.refusal(assignment, work.record):
        raise records.UpkeepRefused(held)

    def on_step(step: RestoreProgress) -> None:
        work.on_progress(EngineProgress(step.bytes_done, step.bytes_total, step.files_done))

    try:
        scratch = _scratch_for(assignment)
        newest = holdings.newest_first(assignment.backups.select_related("repository")).first()
        if newest is None:
            raise StorageFailed("it has no backup any more")
        work.repository = second or newest.repository
        return process.drill(work.repository, assignment, scratch, work, on_step, work.grace)
    except (ImproperlyConfigured, ProgramMissing, ValueError, OSError) as error:
        raise StorageFailed(str(error)) from error


def _scratch_for(assignment: Assignment) -> Scratch:
    if RULES[assignment.source.kind].is_database:
        return process.scratch_for(assignment.source.kind)
    return Scratch(folder=str(Path(settings.VAR_DIR) / "drills"), reserve=settings.RESERVE_PERCENT)


def write_down(record: ClaimedRecord, outcome: Outcome, now: datetime) -> None:
    """Store the result of a drill with its assignment. Runs in the settle's transaction."""
    records.log_outcome(record, outcome, now)
    row = Assignment.objects.filter(pk=record.payload["assignment"])
    match outcome:
        case Succeeded(result=DrillResult() as done):
            facts = asdict(done) | {"tables": dict(islice(done.tables.items(), KEPT_TABLES))}
            row.update(drill_error=done.error and f"point {done.point}: {done.error}", drill_facts=facts)
            end = "not restorable" if done.error else "not proved here" if done.not_here else "proved"
            if end == "proved":
                row.update(proved_at=now, proved_point=done.point)
            records.log(record, end, as_text(done), now, **facts)
        case Failed(error, rescued=False) if record.queue == planning.BACKUPS:
            row.update(drill_error=error.partition("\n")[0])


def as_text(done: DrillResult) -> str:
    """The result as text, such as `point 20261121T065755Z: 3 of 3 files, 12 KB, came back as its manifest says`."""
    if done.error:
        return f"point {done.point}: {done.error}"
    files = f"{done.files:,} of {several(done.of_files, 'file')}"
    text = f"point {done.point}: {files}, {filesizeformat(done.size)}, came back whole"
    rows = f"{several(sum(done.tables.values()), 'row')} of {several(len(done.tables), 'table')}"
    text = f"{text}; the database was restored with {rows}" if done.tables else text
    if done.missing_files:
        named = "; ".join(done.missing[:SHOWN]) + (", …" if done.missing_files > SHOWN else "")
        text = f"{text}; not in this point, since they could not be read: {named}"
    text = "; ".join([text, *done.old])
    if done.not_here:
        return f"{text}; the rest is not proved here: {done.not_here}"
    return f"{text}. Not proved here: {'; '.join(done.notes)}" if done.notes else text
