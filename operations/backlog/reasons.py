"""Why a record does not run now: every reason with its numbers, in the order in which they would have to end.

    waiting   everything is on hold, or its queue paused · what it waits for, and until when · its window · no worker
              serves its queue
    ready     likewise · its window has closed · no worker serves its queue · a throttle is paused, full or
              without a token · the units have enough · its position
    failed    how often, which rule gave it up, what to do

A bounded number of rows is read, by indexes, however long the backlog is. `operations/backlog/obstacles.py` has what a
record meets in its queue.
"""

from datetime import UTC, datetime, timedelta

from external.durations import span
from external.formatting import first_line, moment, several
from jobs import breakers
from jobs.conf import PROGRAM
from jobs.models import BacklogRecord, Breaker, RetryPolicy
from jobs.rescheduling import last_failure_of
from jobs.retries import tiers
from jobs.states import Status, WaitingFor
from operations.backlog import obstacles
from operations.backlog.obstacles import Surroundings


def reasons(record: BacklogRecord, now: datetime) -> list[str]:
    """Sentences for people, at `now` (aware); none for a record that runs, succeeded or was cancelled."""
    around = Surroundings([record], now)
    match record.status:
        case Status.WAITING | Status.READY:
            found = hindrances(record, around)
            return [*found, obstacles.position(record, now)] if record.status == Status.READY else found
        case Status.FAILED:
            return [_gave_up(record), _what_to_do(record)]
    return []


def hindrances(record: BacklogRecord, around: Surroundings) -> list[str]:
    """Why an unfinished record does not run, but for those before it; nothing is looked up for each record."""
    if record.status != Status.WAITING:
        return obstacles.of_ready(record, around) if record.status == Status.READY else []
    found = [obstacles.paused(record, around), *_waits(record, around), obstacles.closed(record, around.now)]
    return list(filter(None, [*found, obstacles.unserved(record, around)]))


def _waits(record: BacklogRecord, around: Surroundings) -> list[str]:
    """What it waits for, and until when."""
    now = around.now
    match record.waiting_for:
        case WaitingFor.BREAKER:
            return _for_breaker(record, around)
        case WaitingFor.SWEEP:
            return [_after_failure(record), _for_sweep(record, now), *_left_behind(record, around)]
        case WaitingFor.BACKOFF:
            return [_after_failure(record), _until("its retry policy lets it wait", record, now)]
        case WaitingFor.RECHECK:
            when = f" at {moment(record.tried_at)} UTC" if record.tried_at else ""
            error = f": {first_line(record.last_error)}" if record.last_error else ""
            return [
                f"its source did not answer{when}{error}",
                f"{_until('it is asked again', record, now)}, or at once when its source checks in",
            ]
        case WaitingFor.WINDOW:
            return [_until("its window is closed", record, now)]
        case WaitingFor.SNOOZE:
            return [_until("its user wants no backup", record, now)]
        case WaitingFor.THROTTLE:
            return [_until("another record under its exclusive key is ready or runs; it looks again", record, now)]
        case WaitingFor.START:
            return [_until("its start was put off", record, now)]
    return []


def _until(what: str, record: BacklogRecord, now: datetime) -> str:
    """`what` with the instant at which a tick makes the record ready."""
    ahead = (record.run_after - now).total_seconds()
    if ahead > 0:
        word = "at" if what.endswith("again") else "until"
        return f"{what} {word} {moment(record.run_after)} UTC, in {span(ahead)}"
    return f"{what}, which was over at {moment(record.run_after)} UTC: the next tick makes it ready"


def _after_failure(record: BacklogRecord) -> str:
    policy = record.retry_policy
    most = f" of {policy.max_failures}" if policy and policy.max_failures else ""
    by = f"retry policy {policy} ({policy.algorithm})" if policy else "the retry policy of records that name none"
    when = f" at {moment(record.last_failure_at)} UTC" if record.last_failure_at else ""
    return f"failure {record.failures}{most}{when}, by {by}: {first_line(record.last_error)}"


def _for_sweep(record: BacklogRecord, now: datetime) -> str:
    age = span((now - record.inserted_at).total_seconds())
    instant = tiers.next_sweep(now.timestamp(), record.inserted_at.timestamp())
    if instant is None:
        return (
            f"it is {age} old and no sweep takes it any more; it is tried once again at {moment(record.run_after)} UTC"
        )
    coming = datetime.fromtimestamp(instant, UTC)
    return f"it is {age} old: the next sweep of its age comes at {moment(coming)} UTC, in {_ahead(coming, now)}"


def _left_behind(record: BacklogRecord, around: Surroundings) -> list[str]:
    """Sweeps that would have taken it, had they not reached their greatest number."""
    days, since = (around.now - record.inserted_at) / timedelta(days=1), record.last_failure_at or around.now
    return [
        f"the {sweep} at {moment(sweep.swept_at)} UTC took its greatest number, {sweep.swept:,}, and left older records"
        for sweep in around.full_sweeps
        if sweep.max_age_days >= days and sweep.swept_at > since
    ]


def _for_breaker(record: BacklogRecord, around: Surroundings) -> list[str]:
    breaker, now = around.breakers.get(record.breaker_id or 0), around.now
    if breaker is None:
        return [_until("what its breaker guarded is there no more; it is looked at again", record, now)]
    if not breaker.is_open:
        return ["the breaker that it waited for is closed: the next tick makes it ready"]
    return [breakers.describe(breaker), next_trial(breaker, around)]


def next_trial(breaker: Breaker, around: Surroundings) -> str:
    """When an open breaker lets a record through, and how many wait for that."""
    count, now = around.held[breaker.pk], around.now
    waiting = f"{count:,} {'record waits' if count == 1 else 'records wait'} for it"
    if breaker.trial_id:
        return f"record {breaker.trial_id} is on trial for it; {waiting}, all go on when that succeeds"
    coming = breaker.probe_at or now
    when = f"at {moment(coming)} UTC, in {_ahead(coming, now)}" if coming > now else "at the next tick"
    failed = f" after {breaker.trials} that failed" if breaker.trials else ""
    return f"{waiting}; the next one is let through as a trial{failed} {when}"


def _gave_up(record: BacklogRecord) -> str:
    times = f"it gave up after {several(record.failures, 'failure')} in a row"
    return f"{times}, {_rule_that_ended(record)}; the last one: {first_line(record.last_error)}"


def _what_to_do(record: BacklogRecord) -> str:
    other = BacklogRecord.objects.filter(kind=record.kind, subject=record.subject).unfinished().first()
    if other is not None:
        return f"record {other.pk} of the same subject goes on in its place"
    return f"correct what is wrong, then retry it: `{PROGRAM} backlog retry {record.pk}`"


def _rule_that_ended(record: BacklogRecord) -> str:
    policy: RetryPolicy | None = record.retry_policy
    failure = last_failure_of(record)
    if policy is None or failure is None:
        return "by the retry policy that it had then"
    if policy.max_failures is not None and failure.number >= policy.max_failures:
        return f"as many as its retry policy {policy} allows"
    if policy.give_up_after is not None and failure.failing_for >= policy.give_up_after:
        return f"since its retry policy {policy} ends a series that lasts {span(policy.give_up_after)}"
    if policy.as_rule().gives_up(failure):
        return f"since no sweep of its retry policy {policy} takes a record of its age any more"
    return f"by its retry policy {policy} as it was then"


def _ahead(instant: datetime, now: datetime) -> str:
    return span(max(0.0, (instant - now).total_seconds()))
