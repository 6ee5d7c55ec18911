"""The queues: which no worker serves, which are paused or held by a breaker, and records that no code can run."""

from datetime import datetime

from django.db.backends.utils import CursorWrapper
from django.db.models import Count

from jobs import conf
from jobs.durations import span
from jobs.models import BacklogRecord, PausedQueue, Worker
from jobs.states import UNFINISHED, Status, WaitingFor
from operations import checks, hold
from operations.doctor.finding import COUNT_TO, Answer, Severity, condition, counted, listed, ok, problem, rows, warning
from operations.terminal import plain

UNFINISHED_LIST = ", ".join(str(int(status)) for status in UNFINISHED)

READY = f"""
SELECT count(*)
  FROM (SELECT
          FROM jobs_backlogrecord
         WHERE status = {Status.READY} AND (%(queue)s::text IS NULL OR queue = %(queue)s)
         LIMIT {COUNT_TO + 1}) AS ready
"""


def ready_in(cursor: CursorWrapper, queue: str | None = None) -> int:
    return int(rows(cursor, READY, queue=queue)[0][0])


# Ready: one descent of `backlog_claim_order` a queue. Running: as many as there are places. Waiting: those that are
# due next, by `backlog_waiting_until`; a queue whose records are all due later is found when they come nearer.
QUEUES = f"""
WITH RECURSIVE ready AS (
    (SELECT queue FROM jobs_backlogrecord WHERE status = {Status.READY} ORDER BY queue LIMIT 1)
 UNION ALL
    SELECT (SELECT queue
              FROM jobs_backlogrecord
             WHERE status = {Status.READY} AND queue > ready.queue
             ORDER BY queue
             LIMIT 1)
      FROM ready
     WHERE ready.queue IS NOT NULL
), running AS (
    SELECT queue FROM jobs_backlogrecord WHERE status = {Status.RUNNING} LIMIT {COUNT_TO}
), waiting AS (
    SELECT queue FROM jobs_backlogrecord WHERE status = {Status.WAITING} ORDER BY run_after LIMIT {COUNT_TO}
)
SELECT queue FROM ready WHERE queue IS NOT NULL UNION SELECT queue FROM running UNION SELECT queue FROM waiting
"""


@condition(
    "no record has given up",
    "records have given up: {}",
    f"`{conf.PROGRAM} backlog errors` says why; correct that, then `{conf.PROGRAM} backlog retry`",
)
def dead_letters(cursor: CursorWrapper, now: datetime) -> Answer:
    """Failed records, by kind."""
    failed = BacklogRecord.objects.filter(status=Status.FAILED).order_by().values_list("kind").annotate(Count("pk"))
    found = dict(failed.order_by("kind"))
    return [f"{kind} ({number:,})" for kind, number in found.items()], found


@condition("")
def unserved_queues(cursor: CursorWrapper, now: datetime) -> Answer:
    """Queues with unfinished records that no living worker serves."""
    served = {queue for worker in Worker.alive(now) for queue in worker.queues}
    unserved = {queue: ready_in(cursor, queue) for queue in sorted({str(q) for (q,) in rows(cursor, QUEUES)} - served)}
    if not unserved:
        return ok("every queue that holds records has a living worker", unserved={})
    unknown = [queue for queue in unserved if queue not in conf.queue_rules()]
    known = [queue for queue in unserved if queue not in unknown]
    wrong = [
        f"{queue} ({counted(ready)} ready{', unknown to the settings' if queue in unknown else ''})"
        for queue, ready in unserved.items()
    ]
    do = [f"start a worker that serves {', '.join(known)}"] if known else []
    do += [f"add {', '.join(unknown)} to JOBS['QUEUES'], or cancel what lies there"] if unknown else []
    return problem(f"no living worker serves {listed(wrong)}", "; ".join(do), unserved=unserved, unknown=unknown)


