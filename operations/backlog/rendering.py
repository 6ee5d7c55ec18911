"""The backlog as text for a terminal. Pure, but for the width of the terminal."""

import io
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from jobs.durations import span
from jobs.formatting import moment
from jobs.models import Attempt
from jobs.states import AttemptOutcome, Status
from operations.backlog.attention import attention
from operations.backlog.dead_letters import DeadLetters
from operations.backlog.facts import took
from operations.backlog.summary import QueueSummary, Summary, WorkerSummary
from operations.printable import facts_in_words, printable

PIPE_WIDTH = 200
"""Columns where no terminal says how many it has: wide enough that nothing is folded."""

STYLES = {"failed": "red", "silent": "red", "paused": "yellow", "running": "cyan", "succeeded": "green"}


@dataclass(frozen=True)
class Column:
    """A heading, and whether numbers stand under it."""

    heading: str
    number: bool = False


def text_of(renderable: RenderableType, *, terminal: bool = False) -> str:
    """What `renderable` looks like: in colour and as wide as the terminal, or plain."""
    width = shutil.get_terminal_size().columns if terminal else PIPE_WIDTH
    console = Console(file=io.StringIO(), width=width, force_terminal=terminal, highlight=False)
    console.print(renderable)
    written = console.file.getvalue()  # type: ignore[attr-defined]
    return printable("\n".join(line.rstrip() for line in written.split("\n")).rstrip("\n"), colours=terminal)


def plain(value: object) -> Text:
    """A cell: what engines and people wrote cannot steer the terminal."""
    said = "".join(character if character.isprintable() else " " for character in str(value))
    return Text(said, style=STYLES.get(said, ""), overflow="fold")


def summary_view(summary: Summary) -> RenderableType:
    """What needs attention, first, since a small terminal shows no more; the queues, the workers."""
    lines = attention(summary)
    parts: list[RenderableType] = [Text(f"The backlog at {moment(summary.at)} UTC", style="bold")]
    parts += [Text(f"! {plain(line)}", style="yellow") for line in lines] or [Text("All is well.", style="green")]
    parts += [_queues(summary), _ended(summary)]
    return Group(*parts, *([_workers(summary.workers)] if summary.workers else []))


def _queues(summary: Summary) -> Table:
    columns = [
        Column("queue"),
        *(Column(name, number=True) for name in ("waiting", "ready", "running", "oldest ready")),
    ]
    rows = (
        (
            queue.name,
            *(_number(queue, name) for name in ("waiting", "ready", "running")),
            span(queue.oldest_ready_for) + _plus(queue, "oldest_ready_for"),
            queue.served_by,
            "paused" if queue.paused_at else "",
        )
        for queue in summary.queues
    )
    return table([*columns, Column("served by"), Column("")], rows)


ENDED = {
    "succeeded": "succeeded", "failed": "failed", "cancelled": "cancelled", "finished_last_minute": "last minute",
    "finished_last_hour": "last hour", "failed_last_hour": "failed in it",
}  # fmt: skip


def _ended(summary: Summary) -> Table:
    columns = [Column("ended in"), *(Column(heading, number=True) for heading in ENDED.values())]
    return table(columns, ((queue.name, *(_number(queue, name) for name in ENDED)) for queue in summary.queues))


def _number(queue: QueueSummary, name: str) -> str:
    return f"{getattr(queue, name):,}{_plus(queue, name)}"


def _plus(queue: QueueSummary, name: str) -> str:
    return "+" if name in queue.at_least and getattr(queue, name) is not None else ""


def _workers(workers: list[WorkerSummary]) -> Table:
    columns = [Column("worker"), Column("life"), Column("running", number=True), Column("heartbeat"), Column("serves")]
    rows = (
        (
            f"{worker.name} (#{worker.id})",
            "alive" if worker.alive else "silent",
            f"{worker.running:,}",
            f"{span(worker.heartbeat_for)} ago",
            ", ".join(f"{name}:{places}" for name, places in worker.queues.items()),
        )
        for worker in workers
    )
    return table(columns, rows)


