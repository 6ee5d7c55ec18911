"""Findings of a summary of the backlog. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime, timedelta

from external.durations import span
from external.formatting import moment, several
from jobs import conf
from jobs.conf import PROGRAM
from operations.backlog.summary import BacklogSummary, BreakerSummary, QueueSummary, WorkerSummary
from operations.finding import Finding, Severity

OVERDUE_SECONDS = 60.0
"""A living worker promotes once a second. A minute covers the periodic tick, too."""

SILENT_SECONDS = 3600.0
"""A worker that has been silent for longer and holds nothing was killed and is forgotten."""

MOST_NAMED = 5
"""Silent workers named one by one."""

FOLLOWS = ("unserved_queues", "unpromoted")
"""Kinds that follow from having no worker alive, which is shown once."""


def attention(summary: BacklogSummary) -> list[str]:
    """One sentence for each finding that an operator has to see; empty if all is well."""
    is_alone = not any(worker.alive for worker in summary.workers)
    shown = (each for each in findings(summary) if not (is_alone and each.kind in FOLLOWS))
    return [*(f"{each.text}: {each.remedy}." for each in shown), *summary.in_need]


def findings(summary: BacklogSummary) -> Iterator[Finding]:
    """All that is wrong with the queue itself."""
    if summary.held:
        yield _warning(
            "on_hold",
            "hold",
            summary.held.removesuffix("."),
            f"`{PROGRAM} backlog release` ends it",
            summary.held_since,
        )
    yield from _of_workers(summary)
    for queue in summary.queues:
        yield from _of_queue(queue, summary)
    yield from (_of_breaker(each, summary.at) for each in summary.breakers)
    for kind in summary.unknown_kinds:
        what = f"There are records of the kind {kind!r}, which no app installed here handles"
        do = f"install its app, or `{PROGRAM} backlog cancel --kind {kind}`"
        yield _problem("unknown_kinds", f"kind:{kind}", what, do)
    if count := summary.dead_letters:
        gave_up = "1 record has given up" if count == 1 else f"{count:,} records have given up"
        do = f"`{PROGRAM} backlog errors` shows why, `{PROGRAM} backlog retry --status failed` tries again"
        yield _warning("dead_letters", "records", gave_up, do)


def _problem(kind: str, subject: str, text: str, do: str, since: datetime | None = None) -> Finding:
    return Finding(kind, subject, since, Severity.PROBLEM, text, do)


def _warning(kind: str, subject: str, text: str, do: str, since: datetime | None = None, name: str = "") -> Finding:
    return Finding(kind, subject, since, Severity.WARNING, text, do, name)


def _of_workers(summary: BacklogSummary) -> Iterator[Finding]:
    if not any(worker.alive for worker in summary.workers):
        made = _problem if any(queue.ready for queue in summary.queues) else _warning
        yield made("workers", "workers", "No worker is alive", f"start one with `{PROGRAM} worker`")
    silent = silent_of(summary)
    yield from (_silent(each, summary.at) for each in silent[:MOST_NAMED])
    if more := silent[MOST_NAMED:]:
        yield _warning("silent_workers", "workers", f"{len(more)} more workers are silent", "`--json` names them")


def silent_of(summary: BacklogSummary) -> list[WorkerSummary]:
    """Silent workers that are news: those that hold records first, then the latest."""
    silent = [worker for worker in summary.workers if not worker.alive]
    silent = [worker for worker in silent if worker.running or worker.heartbeat_for < SILENT_SECONDS]
    return sorted(silent, key=lambda worker: (-worker.running, worker.heartbeat_for))


def _silent(worker: WorkerSummary, now: datetime) -> Finding:
    its = f"{several(worker.running, 'record')} {'is' if worker.running == 1 else 'are'}"
    held = f"its {its} rescued by another worker" if worker.running else "it holds no records"
    what = f"Worker {worker.name} (#{worker.id}) has been silent for {span(worker.heartbeat_for)}"
    why = f"it was killed, or cannot reach the database; {held}"
    since = now - timedelta(seconds=worker.heartbeat_for)
    return _warning("silent_workers", f"worker:{worker.id}", what, f"{why}. Look at its host, or start another", since)


def _of_queue(queue: QueueSummary, summary: BacklogSummary) -> Iterator[Finding]:
    more = "+" if queue.at_least & {"ready", "waiting"} else ""
    subject, name, holds = f"queue:{queue.name}", queue.name, f"which has {queue.unfinished:,}{more} records"
    if queue.paused_at:
        what = f"Queue {paused(name, queue.paused_at, queue.paused_reason, queue.paused_until, summary.at)}"
        yield _warning("paused_queues", subject, what, f"`{PROGRAM} backlog resume {name}` resumes it", queue.paused_at)
    if queue.unfinished and not queue.in_settings:
        do = f"name it in JOBS['QUEUES'] and restart the workers, or `{PROGRAM} backlog cancel --queue {name}`"
        yield _problem("unserved_queues", subject, f"Queue {name}, {holds}, is not in the settings", do)
    elif not queue.workers and (why := holds if queue.unfinished else _fed_by(queue, summary)):
        served = {each.name for each in summary.queues if each.workers}
        held = [each.name for each in summary.queues if each.unfinished and each.in_settings]
        do = f"start a worker with `{start(held, served)}`"
        yield _problem("unserved_queues", subject, f"No worker serves queue {name}, {why}", do)
    if queue.overdue_for is not None and queue.overdue_for > OVERDUE_SECONDS:
        what = f"A record in queue {name} should have become ready {span(queue.overdue_for)} ago"
        since = summary.at - timedelta(seconds=queue.overdue_for)
        yield _problem("unpromoted", subject, what, "the workers do not tick; look at their logs", since)


def _fed_by(queue: QueueSummary, summary: BacklogSummary) -> str:
    """A clause that names the queues with records that feed this one; empty if none do."""
    rules = conf.queue_rules()
    feeding = [each.name for each in summary.queues if each.unfinished and _fed(each.name, rules) == queue.name]
    return f"which {' and '.join(feeding)} feed{'s' if len(feeding) == 1 else ''}" if feeding else ""


def start(queues: Iterable[str], served: Collection[str]) -> str:
    """The command of a worker that serves queues whose records no worker runs, `served` being those that are served:
    all queues if no queue is served; and with each queue also the one that it feeds, without which none of its records
    ever ends.
    """
    if not served:
        return f"{PROGRAM} worker"
    rules = conf.queue_rules()
    wanted = dict.fromkeys(name for queue in queues for name in (queue, _fed(queue, rules)) if name)
    return f"{PROGRAM} worker --queues {','.join(name for name in wanted if name not in served)}"


def _fed(queue: str, rules: Mapping[str, conf.QueueRule]) -> str | None:
    return rules[queue].feeds if queue in rules else None


def paused(name: str, since: datetime, reason: str, until: datetime | None, now: datetime) -> str:
    """A clause such as `backups has been paused for 2 h (the store is full), until 2026-03-02 18:00 UTC`."""
    why, end = f" ({reason})" if reason else "", f", until {moment(until)} UTC" if until else ""
    return f"{name} has been paused for {span((now - since).total_seconds())}{why}{end}"


def _of_breaker(breaker: BreakerSummary, now: datetime) -> Finding:
    waiting = f"{several(breaker.waiting, 'record')} {'waits' if breaker.waiting == 1 else 'wait'} for it"
    # a URL is not a word that begins a sentence
    name = breaker.title if "://" in breaker.title else f"{breaker.title[:1].upper()}{breaker.title[1:]}"
    what = f"{name} has kept failing for {span(breaker.open_for)} ({breaker.last_error}); {waiting}"
    do = f"correct it; the next record that needs it then tries it, or `{PROGRAM} backlog close-breaker {breaker.key}`"
    if breaker.waiting:
        do = f"correct it; `{PROGRAM} backlog probe-breaker {breaker.key}` then tries it at once"
    since = now - timedelta(seconds=breaker.open_for)
    return _warning("open_breakers", f"breaker:{breaker.key}", what, do, since, name)
