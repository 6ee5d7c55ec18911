"""Queue `backups`: an engine copies a source, in an execution unit. The unit never waits for an absent source.

What answered too long ago is handed back to be asked again, which costs the unit milliseconds; what stops answering in
mid-backup is let go after the grace of its policy.
"""

import dataclasses
from datetime import timedelta
from functools import partial
from itertools import chain
from typing import Any

from django.conf import settings
from django.db.utils import Error
from django.utils.text import slugify

import engines
from backups import holdings, known_points, locations, repository_orders
from backups.copying import losses, not_for_now, staging
from backups.hooks import running as hooks
from backups.progress import ProgressWriter
from backups.repository_state import busy, not_writable, note_made, note_room
from backups.specifications import refused_in_clear, specification_of
from backups.upkeep import damage, restic_turns
from engines.base import BackupTask, EngineResult, Verdict
from external.durations import span
from jobs import conf, decisions
from jobs.clock import database_clock
from jobs.database_errors import Trouble, trouble_of
from jobs.handlers import Run
from jobs.outcomes import Cancelled, Claimed, Failed, Outcome, Released, Succeeded
from sealing.lookup import SecretNotFound
from sources import planning
from sources.availability import probes, repository_breaker
from sources.availability.check import assignment_of, database_away, not_wanted
from sources.availability.liveness import LivenessMonitor
from sources.declarations import overlaps, reach
from sources.models import Assignment, Policy
from storage import layout
from storage.places.location import RESTIC
from storage.points.store import StorageFailed

ANSWER_HOLDS_FOR = timedelta(seconds=60)
"""A source that answered longer ago is asked again before a unit is spent on it."""


def copy_source(run: Run) -> Outcome:
    """Run the engine on the source of a record. Blocks for as long as the copy takes."""
    try:
        assignment = assignment_of(run.record)
        if assignment is None:
            return Cancelled("its assignment is gone")
        outcome = losses.counted(_copy(run, assignment), assignment)
        hooks.after_failure(run, assignment, outcome)
        return outcome
    except Error as error:
        if trouble_of(error) is Trouble.OURS:
            raise
        return database_away(run.record, error)


def _copy(run: Run, assignment: Assignment) -> Outcome:
    if refused := not_wanted(assignment):
        return refused
    source, policy = assignment.source, assignment.policy
    reach.keep_place(source)
    run.max_seconds = policy.max_running_for
    answered_at = assignment.last_contacted_at
    if answered_at is not None and run.record.started_at - answered_at > ANSWER_HOLDS_FOR:
        return losses.asked_again(assignment, f"it answered last at {answered_at:%H:%M:%S} UTC: ask it again")
    if held := repository_breaker.refusal(assignment, run.record):
        return held
    if restic_turns.is_wanted_alone(policy.repository):
        return busy(restic_turns.WANTED_ALONE.format(policy.repository))
    try:
        specification, location = specification_of(source), locations.location_of(policy.repository)
        ours = locations.identity_of(policy.repository)
    except SecretNotFound as error:
        return Failed(f"source {source.name}: {error}")
    except StorageFailed as error:
        return Failed(str(error), fault_of=repository_breaker.guarded_by(policy.repository))
    if refusal := refused_in_clear(specification):
        return Failed(f"source {source.name} {refusal}")
    task = BackupTask(
        source=specification,
        location=location,
        folder=_directory(assignment),
        started_at=run.record.started_at,
        options=_options(assignment),
        connect_timeout=policy.connect_timeout,
        grace=conf.ending_seconds(),
        reserve=settings.RESERVE_PERCENT,
        least_rate=policy.least_rate,
        policy=str(policy),
        zone=policy.schedule.zone,
        staging=str(staging.root()),
        record=str(run.record.id),
        known=known_points.of(assignment, policy.repository),
        damaged=frozenset(chain.from_iterable(damage.places(assignment, policy.repository).values())),
        **_last(assignment),
    )
    _log_beginning(assignment, run.record, engines.engine_for(source.kind, location.format).name)
    closes_in = _seconds_to_close(policy, assignment, run.record)
    with LivenessMonitor(source, policy, run.stop, closes_in=closes_in) as monitor:
        on_progress = monitor.watching(ProgressWriter(run.record))
        copy = partial(
            repository_orders.back_up,
            on_progress=on_progress,
            stop=monitor,
            ours=ours,
            made=policy.repository.made_at is not None,
            newest=holdings.newest_in(policy.repository, assignment),
            keep=known_points.keeping(assignment, policy.repository),
        )
        result = hooks.around(run, assignment, task, copy, monitor)
    if not isinstance(result, EngineResult):
        return result
    _write_room(assignment, result)
    if result.verdict in (Verdict.SUCCEEDED, Verdict.WARNINGS):
        note_made(policy.repository)
    return _outcome(result, assignment, monitor, run.record)


