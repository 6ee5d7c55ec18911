"""The comparison of the journals' runs with the tables, and of runs at the same time with the caps. Pure.

A lease protects rows. A process that was suspended for longer than its lease runs on for a moment when it resumes, as
does a handler that ignores its stop: until it learns that it has lost its lease, two may run. Therefore only the part
of an execution before its attempt was settled or rescued counts against a cap or a key; the rest is measured, and needs
a reason.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from jobs.states import AttemptOutcome
from proving.chaos.audit_tables import CLOCK_SECONDS
from proving.chaos.facts import BY_ITSELF, DID_NOT_END, AttemptFact, Execution, StormFacts

EXPLAINED = {
    "Succeeded": {AttemptOutcome.SUCCEEDED},
    "Failed": {AttemptOutcome.FAILED, AttemptOutcome.CANCELLED},
    "Unavailable": {AttemptOutcome.UNAVAILABLE, AttemptOutcome.CANCELLED},
    "Handoff": {AttemptOutcome.HANDOFF, AttemptOutcome.CANCELLED},
    "Released": {AttemptOutcome.RELEASED, AttemptOutcome.CANCELLED, AttemptOutcome.FAILED},
    "NoneType": {AttemptOutcome.RELEASED, AttemptOutcome.CANCELLED, AttemptOutcome.FAILED},
}
"""A handler's outcome → the possible ends of its attempt. NoneType: it raised, or its task was cancelled."""

Interval = tuple[float, float]
Group = TypeVar("Group", bound=Hashable)


@dataclass
class RunFindings:
    """`ran_again`: successes whose settle was lost, so that their record ran once more. `ran_on`: executions that
    continued after they had lost their attempt, and for how long at most."""

    discrepancies: list[str] = field(default_factory=list)
    ran_again: int = 0
    ran_on: int = 0
    ran_on_seconds: float = 0.0
    peaks: dict[int, int] = field(default_factory=dict)
    keys: int = 0
    peak_of_a_key: int = 0


def audit(facts: StormFacts) -> RunFindings:
    """Judge every execution, then all of them together."""
    findings = RunFindings()
    by_number = {(a.record_id, a.number): a for history in facts.attempts.values() for a in history}
    findings.discrepancies += _workers_that_failed(facts)
    findings.discrepancies += _handed_out_twice(facts.executions)
    for execution in facts.executions:
        attempt = by_number.get((execution.record_id, execution.attempt))
        if attempt is None:
            findings.discrepancies.append(f"{_name(execution)} ran, but its attempt is not in the history")
        else:
            findings.discrepancies += _judge(execution, attempt, facts, findings)
    findings.discrepancies += _successes_without_a_run(facts, by_number)
    findings.discrepancies += _rescues_without_reason(facts)
    findings.discrepancies += _too_much_at_once(facts, by_number, findings)
    return findings


def _name(execution: Execution) -> str:
    return f"attempt {execution.attempt} of record {execution.record_id} ({execution.kind})"


def _workers_that_failed(facts: StormFacts) -> Iterator[str]:
    for process in facts.processes.values():
        if process.how.startswith((BY_ITSELF, DID_NOT_END)):
            yield f"the worker process {process.pid} {process.how}"


def _handed_out_twice(executions: list[Execution]) -> Iterator[str]:
    for (record_id, attempt), count in Counter((e.record_id, e.attempt) for e in executions).items():
        if count > 1:
            yield f"attempt {attempt} of record {record_id} was handed out {count} times"


def _judge(execution: Execution, attempt: AttemptFact, facts: StormFacts, findings: RunFindings) -> Iterator[str]:
    if attempt.worker_id != execution.worker_id or attempt.queue != execution.queue:
        yield f"{_name(execution)} ran in worker {execution.worker_id}, its history has worker {attempt.worker_id}"
    excused = _is_excused(attempt, execution.kind, facts)
    if execution.ended is None:
        left_behind = attempt.outcome in (AttemptOutcome.RELEASED, AttemptOutcome.CANCELLED)
        if not (facts.processes[execution.pid].died or excused or left_behind):
            yield f"{_name(execution)} never ended, in a worker that did"
        return
    if attempt.outcome not in EXPLAINED[execution.outcome]:
        findings.ran_again += execution.outcome == "Succeeded"
        over_its_head = attempt.outcome == AttemptOutcome.RELEASED and _was_asked_to_end(execution.pid, attempt, facts)
        if not excused and not over_its_head:
            yield f"{_name(execution)} returned {execution.outcome}, its history says {attempt.outcome.label}"
    late = execution.ended - attempt.ended
    if late > CLOCK_SECONDS:
        findings.ran_on += 1
        findings.ran_on_seconds = max(findings.ran_on_seconds, late)
        if not excused:
            yield f"{_name(execution)} ran on for {late:.2f} s after its attempt had ended as {attempt.outcome.label}"


