"""What in a summary needs a person, a sentence each: what is wrong and what to do. Pure."""

from collections.abc import Iterator

from jobs.conf import PROGRAM
from jobs.durations import span
from jobs.formatting import several
from operations.backlog.summary import BreakerSummary, QueueSummary, Summary, WorkerSummary

OVERDUE_SECONDS = 60.0
"""A living worker promotes once a second. A minute covers the periodic tick, too."""

SILENT_SECONDS = 3600.0
"""A worker that has been silent for longer and holds nothing was killed and is forgotten."""


MOST_NAMED = 5
"""Silent workers named one by one: those that hold records first, then the latest."""


def attention(summary: Summary) -> list[str]:
    """One sentence for each thing that needs a person; empty: all is well."""
    return [
        *([f"{summary.held} `{PROGRAM} release` goes on."] if summary.held else []),
        *_of_workers(summary),
        *(line for queue in summary.queues for line in _of_queue(queue, summary)),
        *map(_of_breaker, summary.breakers),
        *_of_kinds(summary),
        *_of_dead_letters(summary),
        *summary.in_need,
    ]


def _of_workers(summary: Summary) -> Iterator[str]:
    if not any(worker.alive for worker in summary.workers):
        yield f"No worker is alive: start one with `{PROGRAM} worker`."
    silent = [worker for worker in summary.workers if not worker.alive]
    silent = [worker for worker in silent if worker.running or worker.heartbeat_for < SILENT_SECONDS]
    silent.sort(key=lambda worker: (-worker.running, worker.heartbeat_for))
    yield from map(_silent, silent[:MOST_NAMED])
    if more := silent[MOST_NAMED:]:
        yield f"{len(more)} more workers are silent; `--json` names them."


def _silent(worker: WorkerSummary) -> str:
    held = f"its {worker.running} records are rescued by another worker" if worker.running else "it holds no records"
    return (
        f"Worker {worker.name} (#{worker.id}) has been silent for {span(worker.heartbeat_for)}: it was killed, or "
        f"cannot reach the database; {held}. Look at its host, or start another."
    )


def _of_queue(queue: QueueSummary, summary: Summary) -> Iterator[str]:
    unfinished = queue.waiting + queue.ready
    some_alive = any(worker.alive for worker in summary.workers)
    if queue.paused_at:
        why = f" ({queue.paused_reason})" if queue.paused_reason else ""
        since = span((summary.at - queue.paused_at).total_seconds())
        yield f"Queue {queue.name} has been paused for {since}{why}: `{PROGRAM} backlog resume {queue.name}` goes on."
    if unfinished and not queue.in_settings:
        yield (
            f"Queue {queue.name} has {unfinished:,} records but is not in the settings: name it in JOBS['QUEUES'] and "
            f"restart the workers, or `{PROGRAM} backlog cancel --queue {queue.name}`."
        )
    elif unfinished and some_alive and not queue.workers:
        yield (
            f"No worker serves queue {queue.name}, which has {unfinished:,} records: start a worker with "
            f"`{PROGRAM} worker --queues {queue.name}`."
        )
    if queue.overdue_for is not None and queue.overdue_for > OVERDUE_SECONDS and some_alive:
        yield (
            f"A record in queue {queue.name} should have become ready {span(queue.overdue_for)} ago: the workers do "
            "not tick; look at their logs."
        )


def _of_breaker(breaker: BreakerSummary) -> str:
    waiting = f"{several(breaker.waiting, 'record')} {'waits' if breaker.waiting == 1 else 'wait'} for it"
    # a URL is no word that begins a sentence
    name = breaker.title if "://" in breaker.title else f"{breaker.title[:1].upper()}{breaker.title[1:]}"
    then = f"`{PROGRAM} breakers probe {breaker.key}` then tries it at once."
    if not breaker.waiting:
        then = f"what needs it next then tries it, or `{PROGRAM} breakers close {breaker.key}`."
    return f"{name} has kept failing for {span(breaker.open_for)} ({breaker.last_error}); {waiting}. Correct it; {then}"


def _of_kinds(summary: Summary) -> Iterator[str]:
    for kind in summary.unknown_kinds:
        yield (
            f"There are records of the kind {kind!r}, which no app installed here handles: install its app, or "
            f"`{PROGRAM} backlog cancel --kind {kind}`."
        )


def _of_dead_letters(summary: Summary) -> Iterator[str]:
    if count := summary.dead_letters:
        gave_up = "1 record has given up" if count == 1 else f"{count:,} records have given up"
        yield f"{gave_up}: `{PROGRAM} backlog errors` says why, `{PROGRAM} backlog retry` tries again."
