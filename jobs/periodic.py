"""The periodic tasks, done by workers every minute and by a clock outside of the workers. All are short; no record runs
here."""

import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import datetime

from jobs import breakers, clock_repairs, conf, decisions, sweeps
from jobs.backlog import pausing
from jobs.breakers import verbs
from jobs.clock import clock_asked_once, database_clock
from jobs.database_errors import log_unless_away
from jobs.handlers import registry
from jobs.models import Attempt, BacklogRecord, Worker
from jobs.prepared_statements import execute_in_batches
from jobs.tick import tick as tick_once

log = logging.getLogger(__name__)

PRUNE_BATCH = 1000

# Served by `backlog_done` and the key of the attempts, which go with their record. As an array: joined, one plan for
# all numbers of records reads every attempt there is.
PRUNE = """
WITH gone AS MATERIALIZED (
    SELECT ctid AS place, id
      FROM jobs_backlogrecord
     WHERE finished_at < %(before)s
     ORDER BY finished_at
     LIMIT %(limit)s
       FOR UPDATE SKIP LOCKED
), attempts AS (
    DELETE FROM jobs_attempt WHERE record_id = ANY(ARRAY(SELECT id FROM gone))
)
DELETE FROM jobs_backlogrecord WHERE ctid = ANY(ARRAY(SELECT place FROM gone))
"""

KEPT_ATTEMPTS = 1000
"""The attempts that are kept of an unfinished record: at one a day, the history of three years."""


MINUTELY = (pausing.resume_those_over, pausing.release_if_over)
RARE = (breakers.correct_clocks, clock_repairs.correct)
DUE: dict[Callable[[], int], str] = {
    pausing.resume_those_over: "EXISTS (SELECT FROM jobs_pausedqueue WHERE paused_until <= clock.now)",
    pausing.release_if_over: "EXISTS (SELECT FROM jobs_hold WHERE until <= clock.now)",
    breakers.correct_clocks: "EXISTS (SELECT FROM jobs_breaker)",
}
"""Task of this package → the condition without which it has nothing to do."""


def tick() -> str:
    """One tick, for the case that no worker is alive to do it.

    It rescues nothing: only a worker, which ticks each second, can tell a dead worker from a database that was away.
    """
    changed = run_minutely()  # first: a failure below ends this task as failed, which django-q2 shows
    at_start()
    ticked = tick_once(rescue=False)
    return f"{ticked}, {changed} changed besides"


def at_start() -> int:
    """Call the functions of other apps for the start of a worker. Returns how much was changed. Raises:
    django.db.Error.
    """
    now = database_clock()
    return sum(task(now) for task in registry.at_start)


def run_minutely(*, rare: bool = True) -> int:
    """Run the tasks of every minute: overdue sweeps, and those of other apps, such as noting ended batches, or emitting
    assignments that became due after the trigger of their period. Workers do it as well, so a stopped qcluster costs
    nothing. `rare`: also the tasks of `run_rarely`. Returns the number of changes. A task that fails is logged and does
    not stop the others.

    Raises: django.db.Error if the database is away.
    """
    tasks = [sweeps.run_overdue, *MINUTELY, *registry.periodic]
    return _run(tasks) + (run_rarely() if rare else 0)


def run_rarely() -> int:
    """Run the tasks for which nothing waits, such as prunes and corrections after a clock that was ahead. Returns the
    number of changes: if it is not 0, more may be left, since each task has a bound.

    Raises: django.db.Error if the database is away.
    """
    return _run([*RARE, *registry.rare])


def _run(tasks: Sequence[Callable[[], int]]) -> int:
    """Ask in one statement which tasks are due, and do these; all of them, if that cannot be asked."""
    due = DUE | {sweeps.run_overdue: sweeps.MAY_BE_OVERDUE} | registry.due
    with ExitStack() as stack:
        try:
            asked = stack.enter_context(clock_asked_once(*(due.get(task, "TRUE") for task in tasks)))
        except Exception as error:
            log_unless_away(log, "cannot ask which periodic tasks are due, so all are done", error)
            asked = [True] * len(tasks)
        return sum(_done_or_logged(task) for task, is_due in zip(tasks, asked, strict=True) if is_due)


def _done_or_logged(task: Callable[[], int]) -> int:
    try:
        return task()
    except Exception as error:
        name = f"{getattr(task, '__module__', '')}.{getattr(task, '__qualname__', task)}"
        log_unless_away(log, f"the periodic task {name} failed, trying it again in a minute", error)
        return 0


def process_backlog(max_age_days: int) -> str:
    """The sweep of one tier of the progressive schedule. Returns the result as text.

    Raises: ValueError for an age that no tier has.
    """
    swept = sweeps.sweep_tier(max_age_days)
    if swept.done_before:
        return "swept before in this slot"
    more = ", and left some: it took its maximum" if swept.left_some else ""
    held = ", and left some that others held: it is done again in a minute" if swept.skipped else ""
    return f"{swept.ready} ready{more}{held}"


def prune(now: datetime | None = None) -> int:
    """Delete finished records and their attempts once their retention is over, in small batches.

    Rows of workers that ended as long ago are deleted as well, breakers that last failed then, expired lines of the log
    of decisions, and the oldest attempts of records that are tried for ever. Returns the number of records.
    """
    before = (now or database_clock()) - conf.keep_finished()
    Worker.objects.filter(heartbeat_at__lt=before).delete()
    decisions.prune(now)
    for task in registry.prunes:
        task(before)
    prune_attempts()
    verbs.prune(before)
    return execute_in_batches(PRUNE, {"before": before}, PRUNE_BATCH)


def prune_attempts(kept: int = KEPT_ATTEMPTS) -> int:
    """Delete the attempts of each unfinished record beyond its `kept` latest ones. Returns their number.

    A settle that is tried again looks for its own attempt in the history (`settling._lost_among`): that is one of the
    latest. Numbers may have gaps, so they are counted, not computed.
    """
    gone = 0
    for record_id in claimed_more_often_than(kept):
        attempts = Attempt.objects.filter(record_id=record_id)  # served by their key
        newest_first = attempts.order_by("-number").values_list("number", flat=True)
        if first_too_many := newest_first[kept:].first():
            gone += attempts.filter(number__lte=first_too_many).delete()[0]
    return gone


def claimed_more_often_than(times: int) -> list[int]:
    """The ids of unfinished records, ascending.

    An attempt is counted at each claim, so only records that were claimed more often can have more of them. Ended
    records gain no more attempts and go when their retention is over. Served by `one_unfinished_record_per_subject`.
    """
    often = BacklogRecord.objects.unfinished().filter(attempt__gt=times)
    return list(often.order_by("pk").values_list("pk", flat=True))
