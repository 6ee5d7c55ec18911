"""Takes records off the backlog. A running one is asked to stop; its settle ends it."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from jobs import exclusivity
from jobs.backlog.rows import lock
from jobs.clock import database_clock
from jobs.models import BacklogRecord
from jobs.states import FINISHED, Status
from jobs.wakeups import notify_cancelled


@dataclass(frozen=True)
class CancelResult:
    """Record ids by the result of a cancel, ascending. `missing`: those of no record."""

    cancelled: list[int]
    stopping: list[int]
    finished: list[int]
    missing: list[int]


@transaction.atomic
def cancel(ids: Iterable[int], *, now: datetime | None = None) -> CancelResult:
    """Take these records off the backlog, in one transaction (see `in_batches` for more than some thousand).

    Waiting and ready records are cancelled at once, and records that wait behind their exclusive key look again. A
    running one is asked to stop and ends as cancelled, unless it succeeds first. A finished one is left as it is. Its
    trigger emits none of them again. `now` (aware) replaces the database's clock in tests.
    """
    wanted = set(ids)
    rows = lock(wanted)
    instant = now or database_clock()
    idle = [row for row in rows if row.status in (Status.WAITING, Status.READY)]
    running = _ids(row for row in rows if row.status == Status.RUNNING)
    exclusivity.open_gates([row.exclusive_key for row in idle if row.status == Status.READY], instant)
    BacklogRecord.objects.filter(pk__in=_ids(idle)).end(Status.CANCELLED, instant)
    # the first cancel of a run is the one that counts
    BacklogRecord.objects.filter(pk__in=running, cancel_requested_at=None).update(cancel_requested_at=instant)
    for record_id in running:
        notify_cancelled(record_id)
    return CancelResult(
        cancelled=_ids(idle),
        stopping=running,
        finished=_ids(row for row in rows if row.status in FINISHED),
        missing=sorted(wanted - {row.id for row in rows}),
    )


def _ids(rows: Iterable[BacklogRecord]) -> list[int]:
    return [row.id for row in rows]
