"""The backlog as text for a terminal. Pure."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from declarations.surfaces.printable import facts_as_text
from declarations.surfaces.terminal import columns, one_line, plain, table
from external.durations import span
from external.formatting import moment, several
from jobs.conf import PROGRAM
from jobs.models import Attempt
from jobs.states import AttemptOutcome
from operations.backlog import at_work
from operations.backlog.attention import attention
from operations.backlog.dead_letters import DeadLetters
from operations.backlog.facts import took
from operations.backlog.reason import Explanation
from operations.backlog.summary import LYING, BacklogSummary, WorkerSummary


def summary_view(summary: BacklogSummary, running: Sequence[dict[str, Any]] = ()) -> RenderableType:
    """The summary as text: first the problems, since a small terminal shows no more; then the queues, the records
    `at_work` and the workers.
    """
    lines = attention(summary)
    parts: list[RenderableType] = [Text(f"The backlog at {moment(summary.at)} UTC", style="bold")]
    parts += [Text(f"! {plain(line)}", style="yellow") for line in lines] or [Text("All is well.", style="green")]
    parts += [_queues(summary), _ended(summary)]
    parts += [table(AT_WORK, map(at_work.row, running))] if running else []
    return Group(*parts, *([_workers(summary.workers)] if summary.workers else []))


QUEUES = columns("queue", "waiting>", "ready>", "running>", "oldest ready>", "served by", "")
ENDED = ("succeeded", "failed", "cancelled", "finished_last_minute", "finished_last_hour", "failed_last_hour")
BEGAN_IN = columns("began in", "succeeded>", "failed>", "cancelled>", "last minute>", "last hour>", "failed in it>")
AT_WORK = columns("running>", "what", "queue", "for>", "how far")
WORKERS = columns("worker", "life", "running>", "heartbeat", "serves")


def _queues(summary: BacklogSummary) -> Table:
    return table(QUEUES, (
        (queue.name, *map(queue.describe, LYING), queue.served_by, "paused" if queue.paused_at else "")
        for queue in summary.queues
    ))  # fmt: skip


def _ended(summary: BacklogSummary) -> Table:
    return table(BEGAN_IN, ((queue.name, *map(queue.describe, ENDED)) for queue in summary.queues))


def _workers(workers: list[WorkerSummary]) -> Table:
    rows = (
        (
            f"{worker.name} (#{worker.id})", "alive" if worker.alive else "silent", f"{worker.running:,}",
            f"{span(worker.heartbeat_for)} ago", ", ".join(f"{name}:{most}" for name, most in worker.queues.items()),
        )
        for worker in workers
    )  # fmt: skip
    return table(WORKERS, rows)


def reasons_view(found: Explanation) -> Iterator[str]:
    """One line for each reason: its code, its text, and its end if the text does not name it."""
    for number, reason in enumerate(found.reasons, 1):
        text, until, end = one_line(reason.text), reason.until, ""
        if until and until > found.at and moment(until) not in text:
            end = f" (until {moment(until)} UTC)"
        yield f"  {number}. {reason.code}: {text}{end}"
    if found.runnable:
        yield "  A claim could take it now."


RECORDS = columns("id>", "what", "status", "queue", "run after (UTC)", "priority>", "failures>", "last error")
EVENTS = columns(
    "id>", "event", "status", "launch (UTC)", "ended (UTC)", "lag>", "code>", "answered in>", "attempts>", "error"
)
ATTEMPTS = columns("attempt>", "queue", "started (UTC)", "took>", "outcome", "worker>", "found, and error")
DEAD_LETTERS = columns("group", "records>", "error", "kinds", "first (UTC)", "last (UTC)", "example>")


def records_view(found: Sequence[dict[str, Any]]) -> RenderableType:
    """One line for each record; for events alone, when each was delivered and the answer."""
    if all(facts["delivery"] for facts in found):
        return table(EVENTS, map(_event, found))
    rows = (
        (
            facts["id"], f"{facts['kind']} {facts['payload'].get('title') or facts['subject']}", _status(facts),
            facts["queue"], moment(facts["run_after"]), facts["priority"], facts["failures"] or "",
            facts["last_error"][:120],
        )
        for facts in found
    )  # fmt: skip
    return table(RECORDS, rows)


def _status(facts: dict[str, Any]) -> str:
    return f"waiting for {facts['waiting_for']}" if facts["waiting_for"] else str(facts["status"])


def _event(facts: dict[str, Any]) -> tuple[object, ...]:
    delivery = facts["delivery"]
    return (
        facts["id"], facts["subject"], _status(facts), moment(delivery["launch_at"]), moment(facts["finished_at"]),
        span(delivery["lag"]), delivery["code"] or "", span(delivery["seconds"]), facts["attempt"] or "",
        facts["last_error"][:120],
    )  # fmt: skip


def dead_letters_view(found: DeadLetters) -> RenderableType:
    """One line for each group of failed records with the same error."""
    rows = (
        (
            each.group, f"{each.count:,}", each.says or "nothing", ", ".join(sorted(each.kinds)),
            moment(each.first_at), moment(each.last_at), each.example_id,
        )
        for each in found.groups
    )  # fmt: skip
    return table(DEAD_LETTERS, rows)


def describe(found: DeadLetters, shown: int) -> str:
    """The part of the groups that is shown, and advice about a group."""
    groups = len(found.groups)
    text = f"{found.read:,} failed records in {several(groups, 'group')}"
    if found.more:
        text = f"the newest {text}; there are older ones"
    hidden = f"; {groups - shown:,} smaller groups are not shown (--limit)" if groups > shown else ""
    return f"{text}{hidden}; `{PROGRAM} backlog retry --like GROUP` retries one"


def record_view(facts: dict[str, Any], attempts: Sequence[Attempt]) -> RenderableType:
    """One record, one line for each fact that it has, and its attempts."""
    about = Table(box=None, show_header=False, pad_edge=False)
    for name, value in (facts | (facts["delivery"] or {}) | {"why": "; ".join(facts["why"])}).items():
        if name != "delivery" and value not in (None, ""):
            shown = f"{moment(value)} UTC" if isinstance(value, datetime) else value
            about.add_row(plain(name.replace("_", " ")), plain(shown))
    rows = (
        (
            attempt.number, attempt.queue, moment(attempt.started_at), took(attempt),
            AttemptOutcome(attempt.outcome).label, attempt.worker_id or "",
            "; ".join(filter(None, (facts_as_text(attempt.facts), attempt.error))),
        )
        for attempt in attempts
    )  # fmt: skip
    return Group(about, table(ATTEMPTS, rows) if attempts else Text("\nNo attempts yet."))
