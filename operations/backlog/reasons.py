"""Reasons why a record does not run now: every reason with its numbers, in the order in which they have to end.

    waiting   everything is on hold, or its queue paused · what it waits for, and until when · its window · no worker
              serves its queue
    ready     likewise · its window has closed · no worker serves its queue · a throttle is paused, full or
              without a token · the units have enough, or none is free · its position, and the records before it
    running   where, since when, how far, and when it should end
    failed    how often, which rule gave it up, what to do

A bounded number of rows is read, by indexes, however long the backlog is. `operations/backlog/obstacles.py` has the
obstacles of a record in its queue, `operations/backlog/line.py` the records before it.
"""

from datetime import UTC, datetime, timedelta

from external.durations import span
from external.formatting import first_line, moment, several
from jobs import breakers, priorities
from jobs.conf import PROGRAM
from jobs.models import BacklogRecord, Breaker, RetryPolicy
from jobs.rescheduling import last_failure_of
from jobs.retries import tiers
from jobs.states import Status, WaitingFor
from operations.backlog import at_work, obstacles
from operations.backlog.line import LineAhead, line_of
from operations.backlog.reason import REFUSED_BY_CLAIM, Code, Explanation, Reason
from operations.backlog.surroundings import Surroundings, expected_end, title_of


def explain(record: BacklogRecord, now: datetime, around: Surroundings | None = None) -> Explanation:
    """Every reason why it does not run at `now` (aware), the present. `around`: its surroundings then, if others
    are asked about with it.
    """
    around = around or Surroundings([record], now)
    found = hindrances(record, around)
    match record.status:
        case Status.READY:
            line = line_of(record, now)
            found += [*obstacles.behind(line, around), obstacles.position(line)]
            return Explanation(now, is_runnable(record, around, line), tuple(found))
        case Status.RUNNING:
            found = [_runs(record, now)]
        case Status.FAILED:
            found = _gave_up(record)
        case Status.SUCCEEDED:
            found = [Reason(Code.SUCCEEDED, f"it succeeded at {moment(record.finished_at)} UTC")]
        case Status.CANCELLED:
            found = [Reason(Code.CANCELLED, f"it was cancelled at {moment(record.finished_at)} UTC")]
    return Explanation(now, runnable=False, reasons=tuple(found))


def is_runnable(record: BacklogRecord, around: Surroundings, line: LineAhead) -> bool:
    """True if a claim of its queue at this instant could take a ready record: a property test compares it with the
    claim.
    """
    refused = {each.code for each in obstacles.of_ready(record, around)} & REFUSED_BY_CLAIM
    return not refused and line.let_through()


def hindrances(record: BacklogRecord, around: Surroundings) -> list[Reason]:
    """The reasons why an unfinished record does not run, except those before it; nothing is looked up
    for each record.
    """
    if record.status != Status.WAITING:
        return obstacles.of_ready(record, around) if record.status == Status.READY else []
    found = [obstacles.paused(record, around), *_waits(record, around), obstacles.closed(record, around.now)]
    return list(filter(None, [*found, obstacles.unserved(record, around)]))


def in_its_turn(record: BacklogRecord) -> Reason:
    """The reason of a ready record that nothing hinders, without the records before it."""
    return Reason(Code.READY, f"it is ready in queue {record.queue} and comes in its turn")


def _waits(record: BacklogRecord, around: Surroundings) -> list[Reason]:
    """The reasons why it waits, each with its end."""
    match record.waiting_for:
        case WaitingFor.BREAKER:
            return _for_breaker(record, around)
        case WaitingFor.SWEEP:
            return [_after_failure(record, Code.SWEEP), _for_sweep(record, around.now), *_left_behind(record, around)]
        case WaitingFor.BACKOFF:
            end = _until(Code.BACKOFF, "its retry policy makes it wait", record, around.now)
            return [_after_failure(record, Code.BACKOFF), end]
        case WaitingFor.RECHECK:
            return _put_off(record, around.now) if record.pk in around.put_off else _for_answer(record, around.now)
        case WaitingFor.WINDOW:
            return [_until(Code.WINDOW, "its window is closed", record, around.now)]
        case WaitingFor.SNOOZE:
            return [_until(Code.SNOOZED, "its user wants no backup", record, around.now)]
        case WaitingFor.THROTTLE:
            return [_behind_gate(record, around)]
        case WaitingFor.START:
            return [_until(Code.START, "its start was put off", record, around.now)]
    return []


