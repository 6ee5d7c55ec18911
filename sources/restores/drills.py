"""Kind `drill`: proves now and then that the newest point of an assignment can be restored (`drilling.py`).

What it found stands with the assignment: *last proved restorable* beside its last success, or why it is not.
"""

from collections.abc import Iterable
from dataclasses import asdict
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import transaction
from django.db.models import DurationField, ExpressionWrapper, F, Q, Value
from django.template.defaultfilters import filesizeformat
from django.utils.module_loading import import_string

from jobs import decisions
from jobs.clock import database_clock
from jobs.handlers import Run
from jobs.outcomes import Claimed, Failed, Outcome, Succeeded
from sources import planning, repository_breaker
from sources.backups import upkeep
from sources.engines.base import EngineProgress
from sources.models import Assignment
from sources.models.source import SourceKind
from sources.processes.programs import ProgramMissing
from sources.restores import process
from sources.restores.drilling import Drilled, Scratch
from sources.storage.places import Step
from sources.storage.store import StorageFailed

KIND = planning.DRILL
AGAIN_AFTER = timedelta(days=1)
"""Where the last drill proved nothing."""
KEPT_TABLES = 500


def plan(now: datetime | None = None) -> int:
    """Put on the backlog what was not drilled for the time its policy names. Returns how many are new."""
    instant = now or database_clock()
    time = ExpressionWrapper(Value(timedelta(seconds=1)) * F("policy__drill_every"), DurationField())
    again = Q(drill_planned_at=None) | Q(drill_planned_at__lt=Value(instant) - time)
    again |= ~Q(drill_error="") & Q(drill_planned_at__lt=instant - AGAIN_AFTER)
    return _enqueue(upkeep.due(again & Q(policy__drill_every__isnull=False), "drill_planned_at"), instant)


@transaction.atomic
def drill_now(assignment_ids: Iterable[int], *, by: str = "a person", now: datetime | None = None) -> int:
    """Drill these now, whatever their window. Returns how many have something to drill, and are not at work yet."""
    instant = now or database_clock()
    found = upkeep.due(Q(pk__in=assignment_ids), "drill_planned_at")
    lines = (
        decisions.Line("asked for", f"{by} asked for a drill", KIND, planning.subject_of(each.pk)) for each in found
    )
    decisions.doing_all(lines, instant)
    return _enqueue(found, instant, at_once=True)


@transaction.atomic
def _enqueue(assignments: list[Assignment], now: datetime, *, at_once: bool = False) -> int:
    Assignment.objects.filter(pk__in=[each.pk for each in assignments]).update(drill_planned_at=now)
    priority = planning.BACK_UP_NOW_PRIORITY if at_once else upkeep.PRIORITY
    return upkeep.enqueue(KIND, assignments, now, priority=priority, at_once=at_once) if assignments else 0


def run_drill(run: Run) -> Outcome:
    """Restore into scratch space, and compare. Blocks for as long as that takes."""
    return upkeep.do(run, _drill)


def _drill(work: upkeep.Work) -> Drilled:
    assignment, policy = work.assignment, work.assignment.policy
    if held := repository_breaker.refusal(assignment, work.record):
        raise upkeep.Refused(held)

    def on_step(step: Step) -> None:
        work.on_progress(EngineProgress(step.bytes_done, step.bytes_total, step.files_done))

    try:
        scratch = _scratch_for(assignment)
        return process.drill(policy.repository, assignment.directory, scratch, work, on_step, work.grace)
    except (ImproperlyConfigured, ProgramMissing, ValueError, OSError) as error:
        raise StorageFailed(str(error)) from error


def _scratch_for(assignment: Assignment) -> Scratch:
    facts: dict[str, Any] = {"folder": str(Path(settings.VAR_DIR) / "drills")}
    if assignment.source.kind == SourceKind.POSTGRESQL:
        facts = import_string(settings.SCRATCH_SERVER)(Path(settings.VAR_DIR))
    return Scratch(reserve=settings.RESERVE_PERCENT, **facts)


def write_down(record: Claimed, outcome: Outcome, now: datetime) -> None:
    """Keep what a drill found with its assignment. Runs in the settle's transaction."""
    upkeep.log_outcome(record, outcome, now)
    row = Assignment.objects.filter(pk=record.payload["assignment"])
    match outcome:
        case Succeeded(result=Drilled() as done):
            facts = asdict(done) | {"tables": dict(islice(done.tables.items(), KEPT_TABLES))}
            row.update(drill_error=done.error and f"point {done.point}: {done.error}", drill_facts=facts)
            if not done.error:
                row.update(proved_at=now, proved_point=done.point)
            upkeep.log(record, "not restorable" if done.error else "proved", in_words(done), now, **facts)
        case Failed(error, rescued=False) if record.queue == planning.BACKUPS:
            row.update(drill_error=error.partition("\n")[0])


def in_words(done: Drilled) -> str:
    """As `point 20261121T065755Z: 3 of 3 files, 12 KB, came back as its manifest says`."""
    if done.error:
        return f"point {done.point}: {done.error}"
    text = (
        f"point {done.point}: {done.files:,} of {done.of_files:,} files, {filesizeformat(done.size)}, came back whole"
    )
    rows = f"{sum(done.tables.values()):,} rows of {len(done.tables):,} tables"
    return f"{text}; the database was restored with {rows}" if done.tables else text