def _is_excused(attempt: AttemptFact, kind: str, facts: StormFacts) -> bool:
    """True if the worker that lost an attempt was gone, had stood still, or could not end it."""
    if kind == "unresponsive":
        return True
    process = facts.processes.get(facts.worker_pids.get(attempt.worker_id, 0))
    if process is None:
        return False
    since = attempt.ended - 2 * facts.lease_seconds
    stood_still = any(one < attempt.ended and next_ > since for one, next_ in process.stood)
    return stood_still or process.ended <= attempt.ended + CLOCK_SECONDS


def _was_asked_to_end(pid: int, attempt: AttemptFact, facts: StormFacts) -> bool:
    return facts.processes[pid].asked_to_end <= attempt.ended + CLOCK_SECONDS


def _successes_without_a_run(facts: StormFacts, by_number: dict[tuple[int, int], AttemptFact]) -> Iterator[str]:
    ran = {(e.record_id, e.attempt) for e in facts.executions if e.outcome == "Succeeded"}
    for (record_id, number), attempt in by_number.items():
        if attempt.outcome == AttemptOutcome.SUCCEEDED and (record_id, number) not in ran:
            yield f"attempt {number} of record {record_id} succeeded in the history, but no handler said so"


def _rescues_without_reason(facts: StormFacts) -> Iterator[str]:
    for record_id, history in facts.attempts.items():
        record = facts.records.get(record_id)
        for attempt in history:
            if attempt.outcome != AttemptOutcome.RESCUED or record is None:
                continue
            if not _is_excused(attempt, record.kind, facts):
                held = attempt.ended - attempt.started
                yield (
                    f"attempt {attempt.number} of record {record_id} ({record.kind}) was rescued after {held:.2f} s "
                    f"from worker {attempt.worker_id} (process {facts.worker_pids.get(attempt.worker_id)}), which lived"
                )
            if attempt.ended - attempt.started < facts.lease_seconds - CLOCK_SECONDS:
                yield f"attempt {attempt.number} of record {record_id} was rescued before its lease was over"


def _too_much_at_once(
    facts: StormFacts, by_number: dict[tuple[int, int], AttemptFact], findings: RunFindings
) -> Iterator[str]:
    counted = [e for e in facts.executions if e.queue not in facts.feeding and (e.record_id, e.attempt) in by_number]

    def held(execution: Execution) -> Interval:
        settled = by_number[execution.record_id, execution.attempt].ended
        ended = facts.processes[execution.pid].ended if execution.ended is None else execution.ended
        return execution.began, min(ended, settled)

    for throttle, intervals in _grouped(counted, lambda e: e.throttles, held).items():
        peak, at = highest(intervals)
        findings.peaks[throttle] = peak
        if peak > facts.caps[throttle]:
            cap = facts.caps[throttle]
            yield f"{peak} records ran at once under throttle {throttle}, which lets {cap} (at {at:.2f})"
    for throttle, peak in facts.samples.peaks.items():
        if peak > facts.caps[throttle]:
            yield f"the database counted {peak} records under throttle {throttle}, which lets {facts.caps[throttle]}"
    by_key = _grouped(counted, lambda e: [e.exclusive_key] if e.exclusive_key else [], held)
    findings.keys = len(by_key)
    for key, intervals in by_key.items():
        peak, at = highest(intervals)
        findings.peak_of_a_key = max(findings.peak_of_a_key, peak)
        if peak > 1:
            yield f"{peak} records ran at once under the exclusive key {key!r} (at {at:.2f})"
    for key in facts.samples.doubled_keys:
        yield f"the database counted two running records under the exclusive key {key!r}"


def _grouped(
    executions: Iterable[Execution],
    groups: Callable[[Execution], Iterable[Group]],
    held: Callable[[Execution], Interval],
) -> dict[Group, list[Interval]]:
    found: dict[Group, list[Interval]] = defaultdict(list)
    for execution in executions:
        began, ended = held(execution)
        for group in groups(execution):
            if began < ended:
                found[group].append((began, ended))
    return found


def highest(intervals: Iterable[Interval]) -> tuple[int, float]:
    """The largest number of half-open intervals that overlap, and the instant from which they do."""
    edges = sorted(edge for began, ended in intervals for edge in ((began, 1), (ended, -1)))
    peak, count, since = 0, 0, 0.0
    for at, change in edges:
        count += change
        if count > peak:
            peak, since = count, at
    return peak, since