def records_view(found: Sequence[dict[str, Any]]) -> RenderableType:
    """A line a record; of events alone, when each was delivered and what was answered."""
    if all(facts["delivery"] for facts in found):
        return table(EVENT_COLUMNS, map(_event, found))
    columns = [Column("id", number=True), Column("what"), Column("status"), Column("queue"), Column("run after (UTC)")]
    columns += [Column("priority", number=True), Column("failures", number=True), Column("last error")]
    rows = (
        (
            facts["id"],
            f"{facts['kind']} {facts['payload'].get('title') or facts['subject']}",
            _status(facts),
            facts["queue"],
            moment(facts["run_after"]),
            facts["priority"],
            facts["failures"] or "",
            facts["last_error"][:120],
        )
        for facts in found
    )
    return table(columns, rows)


def _status(facts: dict[str, Any]) -> str:
    return f"waiting for {facts['waiting_for']}" if facts["waiting_for"] else str(facts["status"])


EVENT_COLUMNS = [
    Column("id", number=True), Column("event"), Column("status"), Column("launch (UTC)"), Column("ended (UTC)"),
    Column("lag", number=True), Column("code", number=True), Column("answered in", number=True),
    Column("attempts", number=True), Column("error"),
]  # fmt: skip


def _event(facts: dict[str, Any]) -> tuple[object, ...]:
    delivery = facts["delivery"]
    # what failed before it was delivered is history
    error = "" if facts["status"] == Status.SUCCEEDED.label else facts["last_error"][:120]
    return (
        facts["id"], facts["subject"], _status(facts), moment(delivery["launch_at"]), moment(facts["finished_at"]),
        span(delivery["lag"]), delivery["code"] or "", span(delivery["seconds"]), facts["attempt"] or "", error,
    )  # fmt: skip


def dead_letters_view(found: DeadLetters) -> RenderableType:
    """A line a group of failed records that say the same."""
    columns = [Column("group"), Column("records", number=True), Column("what they say"), Column("kinds")]
    columns += [Column("first (UTC)"), Column("last (UTC)"), Column("example", number=True)]
    rows = (
        (
            each.group,
            f"{each.count:,}",
            each.says or "nothing",
            ", ".join(sorted(each.kinds)),
            moment(each.first_at),
            moment(each.last_at),
            each.example_id,
        )
        for each in found.groups
    )
    return table(columns, rows)


def describe(found: DeadLetters, shown: int) -> str:
    """How much of it is shown, and what to do with a group."""
    groups = len(found.groups)
    said = f"{found.read:,} failed records in {groups:,} group{'s' if groups != 1 else ''}"
    if found.more:
        said = f"the newest {said}; there are older ones"
    hidden = f"; {groups - shown:,} smaller groups are not shown (--limit)" if groups > shown else ""
    return f"{said}{hidden}; `manage.py backlog retry --like GROUP` retries one"


def record_view(facts: dict[str, Any], attempts: Sequence[Attempt]) -> RenderableType:
    """One record, a line a fact that it has, and its attempts."""
    about = Table(box=None, show_header=False, pad_edge=False)
    for name, value in (facts | (facts["delivery"] or {}) | {"why": "; ".join(facts["why"])}).items():
        if name != "delivery" and value not in (None, ""):
            shown = f"{moment(value)} UTC" if isinstance(value, datetime) else value
            about.add_row(plain(name.replace("_", " ")), plain(shown))
    if not attempts:
        return Group(about, Text("\nNo attempts yet."))
    columns = [Column("attempt", number=True), Column("queue"), Column("started (UTC)"), Column("took", number=True)]
    columns += [Column("outcome"), Column("worker", number=True), Column("found, and error")]
    rows = (
        (
            attempt.number,
            attempt.queue,
            moment(attempt.started_at),
            took(attempt),
            AttemptOutcome(attempt.outcome).label,
            attempt.worker_id or "",
            "; ".join(filter(None, (facts_in_words(attempt.facts), attempt.error))),
        )
        for attempt in attempts
    )
    return Group(about, table(columns, rows))


def table(columns: Sequence[Column], rows: Iterable[Sequence[object]]) -> Table:
    """A table of plain cells."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        made.add_column(column.heading, justify="right" if column.number else "left")
    for row in rows:
        made.add_row(*(plain(cell) for cell in row))
    return made
