"""The comparison of the tables with each other and with the enqueued records. Pure."""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from jobs.states import FINISHED, AttemptOutcome, Status
from proving.chaos.facts import AttemptFact, RecordFact, StormFacts

FAILURES = (AttemptOutcome.FAILED, AttemptOutcome.RESCUED)
STALLED_SECONDS = 30.0
CLOCK_SECONDS = 0.1
"""Tolerance: two clocks are compared."""
CLAIM_SECONDS = 5.0
"""An attempt is dated by the arrival of its claim. Until that finds the record, another attempt may claim and end it:
the statement then takes the newer version of the row. On a busy machine it has taken half a second. What really ran at
once is found by the journals."""


def audit(facts: StormFacts) -> Iterator[str]:
    """Yields each discrepancy as a sentence."""
    yield from _every_record_is_there(facts)
    yield from _stalled(facts)
    for record in facts.records.values():
        history = facts.attempts.get(record.id, [])
        yield from _ended(record, facts)
        yield from _history(record, history)
        yield from _successes(record, history)
        yield from _failures(record, history)
        yield from _cancels(record, history, facts)
    for record_id in facts.attempts.keys() - facts.records.keys():
        yield f"record {record_id} has attempts, but is not there"
    yield from _bookings(facts)
    yield from _pauses(facts)


def name(record: RecordFact) -> str:
    return f"record {record.id} ({record.subject}, {record.status.label})"


def _every_record_is_there(facts: StormFacts) -> Iterator[str]:
    there = Counter((record.kind, record.subject) for record in facts.records.values())
    put = {(kind, subject) for subject, kind in facts.deeds.subjects.items()}
    for kind, subject in put - there.keys():
        yield f"{kind} {subject!r} was put on the backlog and is lost"
    for kind, subject in there.keys() - put:
        yield f"{kind} {subject!r} is on the backlog, but no enqueue put it there"
    for (kind, subject), count in there.items():
        if count > 1:
            yield f"{kind} {subject!r} was put on the backlog once and is there {count} times"


def _stalled(facts: StormFacts) -> Iterator[str]:
    """Yields a sentence if no attempt ends any more: a backlog that is only slow to drain still moves."""
    unfinished = [record for record in facts.records.values() if record.status not in FINISHED]
    last = max((attempt.ended for history in facts.attempts.values() for attempt in history), default=0.0)
    end = max((process.ended for process in facts.processes.values()), default=0.0)
    if unfinished and end - last > STALLED_SECONDS:
        yield f"{len(unfinished)} records are unfinished, and no attempt ended in the last {end - last:.0f} s"


def _ended(record: RecordFact, facts: StormFacts) -> Iterator[str]:
    if (record.status == Status.RUNNING) != record.leased:
        yield f"{name(record)} is running if and only if it is not leased"
    if record.status == Status.RUNNING:
        yield f"{name(record)} still runs, though all workers have ended"
    elif record.status not in FINISHED and facts.drained:
        yield f"{name(record)} is unfinished, though the backlog had drained"


def _history(record: RecordFact, history: list[AttemptFact]) -> Iterator[str]:
    numbers = [attempt.number for attempt in history]
    claimed = record.attempt - 1 if record.leased else record.attempt
    if numbers != list(range(1, claimed + 1)):
        yield f"{name(record)} was claimed {claimed} times, its history has the attempts {numbers}"
    for one, next_ in pairwise(history):
        if next_.started < one.ended - CLAIM_SECONDS:
            early = one.ended - next_.started
            yield f"attempt {next_.number} of {name(record)} began {early:.2f} s before attempt {one.number} ended"


def _successes(record: RecordFact, history: list[AttemptFact]) -> Iterator[str]:
    succeeded = [attempt.number for attempt in history if attempt.outcome == AttemptOutcome.SUCCEEDED]
    if len(succeeded) > 1:
        yield f"{name(record)} succeeded {len(succeeded)} times, in the attempts {succeeded}"
    if (record.status == Status.SUCCEEDED) != bool(succeeded):
        yield f"{name(record)} has the succeeded attempts {succeeded}"
    if succeeded and history[-1].number != succeeded[-1]:
        yield f"{name(record)} succeeded in attempt {succeeded[-1]} and was tried again"


def _failures(record: RecordFact, history: list[AttemptFact]) -> Iterator[str]:
    failed = sum(attempt.outcome in FAILURES for attempt in history)
    if record.failures != failed:
        yield f"{name(record)} counts {record.failures} failures, its history has {failed}"
    gave_up = record.max_failures is not None and record.failures >= record.max_failures
    if gave_up != (record.status == Status.FAILED):
        yield f"{name(record)} has {record.failures} failures and gives up at {record.max_failures}"


def _cancels(record: RecordFact, history: list[AttemptFact], facts: StormFacts) -> Iterator[str]:
    deeds = facts.deeds
    if record.cancelled_at is not None and record.status not in (Status.CANCELLED, Status.SUCCEEDED):
        yield f"{name(record)} was cancelled while it ran"
    for attempt in history:
        if record.cancelled_at is not None and attempt.started > record.cancelled_at + CLOCK_SECONDS:
            yield f"{name(record)} was claimed again, as attempt {attempt.number}, after it had been cancelled"
    if record.id in deeds.asked_to_stop and record.cancelled_at is None:
        yield f"{name(record)} was asked to stop, but does not know of it"
    if record.id in deeds.cancelled_idle and (record.status != Status.CANCELLED):
        yield f"{name(record)} was cancelled while it did not run"
    ended_so = bool(history) and history[-1].outcome == AttemptOutcome.CANCELLED
    by_whom = ended_so or record.id in deeds.cancelled_idle | deeds.cancels_in_doubt
    if record.status == Status.CANCELLED and not by_whom:
        yield f"{name(record)} was cancelled without a request"


def _bookings(facts: StormFacts) -> Iterator[str]:
    """Yields bookings without a success, and successes without a booking: a settle hook's row must be there if and only
    if the settle is."""
    booked = Counter(facts.bookings)
    owed = {
        (record.id, facts.attempts[record.id][-1].number)
        for record in facts.records.values()
        if record.kind == "booked" and record.status == Status.SUCCEEDED and record.id in facts.attempts
    }
    for record_id, attempt in owed ^ booked.keys():
        what = "has no booking" if (record_id, attempt) in owed else "is booked and did not succeed"
        yield f"attempt {attempt} of record {record_id} {what}"
    for (record_id, attempt), count in booked.items():
        if count > 1:
            yield f"attempt {attempt} of record {record_id} is booked {count} times"


def _pauses(facts: StormFacts) -> Iterator[str]:
    for history in facts.attempts.values():
        for attempt in history:
            for pause in facts.deeds.pauses:
                inside = pause.since + CLOCK_SECONDS < attempt.started < pause.until - CLOCK_SECONDS
                if attempt.queue == pause.queue and inside:
                    late = attempt.started - pause.since
                    yield f"record {attempt.record_id} was claimed from {pause.queue} {late:.2f} s after its pause"
