"""Records that nobody will run: their queue is unserved or paused, or no code knows their kind."""

from datetime import datetime

from django.db.backends.utils import CursorWrapper

from jobs import conf
from jobs.models import PausedQueue
from jobs.states import UNFINISHED, Status
from operations.checks import registered
from operations.doctor.asking import COUNT_TO, counted, row, rows
from operations.doctor.finding import Finding, listed, ok, problem, warning
from operations.doctor.workers import living

UNFINISHED_LIST = ", ".join(str(int(status)) for status in UNFINISHED)

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
SELECT queue FROM ready WHERE queue IS NOT NULL
 UNION
SELECT queue FROM running
 UNION
SELECT queue FROM waiting
"""

READY_IN = f"""
SELECT count(*)
  FROM (SELECT
          FROM jobs_backlogrecord
         WHERE status = {Status.READY} AND queue = %(queue)s
         LIMIT {COUNT_TO + 1}) AS ready
"""

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


def unserved_queues(cursor: CursorWrapper, now: datetime) -> Finding:
    """Queues with unfinished records that no living worker serves."""
    queues = sorted(str(queue) for (queue,) in rows(cursor, QUEUES))
    served = {queue for worker in living(now) for queue in worker.queues}
    unserved = {queue: int(row(cursor, READY_IN, {"queue": queue})[0]) for queue in queues if queue not in served}
    if not unserved:
        return ok("unserved_queues", "every queue that holds records has a living worker", unserved={})
    known = conf.queue_rules()
    unknown = [queue for queue in unserved if queue not in known]
    said = [
        f"{queue} ({counted(ready)} ready{', unknown to the settings' if queue in unknown else ''})"
        for queue, ready in unserved.items()
    ]
    do = (
        [f"start a worker that serves {', '.join(q for q in unserved if q in known)}"]
        if set(unserved) - set(unknown)
        else []
    )
    do += [f"add {', '.join(unknown)} to JOBS['QUEUES'], or cancel what lies there"] if unknown else []
    return problem(
        "unserved_queues",
        f"no living worker serves {listed(said)}",
        "; ".join(do),
        unserved=unserved,
        unknown=unknown,
    )


def paused_queues(cursor: CursorWrapper, now: datetime) -> Finding:
    """Queues that a person paused, and what is ready in them."""
    paused = list(PausedQueue.objects.order_by("name")[:100])
    if not paused:
        return ok("paused_queues", "no queue is paused", paused={})
    ready = {queue.name: int(row(cursor, READY_IN, {"queue": queue.name})[0]) for queue in paused}
    said = [
        f"{queue.name} since {queue.paused_at:%Y-%m-%d %H:%M} UTC"
        f"{f' ({queue.reason})' if queue.reason else ''}: {counted(ready[queue.name])} ready"
        for queue in paused
    ]
    do = "when the reason is gone: " + ", ".join(f"manage.py backlog resume {queue.name}" for queue in paused)
    return warning("paused_queues", f"paused: {listed(said)}", do, paused=ready)


def unknown_kinds(cursor: CursorWrapper, now: datetime) -> Finding:
    """Unfinished records of a kind for which this installation has no handler."""
    kinds = [str(kind) for (kind,) in rows(cursor, KINDS)]
    handled = {kind for kind, _ in registered()}
    unknown = [kind for kind in kinds if kind not in handled]
    if not unknown:
        return ok("unknown_kinds", "every unfinished record has a handler", unknown=[])
    return problem(
        "unknown_kinds",
        f"no handler for unfinished records of kind {listed(unknown)}: they wait for a worker that has one",
        "install the app that handles them on every worker's host (the same version on all), or cancel them",
        unknown=unknown,
    )
