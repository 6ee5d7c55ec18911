"""The queues, as the summary of the backlog has them: who serves them, what holds them up, what no code can run."""

from dataclasses import asdict
from datetime import datetime

from django.db.backends.utils import CursorWrapper
from django.db.models import Count

from declarations.surfaces.finding import Answer, Finding, Severity, condition, listed, ok, problem, warning
from external.formatting import several
from jobs.conf import PROGRAM
from jobs.models import BacklogRecord
from jobs.states import Status
from operations.backlog.attention import needs, silent_of
from operations.backlog.summary import Summary


def _found(summary: Summary, fine: str, severity: Severity, *sorts: str, **numbers: object) -> Finding:
    """What of these sorts needs a person."""
    found = [need for need in needs(summary) if need.sort in sorts]
    if not found:
        return ok(fine, **numbers)
    return Finding(
        "",
        severity,
        listed([need.what for need in found]),
        listed(list(dict.fromkeys(need.do for need in found))),
        numbers,
    )


@condition("", of_summary=True)
def workers(summary: Summary) -> Answer:
    """Whether a worker lives."""
    if alive := sum(worker.alive for worker in summary.workers):
        return ok(f"{several(alive, 'worker')} alive", alive=alive)
    do = f"start one: `{PROGRAM} worker` (`make run` starts one of each process)"
    if ready := sum(queue.ready for queue in summary.queues):
        return problem(f"no worker is alive; records that are ready: {ready:,}", do, alive=0, ready=ready)
    return warning("no worker is alive; nothing is ready now", do, alive=0, ready=0)


@condition("", of_summary=True)
def silent_workers(summary: Summary) -> Answer:
    """Workers whose heartbeat stopped without a goodbye, while they are news: as `backlog` names them."""
    silent = {worker.name: worker.heartbeat_for for worker in silent_of(summary)}
    return _found(summary, "no worker fell silent", Severity.WARNING, "silent", silent=silent)


@condition(
    "no record has given up",
    "records have given up: {}",
    f"`{PROGRAM} backlog errors` says why; correct that, then `{PROGRAM} backlog retry --status failed`",
)
def dead_letters(cursor: CursorWrapper, now: datetime) -> Answer:
    """Failed records, by kind."""
    failed = BacklogRecord.objects.filter(status=Status.FAILED).order_by().values_list("kind").annotate(Count("pk"))
    found = dict(failed.order_by("kind"))
    return [f"{kind} ({number:,})" for kind, number in found.items()], found


@condition("", of_summary=True)
def unserved_queues(summary: Summary) -> Answer:
    """Queues with unfinished records that no living worker serves, or no settings know."""
    unserved = [need.about for need in needs(summary) if need.sort in ("unserved", "unknown")]
    held = [queue for queue in summary.queues if queue.name in unserved]
    numbers = {queue.name: queue.ready for queue in held}
    unknown = [queue.name for queue in held if not queue.in_settings]
    fine = "every queue that holds records has a living worker"
    return _found(summary, fine, Severity.PROBLEM, "unserved", "unknown", unserved=numbers, unknown=unknown)


@condition("", of_summary=True)
def on_hold(summary: Summary) -> Answer:
    """Whether a person holds everything."""
    return _found(summary, "nothing is on hold", Severity.WARNING, "hold", held=bool(summary.held))


@condition("", of_summary=True)
def paused_queues(summary: Summary) -> Answer:
    """Queues that a person paused, and what is ready in them."""
    paused = {queue.name: queue.ready for queue in summary.queues if queue.paused_at}
    return _found(summary, "no queue is paused", Severity.WARNING, "paused", paused=paused)


@condition("", of_summary=True)
def open_breakers(summary: Summary) -> Answer:
    """Whether records are held back by breakers, how many, and for how long."""
    found = [asdict(breaker) for breaker in summary.breakers]
    return _found(summary, "no breaker is open", Severity.WARNING, "breaker", open=found)


@condition("", of_summary=True)
def unknown_kinds(summary: Summary) -> Answer:
    """Unfinished records of a kind that this installation does not know: they wait for a worker that does."""
    fine, unknown = "every unfinished record is of a kind known here", summary.unknown_kinds
    return _found(summary, fine, Severity.PROBLEM, "kind", unknown=unknown)
