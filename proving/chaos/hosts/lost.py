"""The verdict on a failover to a replica that lacked the last commits. Pure.

Records that were enqueued since the replica lagged may be lost, and so may all that workers did since. Everything older
must be there and consistent: this module takes the lost part out of the facts, and the audits of the storm judge the
rest.
"""

from dataclasses import dataclass, replace

from proving.chaos.audit_tables import CLOCK_SECONDS
from proving.chaos.facts import AttemptFact, Execution, StormFacts

UNDER_WAY_SECONDS = 1.0
"""Commits less than this before may not have been sent yet."""


@dataclass(frozen=True)
class Lost:
    """The losses of a failover, and the facts without them. `discrepancies`: losses that must not happen."""

    facts: StormFacts
    subjects: frozenset[str]
    executions: list[Execution]
    discrepancies: list[str]


def without_the_lost(facts: StormFacts, lags_from: float, put_before: frozenset[str]) -> Lost:
    """Separate the losses from the facts. `lags_from`: the beginning of the lag, in boot seconds; `put_before`: the
    subjects enqueued until then."""
    there = {record.subject for record in facts.records.values()}
    subjects = frozenset(facts.deeds.subjects.keys() - there)
    kept, executions = _divided(facts)
    too_old = [each for each in executions if each.began < lags_from - UNDER_WAY_SECONDS]
    found = [f"{subject!r}, which was there before the replica lagged, is lost" for subject in subjects & put_before]
    found += [
        f"attempt {each.attempt} of record {each.record_id}, which began before the replica lagged, is lost"
        for each in too_old
    ]
    deeds = replace(
        facts.deeds, subjects={name: kind for name, kind in facts.deeds.subjects.items() if name not in subjects}
    )
    return Lost(replace(facts, executions=kept, deeds=deeds), subjects, executions, found)


def _divided(facts: StormFacts) -> tuple[list[Execution], list[Execution]]:
    """The executions in the history, and those that were lost with their claims: their numbers are given again, to
    other attempts and even to other records."""
    by_number = {(a.record_id, a.number): a for history in facts.attempts.values() for a in history}
    latest: dict[tuple[int, int], Execution] = {}
    lost = []
    for execution in sorted(facts.executions, key=lambda each: each.began):
        key = (execution.record_id, execution.attempt)
        if not _is_of(execution, by_number.get(key), facts):
            lost.append(execution)
            continue
        if key in latest:
            lost.append(latest[key])
        latest[key] = execution
    return list(latest.values()), lost


def _is_of(execution: Execution, attempt: AttemptFact | None, facts: StormFacts) -> bool:
    if attempt is None or attempt.worker_id != execution.worker_id or attempt.queue != execution.queue:
        return False
    record = facts.records.get(execution.record_id)
    return record is not None and record.kind == execution.kind and execution.began > attempt.started - CLOCK_SECONDS
