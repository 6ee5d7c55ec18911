"""Queue `backups`: an engine copies a source, in an execution unit. The unit never waits for an absent source.

ask      whether the copy may begin now; a source that answered too long ago is handed back, which costs the unit
         milliseconds
order    the task of the engine (`order.py`)
run      the engine, with the policy's hook around it; a source that stops answering in mid-backup is let go after the
         grace of its policy
judge    its result (`verdicts.py`)
"""

from datetime import timedelta
from functools import partial

from django.db.utils import Error

import engines
from backups import known_points, locations, repository_orders
from backups.copying import losses, verdicts
from backups.copying.order import CopyOrder, order_for
from backups.hooks import running as hooks
from backups.progress import ProgressWriter
from backups.repository_state import busy
from backups.upkeep import restic_turns
from engines.base import EngineResult
from external.durations import span
from jobs import decisions
from jobs.clock import database_clock
from jobs.database_errors import DatabaseTrouble, trouble_of
from jobs.handlers import Run
from jobs.outcomes import Cancelled, ClaimedRecord, Outcome
from sources import planning
from sources.availability import repository_breaker
from sources.availability.check import assignment_of, database_away, not_wanted
from sources.availability.liveness import LivenessMonitor
from sources.declarations import reach
from sources.models import Assignment

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
        if trouble_of(error) is DatabaseTrouble.OURS:
            raise
        return database_away(run.record, error)


def _copy(run: Run, assignment: Assignment) -> Outcome:
    if refused := _refused(run, assignment):
        return refused
    order = order_for(assignment, run)
    if not isinstance(order, CopyOrder):
        return order
    _log_beginning(order, assignment, run.record)
    monitor = LivenessMonitor(
        assignment.source, assignment.policy, run.stop, closes_in=_seconds_to_close(assignment, run.record)
    )
    with monitor:
        result = _run(order, run, assignment, monitor)
    return verdicts.outcome_of(result, assignment, monitor, run.record) if isinstance(result, EngineResult) else result


def _refused(run: Run, assignment: Assignment) -> Outcome | None:
    """The outcome of a record that must not begin now; None if it may."""
    if unwanted := not_wanted(assignment):
        return unwanted
    policy, answered_at = assignment.policy, assignment.last_contacted_at
    reach.keep_place(assignment.source)
    run.max_seconds = policy.max_running_for
    if answered_at is not None and run.record.started_at - answered_at > ANSWER_HOLDS_FOR:
        return losses.asked_again(assignment, f"it answered last at {answered_at:%H:%M:%S} UTC: ask it again")
    if held := repository_breaker.refusal(assignment, run.record):
        return held
    if policy.repository.untried:
        return busy(locations.UNTRIED.format(policy.repository, ""))
    if restic_turns.is_wanted_alone(policy.repository):
        return busy(restic_turns.WANTED_ALONE.format(policy.repository))
    return None


def _run(order: CopyOrder, run: Run, assignment: Assignment, monitor: LivenessMonitor) -> EngineResult | Outcome:
    copy = partial(
        repository_orders.back_up,
        on_progress=monitor.watching(ProgressWriter(run.record)),
        stop=monitor,
        ours=order.ours,
        made=order.made,
        newest=order.newest,
        keep=known_points.keeping(assignment, assignment.policy.repository),
    )
    return hooks.around(run, assignment, order.task, copy, monitor)


def _seconds_to_close(assignment: Assignment, record: ClaimedRecord) -> float | None:
    """The seconds for which the copy may run. None if it may take as long as it needs: a backup that a user asked for
    has no window.
    """
    if record.closes_at is None:
        return None
    now = database_clock()
    closes_at = planning.stops_at(assignment.policy, assignment, now)
    return (closes_at - now).total_seconds() if closes_at else None


def _log_beginning(order: CopyOrder, assignment: Assignment, record: ClaimedRecord) -> None:
    engine = engines.engine_for(assignment.source.kind, order.task.location.format).name
    expected = f"; the last one took {span(assignment.last_backup_for)}" if assignment.last_backup_for else ""
    text = f"{engine} begins to back up {assignment.source} under {assignment.policy}{expected}"
    facts = {"attempt": record.attempt, "engine": engine, "expected_seconds": assignment.last_backup_for}
    decisions.log("began", text, record=record, facts=facts)