@condition("nothing is on hold", do="when the reason is gone: `" + conf.PROGRAM + " release`")
def on_hold(cursor: CursorWrapper, now: datetime) -> Answer:
    """Whether a person holds everything."""
    found = hold.held()
    return [hold.sentence(found)] if found else [], {"held": bool(found)}


@condition("")
def paused_queues(cursor: CursorWrapper, now: datetime) -> Answer:
    """Queues that a person paused, and what is ready in them."""
    paused = list(PausedQueue.objects.order_by("name")[:100])
    ready = {queue.name: ready_in(cursor, queue.name) for queue in paused}
    if not paused:
        return ok("no queue is paused", paused=ready)
    wrong = [
        f"{queue.name} since {queue.paused_at:%Y-%m-%d %H:%M} UTC"
        f"{f' ({queue.reason})' if queue.reason else ''}: {counted(ready[queue.name])} ready"
        for queue in paused
    ]
    do = "when the reason is gone: " + ", ".join(f"{conf.PROGRAM} backlog resume {queue.name}" for queue in paused)
    return warning(f"paused: {listed(wrong)}", do, paused=ready)


# Breakers are few; the records that wait for one are counted by `backlog_held`.
OPEN = f"""
SELECT b.key, b.title, b.failures, b.trials, EXTRACT(EPOCH FROM %(now)s - b.opened_at)::float8, b.last_error,
       (SELECT count(*)
          FROM (SELECT
                  FROM jobs_backlogrecord
                 WHERE status = {Status.WAITING} AND waiting_for = {WaitingFor.BREAKER} AND breaker_id = b.id
                 LIMIT {COUNT_TO + 1}) AS held)
  FROM jobs_breaker b
 WHERE b.opened_at IS NOT NULL
 ORDER BY b.opened_at
 LIMIT 100
"""


@condition(
    "no breaker is open",
    do="mend what the error says (is the repository mounted, full, read-only?); a trial then closes it by itself: "
    f"`{conf.PROGRAM} breakers probe KEY` does it now, `{conf.PROGRAM} breakers close KEY` lets all go at once",
)
def open_breakers(cursor: CursorWrapper, now: datetime) -> Answer:
    """Whether records are held back by breakers, how many, and for how long."""
    wrong, numbers = [], []
    for key, title, failures, trials, seconds, error, waiting in rows(cursor, OPEN, now=now):
        wrong.append(
            f"{plain(title or key)} ({plain(key)}) has failed {failures} times in a row and is held back for "
            f"{span(seconds)}, {trials} trials did not close it; records that wait: {counted(waiting)}; the last "
            f"error: {plain((error.splitlines() or [''])[0])!s:.200}"
        )
        numbers.append({"key": key, "failures": failures, "trials": trials, "open_for": seconds, "waiting": waiting})
    return wrong, {"open": numbers}


# One descent of `one_unfinished_record_per_subject` a kind.
KINDS = f"""
WITH RECURSIVE found AS (
    (SELECT kind FROM jobs_backlogrecord WHERE status IN ({UNFINISHED_LIST}) ORDER BY kind LIMIT 1)
 UNION ALL
    SELECT (SELECT kind
              FROM jobs_backlogrecord
             WHERE status IN ({UNFINISHED_LIST}) AND kind > found.kind
             ORDER BY kind
             LIMIT 1)
      FROM found
     WHERE found.kind IS NOT NULL
)
SELECT kind FROM found WHERE kind IS NOT NULL LIMIT 1000
"""


@condition(
    "every unfinished record has a handler",
    "no handler for unfinished records of kind {}: they wait for a worker that has one",
    "install the app that handles them on every worker's host (the same version on all), or cancel them",
    severity=Severity.PROBLEM,
)
def unknown_kinds(cursor: CursorWrapper, now: datetime) -> Answer:
    """Unfinished records of a kind for which this installation has no handler."""
    handled = {kind for kind, _ in checks.registered()}
    unknown = [str(kind) for (kind,) in rows(cursor, KINDS) if kind not in handled]
    return unknown, {"unknown": unknown}
