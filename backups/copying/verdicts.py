"""The outcome of a record whose copy has ended, by the verdict of its engine, and the new facts about
the repository.
"""

import dataclasses

import engines
from backups.copying import losses, not_for_now
from backups.repository_state import busy, not_writable, note_made, note_room
from engines.base import EngineResult, Verdict
from jobs.outcomes import ClaimedRecord, Failed, Outcome, Released, Succeeded
from sources.availability import probes, repository_breaker
from sources.availability.liveness import LivenessMonitor
from sources.models import Assignment


def outcome_of(
    result: EngineResult, assignment: Assignment, monitor: LivenessMonitor, record: ClaimedRecord
) -> Outcome:
    """Judge a copy. `monitor`: the one that watched it, which knows why it was stopped. Stores the repository's room
    and its first backup."""
    policy = assignment.policy
    _note_room(assignment, result)
    match result.verdict:
        case Verdict.SUCCEEDED | Verdict.WARNINGS:
            note_made(policy.repository)
            engine = engines.engine_for(assignment.source.kind, policy.repository.format).name
            result = dataclasses.replace(result, repository=policy.repository_id, engine=engine)
            return Succeeded(result, proves=repository_breaker.guarded_by(policy.repository))
        case Verdict.STOPPED if monitor.vanished:
            return losses.vanished(policy, monitor.silence)
        case Verdict.STOPPED if monitor.closed:
            return Released("its window closed; it continues in the next opening")
        case Verdict.STOPPED:
            return Released()
        case Verdict.UNAVAILABLE:
            return losses.lost(policy, result.error)
        case Verdict.NOT_FOR_NOW:
            return not_for_now.put_off(record, result.error, policy.recheck_after)
        case Verdict.BUSY:
            return busy(result.error)
        case Verdict.REPOSITORY_FAILED:
            # its message may repeat the source's; whether a file can be written there at all decides
            is_its_fault = not_writable(policy.repository, monitor)
            fault_of = repository_breaker.guarded_by(policy.repository) if is_its_fault else None
            return Failed(f"repository {policy.repository}: {result.error}", fault_of=fault_of)
        case Verdict.FILLED:
            return Failed(result.error)
        case Verdict.SOURCE_FAILED:
            answer = probes.ask_now(assignment.source, policy.connect_timeout)
            if not answer.present:
                return losses.lost(policy, answer.text)
            return Failed(result.error)


def _note_room(assignment: Assignment, result: EngineResult) -> None:
    """Store the free space of a repository. If the backup has filled it, store that space as too little for the
    assignment, too: it was measured after the backup had removed its own data again.
    """
    if result.room:
        note_room(assignment.policy.repository, result.room)
        if result.verdict is Verdict.FILLED:
            Assignment.objects.filter(pk=assignment.pk).update(room_lacked=result.room[0])