def _write_room(assignment: Assignment, result: EngineResult) -> None:
    """How much room a repository has, and that it did not suffice: what a backup that has filled it had written is gone
    by then."""
    if result.room:
        note_room(assignment.policy.repository, result.room)
        if result.verdict is Verdict.FILLED:
            Assignment.objects.filter(pk=assignment.pk).update(room_lacked=result.room[0])


def _options(assignment: Assignment) -> dict[str, Any]:
    options: dict[str, Any] = assignment.policy.engine_options
    if own := overlaps.left_out_of(assignment.source):
        return options | {"exclude": [*options.get("exclude", []), *own]}
    return options


def _last(assignment: Assignment) -> dict[str, Any]:
    """The snapshot that restic compares a source with, where its repository is restic's. It is the last by its name:
    after a clock that was ahead, rows of later points began earlier."""
    if assignment.policy.repository.format != RESTIC:
        return {}
    rows = assignment.backups.filter(repository=assignment.policy.repository_id).order_by()
    points = ((name, row) for row in rows.values_list("snapshot", "files") if (name := layout.point_of(row[0])))
    _, (snapshot, files) = max(points, key=lambda each: layout.order_of(each[0]), default=("", ("", None)))
    return {"last_snapshot": snapshot, "last_files": files}


def _directory(assignment: Assignment) -> str:
    """Where in the repository this assignment's backups lie: chosen at its first backup, kept when it is renamed."""
    if not assignment.directory:
        source = slugify(assignment.source.name) or "source"
        policy = slugify(assignment.policy.schedule.name) or "policy"
        assignment.directory = f"{source}-{assignment.pk}/{policy}"
        assignment.save(update_fields=["directory"])
    return assignment.directory


def _seconds_to_close(policy: Policy, assignment: Assignment, record: Claimed) -> float | None:
    """How long the copy may run; None: as long as it takes. What a person asked for now has no window."""
    if record.closes_at is None:
        return None
    now = database_clock()
    closes_at = planning.stops_at(policy, assignment, now)
    return (closes_at - now).total_seconds() if closes_at else None


def _log_beginning(assignment: Assignment, record: Claimed, engine: str) -> None:
    expected = f"; the last one took {span(assignment.last_backup_for)}" if assignment.last_backup_for else ""
    text = f"{engine} begins to back up {assignment.source} under {assignment.policy}{expected}"
    facts = {"attempt": record.attempt, "engine": engine, "expected_seconds": assignment.last_backup_for}
    decisions.doing("began", text, record=record, facts=facts)


def _outcome(result: EngineResult, assignment: Assignment, monitor: LivenessMonitor, record: Claimed) -> Outcome:
    policy = assignment.policy
    match result.verdict:
        case Verdict.SUCCEEDED | Verdict.WARNINGS:
            engine = engines.engine_for(assignment.source.kind, policy.repository.format).name
            result = dataclasses.replace(result, repository=policy.repository_id, engine=engine)
            return Succeeded(result, proves=repository_breaker.guarded_by(policy.repository))
        case Verdict.STOPPED if monitor.vanished:
            return losses.vanished(policy, monitor.silence)
        case Verdict.STOPPED if monitor.closed:
            return Released("its window closed; it goes on in the next opening")
        case Verdict.STOPPED:
            return Released()
        case Verdict.UNAVAILABLE:
            return losses.lost(policy, result.error)
        case Verdict.NOT_FOR_NOW:
            return not_for_now.put_off(record, result.error, policy.recheck_after)
        case Verdict.BUSY:
            return busy(result.error)
        case Verdict.REPOSITORY_FAILED:
            # not what its message says, which may repeat the source's: whether a file can be written there at all
            is_its_own = not_writable(policy.repository, monitor)
            fault_of = repository_breaker.guarded_by(policy.repository) if is_its_own else None
            return Failed(f"repository {policy.repository}: {result.error}", fault_of=fault_of)
        case Verdict.FILLED:
            return Failed(result.error)
        case Verdict.SOURCE_FAILED:
            answer = probes.ask_now(assignment.source, policy.connect_timeout)
            if not answer.present:
                return losses.lost(policy, answer.text)
            return Failed(result.error)
