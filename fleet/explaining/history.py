"""Reasons why a source was not backed up at a past instant, and how long it waited for each: from its records, their
attempts, the log of decisions, pauses and holds, as far as they are kept.

The window is that of today: its value before an edit is in the audit.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q

from external.durations import span
from external.formatting import first_line, moment
from fleet.explaining.timeline import Life, PastAttempt, Span, Stretch, stretches
from jobs import conf
from jobs.models import Attempt, BacklogRecord, Decision
from jobs.states import UNFINISHED, AttemptOutcome, Status, WaitingFor
from operations.backlog.reason import Code, Explanation, Reason
from sources.models import Assignment
from sources.planning.names import BACKUPS, KIND, subject_of
from sources.protection import ledger

MOST_ATTEMPTS = 5_000
"""The most attempts of an assignment that are read; the latest."""
SHOWN_LINES = 3
"""Lines of the log before an instant that are quoted."""

WAITS = {
    WaitingFor.START: Code.START, WaitingFor.WINDOW: Code.WINDOW, WaitingFor.BACKOFF: Code.BACKOFF,
    WaitingFor.RECHECK: Code.ABSENT, WaitingFor.SNOOZE: Code.SNOOZED, WaitingFor.THROTTLE: Code.EXCLUSIVE,
    WaitingFor.BREAKER: Code.BREAKER, WaitingFor.SWEEP: Code.SWEEP,
}  # fmt: skip
IDLE = {ledger.PAUSED: Code.PAUSED, ledger.DISABLED: Code.DISABLED, ledger.HELD: Code.ON_HOLD}


class NotKept(ValueError):
    """No history is kept for that instant."""


def kept_since(assignment: Assignment, now: datetime) -> datetime:
    """The instant from which on its history is kept."""
    return max(assignment.inserted_at, now - conf.keep_finished())


def explain_at(assignment: Assignment, at: datetime, now: datetime) -> Explanation:
    """Explain why its backup did not run at an instant before `now`. Needs its source and its policy's schedule.

    Raises: NotKept for an instant in the future, and one for which nothing is kept.
    """
    if at > now:
        raise NotKept(f"{moment(at)} UTC is in the future; leave out the time to ask about now")
    if at < (since := kept_since(assignment, now)):
        kept = f"history of {assignment} is kept from {moment(since)} UTC on"
        raise NotKept(f"{kept}; {moment(at)} UTC is before that")
    around = history_of(assignment, max(since, at - timedelta(days=40)), now)
    found = next((each for each in reversed(around) if each.begins <= at), None)
    if found is None:
        return Explanation(at, False, ())
    until = "until now" if found.ends >= now else f"until {moment(found.ends)} UTC"
    text = f"{found.text}, from {moment(found.begins)} UTC {until}, for {span(found.seconds)}"
    facts = {"since": found.begins, "why": found.why}
    following = next((each for each in around if each.begins >= found.ends), None)
    then = [Reason(following.code, f"then: {following.text}", following.ends)] if following else []
    return Explanation(at, False, (Reason(found.code, text, found.ends, facts), *_lines(assignment, at), *then))


def _lines(assignment: Assignment, at: datetime) -> list[Reason]:
    """The last lines of the log before that instant."""
    lines = Decision.objects.filter(kind=KIND, subject=subject_of(assignment.pk), at__lte=at).order_by("-at", "-pk")
    return [
        Reason(Code.LOG, f"{moment(line.at)} UTC {line.what}: {line.text}", facts={"at": line.at, "what": line.what})
        for line in reversed(lines[:SHOWN_LINES])
    ]


def totals(found: Iterable[Stretch]) -> dict[Code, float]:
    """Reason → the seconds for which it held, the longest first."""
    seconds = defaultdict[Code, float](float)
    for each in found:
        seconds[each.code] += each.seconds
    return dict(sorted(seconds.items(), key=lambda each: -each[1]))


def history_of(
    assignment: Assignment, since: datetime, now: datetime, known: Mapping[int, Sequence[ledger.Idle]] | None = None
) -> list[Stretch]:
    """Its stretches from `since` (not before the history is kept) to `now`. Needs its source and its
    policy's schedule. `known`: the idle times of assignments, if they were looked up already.
    """
    since = max(since, kept_since(assignment, now))
    times = (ledger.idle_of([assignment]) if known is None else known)[assignment.pk]
    idle = [(IDLE[each.why], Span(each.since, each.until)) for each in times]
    if assignment.source.retired_at:
        idle.append((Code.RETIRED, Span(assignment.source.retired_at, None)))
    return stretches(_lives(assignment, since, now), _closed(assignment, since, now), idle, since, now)


def _closed(assignment: Assignment, since: datetime, now: datetime) -> list[Span]:
    try:
        openings = list(assignment.policy.weekly_window.openings(since, now))
    except ValueError:
        return []
    bounds = [since, *(instant for each in openings for instant in (each.opens_at, each.closes_at)), now]
    pairs = zip(bounds[::2], bounds[1::2], strict=True)
    return [Span(begins, ends) for begins, ends in pairs if begins < ends]


def _lives(assignment: Assignment, since: datetime, now: datetime) -> list[Life]:
    records = BacklogRecord.objects.filter(kind=KIND, subject=subject_of(assignment.pk))
    names = (
        "pk",
        "inserted_at",
        "finished_at",
        "status",
        "trigger_at",
        "started_at",
        "queue",
        "waiting_for",
        "run_after",
    )
    rows = list(records.filter(Q(finished_at__gte=since) | Q(status__in=UNFINISHED)).values_list(*names))
    attempts = _attempts(assignment, [row[0] for row in rows], since)
    lives = []
    for pk, begins, ends, status, trigger_at, started_at, queue, waiting_for, run_after in rows:
        tried = attempts[pk]
        if status == Status.RUNNING and started_at:
            tried = [*tried, PastAttempt(started_at, max(started_at, now), AttemptOutcome.RELEASED, queue == BACKUPS)]
        waits = None if waiting_for is None else WAITS[WaitingFor(waiting_for)]
        if waits == Code.ABSENT and tried:
            waits = None  # or put off, which its last attempt says
        ready_since = run_after if status == Status.READY else None
        lives.append(Life(begins, ends, status, tried, trigger_at is not None, waits, ready_since))
    return lives


def _attempts(assignment: Assignment, records: Sequence[int], since: datetime) -> dict[int, list[PastAttempt]]:
    kept = Attempt.objects.filter(Q(record__in=records), ended_at__gte=since).order_by("-ended_at")
    lines = Decision.objects.filter(kind=KIND, subject=subject_of(assignment.pk), at__gte=since)
    decided: dict[tuple[int | None, Any], tuple[str, str]] = {
        (line.record_id, line.facts.get("attempt")): (line.what, line.text)
        for line in lines.order_by("at")
        if line.what not in ("woken", "began", "moved")
    }
    found = defaultdict[int, list[PastAttempt]](list)
    names = ("record_id", "number", "started_at", "ended_at", "outcome", "queue", "error")
    for record, number, begins, ends, outcome, queue, error in reversed(kept.values_list(*names)[:MOST_ATTEMPTS]):
        word, text = decided.get((record, number), ("", ""))
        why = first_line(error) if error else text.partition(": ")[2]
        why = "" if outcome in (AttemptOutcome.SUCCEEDED, AttemptOutcome.HANDOFF) else why
        found[record].append(PastAttempt(begins, ends, outcome, queue == BACKUPS, why, word))
    return found
