"""The live table in the terminal, read from the database in a handful of queries: units at work, progress, and the next
steps. And the summary of a finished run."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone
from rich import box
from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from demo.processes import LEASE_SECONDS
from demo.summary import Summary
from external.formatting import several
from jobs.models import BacklogRecord, Worker
from jobs.states import Status
from sources.models import Assignment, Progress
from sources.planning import BACKUPS, subject_of

COLOURS = {"protected": "green", "copying": "cyan", "waiting": "yellow"}


@dataclass(frozen=True)
class Row:
    """One source: its activity, its next step, and why it waits. `share` of its bytes that are copied, 0 to 1."""

    assignment: Assignment
    doing: str
    next: str = ""
    error: str = ""
    share: float | None = None


@dataclass(frozen=True)
class Picture:
    """The fleet at one moment. `units` are the execution units of all live workers, `busy` those at work."""

    rows: list[Row]
    units: int
    busy: int
    workers: int

    @property
    def protected(self) -> int:
        return sum(row.assignment.last_backup_at is not None for row in self.rows)


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
    due = f"due {assignment.next_backup_at:%a %H:%M} UTC" if assignment.next_backup_at else ""
    if record is None:
        return Row(assignment, "protected" if assignment.last_backup_at else "not due", due)
    if record.status == Status.RUNNING:
        found = progress.get(record.pk)
        share = min(1.0, found.bytes_done / found.bytes_total) if found and found.bytes_total else None
        return Row(assignment, "copying" if record.queue == BACKUPS else "checking", due, share=share)
    if record.status == Status.READY:
        return Row(assignment, "next for a unit" if record.queue == BACKUPS else "next to be asked", due)
    following = f"in {max(0.0, (record.run_after - now).total_seconds()):.0f} s"
    return Row(assignment, f"waiting for {record.get_waiting_for_display()}", following, record.last_error)


def live_table(picture: Picture, footer: str) -> RenderableType:
    """The fleet at one moment."""
    table = Table(box=box.SIMPLE_HEAD, expand=True, pad_edge=False)
    columns = (("source", 3, 21), ("kind", 1, 10), ("now", 3, 20), ("", 2, 0), ("failed", 1, 6), ("next", 3, 7))
    for heading, ratio, least in columns:
        table.add_column(heading, ratio=ratio, min_width=least, no_wrap=True, overflow="ellipsis")
    for row in picture.rows:
        doing = Text(row.doing, style=COLOURS.get(row.doing.split()[0], ""))
        bar = "" if row.share is None else ProgressBar(total=1.0, completed=row.share)
        source, failures = row.assignment.source, row.assignment.failures
        table.add_row(source.name, source.kind, doing, bar, str(failures or ""), row.next)
    headline = Text.assemble(
        (f"{picture.protected} of {len(picture.rows)} sources protected", "bold"),
        f"   {picture.busy} of {picture.units} execution units at work   {several(picture.workers, 'worker')}",
    )
    errors = [Text(f"{row.assignment.source}: {row.error}", style="yellow") for row in picture.rows if row.error]
    return Group(headline, table, *errors, Text(footer, style="dim"))


def summary_table(summary: Summary) -> RenderableType:
    """The results of a finished run."""
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("source", "kind", "outcome", "attempts", "bytes", "seconds", "identical"):
        table.add_column(heading, justify="right" if heading in ("attempts", "bytes", "seconds") else "left")
    for each in summary.sources:
        table.add_row(
            *(str(each[name]) for name in ("name", "kind", "outcome", "attempts")),
            "" if each["bytes"] is None else f"{each['bytes']:,}",
            "" if each["seconds"] is None else f"{each['seconds']:.1f}",
            {None: "", True: "yes", False: "NO"}[each["identical"]],
        )
    back = [
        Text(
            f"restored {each.path} of {each.source} by {each.engine}: {each.bytes:,} bytes in {each.seconds:.1f} s, "
            + ("identical" if each.identical else "NOT IDENTICAL")
        )
        for each in summary.restored
    ]
    protected = f"{summary.protected} of {summary.reachable} reachable sources protected in {summary.seconds:.0f} s"
    return Group(table, *back, Text(protected, style="bold green" if summary.complete else "bold red"))