def _until(code: Code, what: str, record: BacklogRecord, now: datetime, **facts: object) -> Reason:
    """`what` with the instant at which a tick makes the record ready."""
    ahead = (record.run_after - now).total_seconds()
    if ahead > 0:
        word = "at" if what.endswith("again") else "until"
        text = f"{what} {word} {moment(record.run_after)} UTC, in {span(ahead)}"
    else:
        text = f"{what}, which was over at {moment(record.run_after)} UTC: the next tick makes it ready"
    return Reason(code, text, record.run_after, facts)


def _after_failure(record: BacklogRecord, code: Code) -> Reason:
    policy = record.retry_policy
    most = policy.max_failures if policy else None
    by = f"retry policy {policy} ({policy.algorithm})" if policy else "the retry policy of records that name none"
    when = f" at {moment(record.last_failure_at)} UTC" if record.last_failure_at else ""
    error = first_line(record.last_error)
    text = f"failure {record.failures}{f' of {most}' if most else ''}{when}, by {by}: {error}"
    facts = {
        "failures": record.failures, "most": most, "retry_policy": str(policy) if policy else None,
        "last_failure_at": record.last_failure_at, "error": error,
    }  # fmt: skip
    return Reason(code, text, record.run_after, facts)


def _for_answer(record: BacklogRecord, now: datetime) -> list[Reason]:
    """The reasons of a source that is silent, perhaps woken; or that is not to be asked for now."""
    when = f" at {moment(record.tried_at)} UTC" if record.tried_at else ""
    error = f": {first_line(record.last_error)}" if record.last_error else ""
    facts = {"last_tried_at": record.tried_at, "error": record.last_error}
    if (ahead := (record.run_after - now).total_seconds()) > 0:
        text = f"it is not asked again before {moment(record.run_after)} UTC, in {span(ahead)}"
        text = f"{text}, unless its source checks in"
    else:
        text = "it is asked again in its turn, once the next tick has made it ready"
    again = Reason(Code.ABSENT, text, record.run_after, facts)
    found = [Reason(Code.ABSENT, f"its source did not answer{when}{error}", record.run_after, facts), again]
    if priorities.is_woken(record.priority):
        text = "it was woken, and is asked again before all others, whether a unit is short of work or not"
        found.append(Reason(Code.WOKEN, text, record.run_after))
    return found


def _put_off(record: BacklogRecord, now: datetime) -> list[Reason]:
    """The reason that its handler put it off, a text that ends with `looked at again at`."""
    ahead = span(max(0.0, (record.run_after - now).total_seconds()))
    text = f"it was put off: {first_line(record.last_error)} {moment(record.run_after)} UTC, in {ahead}"
    return [Reason(Code.PUT_OFF, text, record.run_after, {"error": record.last_error})]


def _behind_gate(record: BacklogRecord, around: Surroundings) -> Reason:
    """The reason that another record has its exclusive key, and which one."""
    what, facts = "another record with its exclusive key is ready or running", dict[str, object]()
    if other := around.before_gate.get(record.exclusive_key or ""):
        where = _worker(other) if other.status == Status.RUNNING else f", in queue {other.queue}"
        of = f" of {other.origin}" if other.origin else ""
        what = f"{what}, {other.kind} {title_of(other)}{of} (#{other.pk}){where}"
        facts = {"id": other.pk, "kind": other.kind, "title": title_of(other)}
    return _until(Code.EXCLUSIVE, f"{what}; it looks again", record, around.now, **facts)


def _worker(record: BacklogRecord) -> str:
    return f" on worker {record.leased_by}" if record.leased_by else ""


