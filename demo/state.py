"""What the live table shows, read from the database in a handful of queries."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone

from demo.services import LEASE_SECONDS
from jobs.models import BacklogRecord, Worker
from jobs.states import Status
from sources.models import Assignment, Progress
from sources.planning import BACKUPS, subject_of


@dataclass(frozen=True)
class Row:
    """One source: what it does, what is next, and why it waits. `share` of its bytes that are copied, 0 to 1."""

    name: str
    kind: str
    doing: str
    next: str
    error: str
    share: float | None
    failures: int
    last_backup_at: datetime | None
    next_backup_at: datetime | None


@dataclass(frozen=True)
class Picture:
    """The fleet at one moment. `units` are the execution units of all live workers, `busy` those at work."""

    rows: list[Row]
    units: int
    busy: int
    workers: int

    @property
    def protected(self) -> int:
        return sum(row.last_backup_at is not None for row in self.rows)


def picture() -> Picture:
    """Look at all sources, in the order of the fleet file."""
    now = timezone.now()
    records = {record.subject: record for record in BacklogRecord.objects.filter(kind="backup").unfinished()}
    progress = Progress.objects.in_bulk([record.pk for record in records.values()])
    assignments = Assignment.objects.select_related("source").order_by("source_id")
    workers = list(Worker.objects.filter(stopped_at=None, heartbeat_at__gt=now - timedelta(seconds=LEASE_SECONDS)))
    return Picture(
        rows=[_row(each, records.get(subject_of(each.pk)), progress, now) for each in assignments],
        units=sum(worker.queues.get(BACKUPS, 0) for worker in workers),
        busy=sum(r.status == Status.RUNNING and r.queue == BACKUPS for r in records.values()),
        workers=len(workers),
    )


def _row(assignment: Assignment, record: BacklogRecord | None, progress: dict[int, Progress], now: datetime) -> Row:
    doing, following, error, share = "", "", "", None
    if record is None:
        doing = "protected" if assignment.last_backup_at else "not due"
    elif record.status == Status.RUNNING:
        doing = "copying" if record.queue == BACKUPS else "checking"
        if (found := progress.get(record.pk)) and found.bytes_total:
            share = min(1.0, found.bytes_done / found.bytes_total)
    elif record.status == Status.READY:
        doing = "next for a unit" if record.queue == BACKUPS else "next to be asked"
    else:
        doing = f"waiting for {record.get_waiting_for_display()}"
        following, error = f"in {max(0.0, (record.run_after - now).total_seconds()):.0f} s", record.last_error
    return Row(
        assignment.source.name,
        assignment.source.kind,
        doing,
        following,
        error,
        share,
        assignment.failures,
        assignment.last_backup_at,
        assignment.next_backup_at,
    )
