"""*Retry now*: waiting records become ready at once, and those that ended without success are opened again.

A record is opened again only while no other unfinished one has its subject. The unique index
`one_unfinished_record_per_subject` decides that: a record that is put on the backlog at the same moment either
comes first, and is named, or is left out for this one.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from django.db import IntegrityError, transaction
from django.db.utils import OperationalError
from psycopg.errors import DeadlockDetected

from jobs import throttles
from jobs.backlog.rows import lock
from jobs.breakers import verbs
from jobs.clock import database_clock
from jobs.handlers import registry
from jobs.models import BacklogRecord
from jobs.prepared_statements import execute
from jobs.priorities import USUAL
from jobs.states import Status
from jobs.wakeups import notify

MAX_CONTESTS = 20
"""The most tries. Each failed one means that a record of one of these subjects was put on the backlog just then."""

# A user wants it tried although it is late, unless its kind says when the next opening is.
WITHOUT_A_CLOSED_WINDOW = """
       closes_at = CASE WHEN kind <> ALL(%(without_windows)s::text[]) OR closes_at > %(now)s::timestamptz
                        THEN closes_at END"""

STOP_WAITING = f"""
UPDATE jobs_backlogrecord
   SET status = {Status.READY}, waiting_for = NULL, breaker_id = NULL, exclusive_key = NULL,
       run_after = %(now)s::timestamptz,{WITHOUT_A_CLOSED_WINDOW}
 WHERE id = ANY(%(ids)s::bigint[])
"""

# The usual priority: being first in line was meant for one re-check.
OPEN_AGAIN = f"""
UPDATE jobs_backlogrecord b
   SET status = {Status.READY}, queue = wanted.queue, run_after = %(now)s::timestamptz, finished_at = NULL,
       failures = 0, first_failure_at = NULL, last_failure_at = NULL, rank_day = b.due_day, tried_at = NULL,
       cancel_requested_at = NULL, exclusive_key = NULL, breaker_id = NULL,{WITHOUT_A_CLOSED_WINDOW},
       priority = {USUAL}
  FROM unnest(%(ids)s::bigint[], %(queues)s::text[]) AS wanted(id, queue)
 WHERE b.id = wanted.id
"""


@dataclass(frozen=True)
class RetryResult:
    """Record ids by the result of a retry, ascending.

    `ready`: can be claimed now, including those that could before. `running` and `succeeded`: left as they are.
    `superseded`: record id → the id of the unfinished record of the same kind and subject, which continues instead.
    `missing`: there is no such record.
    """

    ready: list[int]
    running: list[int]
    succeeded: list[int]
    superseded: dict[int, int] = field(default_factory=dict)
    missing: list[int] = field(default_factory=list)


@transaction.atomic
def retry(ids: Iterable[int], *, now: datetime | None = None) -> RetryResult:
    """Make these records ready at once, in one transaction (see `in_batches` for more than some thousand).

    A waiting record stops waiting, for whatever reason, and keeps its failures. If several waited for one open breaker,
    the first of them is its trial, and the others wait again if that fails. A failed or cancelled record starts a fresh
    series of failures in the home queue of its kind, at the place of its due day; its attempts are not counted from 1
    again. If several have one subject, the latest is opened. A window of a kind with openings stays as it is: the next
    tick puts off records outside of it. Any other window that has closed is removed. The batch of the opened records is
    under way again, also for overlap. `now` (aware) replaces the database's clock in tests.
    """
    wanted = set(ids)
    for lock_triggers in registry.before_retry:
        lock_triggers(sorted(wanted))  # before records, as emitters lock them
    rows = lock(wanted)
    instant = now or database_clock()
    waiting = [row for row in rows if row.status == Status.WAITING]
    ended = [row for row in rows if row.status in (Status.FAILED, Status.CANCELLED)]
    execute(
        STOP_WAITING,
        {"ids": [row.id for row in waiting], "now": instant, "without_windows": registry.without_windows()},
    )
    verbs.try_first(waiting)
    opened, superseded = _open_again(ended, instant)
    for queue in {row.queue for row in waiting} | {registry.home_of(row.kind, row.queue) for row in opened}:
        notify(queue)
    ready = [row.id for row in rows if row.status == Status.READY] + [row.id for row in (*waiting, *opened)]
    return RetryResult(
        ready=sorted(ready),
        running=[row.id for row in rows if row.status == Status.RUNNING],
        succeeded=[row.id for row in rows if row.status == Status.SUCCEEDED],
        superseded=superseded,
        missing=sorted(wanted - {row.id for row in rows}),
    )


def _open_again(ended: list[BacklogRecord], now: datetime) -> tuple[list[BacklogRecord], dict[int, int]]:
    """Open the records that are not superseded. Returns them, and record id → superseding id."""
    latest = {(row.kind, row.subject): row for row in ended}
    for _ in range(MAX_CONTESTS):
        by_others = _superseding(list(latest.values()))
        opened = [row for row in latest.values() if row.id not in by_others]
        if _try_to_open(opened, now):
            break
    else:
        raise OperationalError(
            f"others put records of the same subjects on the backlog {MAX_CONTESTS} times in the meantime; try again"
        )
    unfinished = {key: by_others.get(row.id, row.id) for key, row in latest.items()}
    superseded = {row.id: unfinished[row.kind, row.subject] for row in ended}
    return opened, {record_id: other for record_id, other in superseded.items() if record_id != other}


def _superseding(rows: list[BacklogRecord]) -> dict[int, int]:
    alike = BacklogRecord.objects.unfinished().filter(
        kind__in={row.kind for row in rows}, subject__in={row.subject for row in rows}
    )
    others = {(kind, subject): pk for pk, kind, subject in alike.values_list("pk", "kind", "subject")}
    return {row.id: others[row.kind, row.subject] for row in rows if (row.kind, row.subject) in others}


def _try_to_open(rows: list[BacklogRecord], now: datetime) -> bool:
    """Returns False, with nothing changed, if a record of one of the subjects was put there in the meantime."""
    if not rows:
        return True
    try:
        with transaction.atomic():
            queues = [registry.home_of(row.kind, row.queue) for row in rows]
            ids = [row.id for row in rows]
            throttles.lock_lanes(row.lane for row in rows)
            execute(
                OPEN_AGAIN, {"ids": ids, "queues": queues, "now": now, "without_windows": registry.without_windows()}
            )
            for take_back in registry.at_retry:
                take_back(ids)
    except IntegrityError:
        return False
    except OperationalError as error:
        if not isinstance(error.__cause__, DeadlockDetected):
            raise
        return False
    return True