def _runs(record: BacklogRecord, now: datetime) -> Reason:
    """The reason that it runs: where, since when, its progress, and when it should end."""
    known = at_work.progress_known([record]).get(record.pk, {})
    facts = at_work.facts_of(record, known, now)
    end, by = expected_end(record, now, known) or (None, "")
    text = f"it has been running in queue {record.queue}{_worker(record)} since {moment(record.started_at)} UTC"
    text = f"{text}, for {span(facts['running_for'])}"
    if so_far := at_work.as_text(facts):
        text = f"{text}: {so_far}"
    if end and end > now:
        text = f"{text}; by its {by} it ends at {moment(end)} UTC"
    elif end:
        text = f"{text}; its last one took {span(record.expected_seconds)}"
    if record.cancel_requested_at:
        text = f"{text}; it was asked to stop at {moment(record.cancel_requested_at)} UTC"
    worker = str(record.leased_by) if record.leased_by else None
    facts |= {"worker": worker, "since": record.started_at, "expected_end": end}
    return Reason(Code.RUNNING, text, end, facts)


def _for_sweep(record: BacklogRecord, now: datetime) -> Reason:
    age = span((now - record.inserted_at).total_seconds())
    instant = tiers.next_sweep(now.timestamp(), record.inserted_at.timestamp())
    if instant is None:
        once = f"it is tried once again at {moment(record.run_after)} UTC"
        return Reason(Code.SWEEP, f"it is {age} old and no sweep takes it any more; {once}", record.run_after)
    coming = datetime.fromtimestamp(instant, UTC)
    text = f"it is {age} old: the next sweep of its age comes at {moment(coming)} UTC, in {_ahead(coming, now)}"
    return Reason(Code.SWEEP, text, coming)


def _left_behind(record: BacklogRecord, around: Surroundings) -> list[Reason]:
    """Sweeps that would have taken it if they had not reached their maximum."""
    days, since = (around.now - record.inserted_at) / timedelta(days=1), record.last_failure_at or around.now
    left = "took its maximum, {:,}, and left older records"
    return [
        Reason(Code.SWEEP, f"the {sweep} at {moment(sweep.swept_at)} UTC {left.format(sweep.swept)}")
        for sweep in around.full_sweeps
        if sweep.max_age_days >= days and sweep.swept_at > since
    ]


def _for_breaker(record: BacklogRecord, around: Surroundings) -> list[Reason]:
    breaker, now = around.breakers.get(record.breaker_id or 0), around.now
    if breaker is None:
        what = "the target of its breaker no longer exists; it is checked again"
        return [_until(Code.BREAKER, what, record, now)]
    facts = {"breaker": breaker.key, "since": breaker.opened_at, "error": first_line(breaker.last_error)}
    if not breaker.is_open:
        text = "the breaker that it waited for is closed: the next tick makes it ready"
        return [Reason(Code.BREAKER, text, now, facts)]
    return [
        Reason(Code.BREAKER, breakers.describe(breaker), breaker.probe_at, facts),
        Reason(Code.BREAKER, next_trial(breaker, around), breaker.probe_at, facts),
    ]


def next_trial(breaker: Breaker, around: Surroundings) -> str:
    """The instant at which an open breaker lets a record through, and the number of records that wait for that."""
    count, now = around.held[breaker.pk], around.now
    waiting = f"{count:,} {'record waits' if count == 1 else 'records wait'} for it"
    if breaker.trial_id:
        return f"record {breaker.trial_id} is on trial for it; {waiting}, all continue when that succeeds"
    coming = breaker.probe_at or now
    when = f"at {moment(coming)} UTC, in {_ahead(coming, now)}" if coming > now else "at the next tick"
    after = f"after {several(breaker.trials, 'failed trial')}, " if breaker.trials else ""
    return f"{waiting}; {after}the next one is let through as a trial {when}"


def _gave_up(record: BacklogRecord) -> list[Reason]:
    times = f"it gave up after {several(record.failures, 'failure')} in a row"
    error = first_line(record.last_error)
    text = f"{times}, {_rule_that_ended(record)}; the last one: {error}"
    facts = {"failures": record.failures, "finished_at": record.finished_at, "error": error}
    return [Reason(Code.FAILED, text, facts=facts), Reason(Code.FAILED, _what_to_do(record))]


def _what_to_do(record: BacklogRecord) -> str:
    other = BacklogRecord.objects.filter(kind=record.kind, subject=record.subject).unfinished().first()
    if other is not None:
        return f"record {other.pk} of the same subject continues in its place"
    return f"correct the cause, then retry it: `{PROGRAM} backlog retry {record.pk}`"


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
