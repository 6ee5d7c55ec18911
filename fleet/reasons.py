"""Reasons why a source is not protected, or does not run now, in one sentence with the instant of its next attempt."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from external.durations import span
from external.formatting import first_line, moment, several, some_of
from fleet.assignment_findings import AssignmentFinding
from jobs.conf import PROGRAM
from jobs.models import BacklogRecord
from jobs.states import Status, WaitingFor
from operations.backlog.reason import texts
from operations.backlog.reasons import hindrances, in_its_turn, next_trial
from operations.backlog.surroundings import Surroundings
from sources.domain.status import PRECEDENCE, ProtectionStatus
from sources.models import Source
from sources.planning.names import BACKUPS, subject_of


def sentence(
    source: Source,
    assignments: Sequence[Any],
    records: Mapping[str, BacklogRecord],
    around: Surroundings,
    wrong: Mapping[int, Sequence[AssignmentFinding]],
) -> str:
    """The sentence about a source. `assignments`: the source's, with their status. `records`: by subject; `wrong`: by
    assignment.
    """
    if removal := records.get(f"source:{source.pk}"):
        waits = "; ".join(texts(hindrances(removal, around)))
        progress = f"it is being deleted: `{PROGRAM} backlog show {removal.pk}` shows the progress"
        return f"{progress}; it waits: {waits}" if waits else progress
    if source.retired_at:
        return f"retired at {moment(source.retired_at)} UTC: its backups stay until their retention ends"
    if source.paused_at:
        why = f" ({source.paused_why})" if source.paused_why else ""
        end = f", until {moment(source.paused_until)} UTC" if source.paused_until else ""
        return (
            f"paused since {moment(source.paused_at)} UTC{end}{why}: `{PROGRAM} sources resume {source.name}` ends it"
        )
    active = [each for each in assignments if each.status != ProtectionStatus.UNPROTECTED]
    if not active:
        names = ", ".join(map(_with_pause, assignments))
        return f"disabled: {names}, and it is in no other policy" if names else "it is in no policy"
    worst = min(active, key=lambda each: PRECEDENCE.index(each.status))
    text = _of_assignment(worst, records.get(subject_of(worst.pk)), around)
    doubts = [_doubt(each, wrong.get(each.pk, ())) for each in active]
    broken_off = [f"its backup {words}" for each in active if (words := each.loss.sentence)]
    text = f"under {worst.policy}: {text}" if text and len(active) > 1 else text
    found = [*doubts, text] if worst.status == ProtectionStatus.DOUBTFUL else [text, *doubts]
    found = [*broken_off, *found]
    return "; ".join(filter(None, found))


def _with_pause(assignment: Any) -> str:
    """The name of its policy, with the end and the reason of its pause, if they were given."""
    policy = assignment.policy
    end = f"until {moment(policy.paused_until)} UTC" if policy.paused_until else ""
    words = ": ".join(filter(None, (end, policy.paused_why)))
    return f"{policy} ({words})" if words else str(policy)


def _of_assignment(assignment: Any, record: BacklogRecord | None, around: Surroundings) -> str:
    then = _next(assignment, record, around)
    match assignment.status:
        case ProtectionStatus.FAILING:
            times = f"{several(assignment.failures, 'failure')} in a row"
            since = f" since {moment(assignment.first_failure_at)} UTC" if assignment.first_failure_at else ""
            error = _error(record, around)
            return f"{times}{since}{f': {error}' if error else ''}; {then}"
        case ProtectionStatus.OVERDUE:
            return f"no backup since {moment(assignment.last_backup_at)} UTC; {then}"
        case ProtectionStatus.NEVER:
            if record and record.status == Status.RUNNING and record.queue == BACKUPS:
                return f"its first backup has been running since {moment(record.started_at)} UTC"
            return f"its first backup is missing; {then}"
    return then


def _error(record: BacklogRecord | None, around: Surroundings) -> str:
    """The error of its last attempt; empty if it is that of the open breaker which kept it from trying: the next step
    names that.
    """
    if record is None:
        return ""
    breaker, error = around.breakers.get(record.breaker_id or 0), first_line(record.last_error)
    its_own = (f"the breaker of {breaker} has been open since", f"the breaker of {breaker} is open since")
    is_said = breaker and breaker.is_open and error.startswith(its_own)
    return "" if is_said and not around.on_hold else error


def _next(assignment: Any, record: BacklogRecord | None, around: Surroundings) -> str:
    """The next step, and its instant."""
    if (record is None or record.status != Status.RUNNING) and (problem := assignment.policy.problem):
        return f"policy {assignment.policy} backs up nothing until it is corrected: {problem}"
    if record is None:
        at = assignment.next_backup_at
        if at is None or at <= around.now:
            return "it is due, and is put on the backlog within a minute"
        return f"its next backup is due {_when(at, around.now)}"
    if around.on_hold and record.status in (Status.WAITING, Status.READY):
        return f"everything is on hold ({around.on_hold.reason}): `{PROGRAM} backlog release` ends it"
    match record.status:
        case Status.FAILED:
            return f"it gave up: correct that, then `{PROGRAM} backlog retry {record.pk}`"
        case Status.RUNNING:
            if record.queue != BACKUPS:
                return f"its source is being asked whether it is there (since {moment(record.started_at)} UTC)"
            return f"its backup has been running since {moment(record.started_at)} UTC"
        case Status.READY:
            return "; ".join(texts(hindrances(record, around) or [in_its_turn(record)]))
    if assignment.failures and record.waiting_for == WaitingFor.BACKOFF:
        if (ahead := (record.run_after - around.now).total_seconds()) <= 0:
            return "it is tried again in its turn"
        return f"it is not tried again before {moment(record.run_after)} UTC, in {span(ahead)}"
    breaker = around.breakers.get(record.breaker_id or 0)
    if breaker and breaker.is_open and assignment.failures and breaker.last_error == record.last_error:
        return f"the breaker of {breaker} is open; {next_trial(breaker, around)}"  # its error was shown
    return "; ".join(texts(hindrances(record, around)))


def _when(instant: datetime, now: datetime) -> str:
    ahead = (instant - now).total_seconds()
    return f"at {moment(instant)} UTC, in {span(ahead)}" if ahead > 0 else "at the next tick"


IN_WORDS = {
    "held_back": "its last backup looked wrong ({}), so nothing old is removed",
    "drills": "its last drill failed: {}",
    "copies": "{}",
}


def _doubt(assignment: Any, wrong: Sequence[AssignmentFinding]) -> str:
    """Findings about the backups that it has."""
    texts = {each.kind: IN_WORDS[each.kind].format(each.text) for each in wrong if each.kind in IN_WORDS}
    found = [texts[kind] for kind in ("held_back", "drills") if kind in texts]
    if why := assignment.policy.repository.away_why:
        away_since = assignment.policy.repository.away_since
        since = f" (since {moment(away_since)} UTC)" if away_since else ""
        found.append(f"repository {assignment.policy.repository} is not where it was{since}: {why}")
    if any(each.kind == "damage" for each in wrong):
        found += _of_damage(assignment, assignment.check_round)
    return "; ".join([*found, *filter(None, [texts.get("copies")])])


def _of_damage(assignment: Any, check: Any) -> Iterator[str]:
    """Sentences about damaged files, and about points that are gone as a whole."""
    from backups.upkeep.damage import as_text  # loads the engines
    from storage.points.checking import GONE, Damage

    all_of = [Damage(**each) for each in check.damage]
    if gone := [each for each in all_of if each.why == GONE]:
        where, points = _places(assignment.policy, gone), list(dict.fromkeys(each.point for each in gone))
        what, them = several(len(points), "point"), "it" if len(points) == 1 else "them"
        yield f"{what} cannot be restored from {where}, though nothing here has removed {them}: {some_of(points, 3)}"
    if damage := [each for each in all_of if each.why != GONE]:
        # of all its data: the damaged repository may have been away then
        last = f"; the last check was at {moment(check.checked_at)} UTC" if check.checked_at else ""
        if assignment.policy.check_within is None:
            clears = f"`{PROGRAM} sources check {assignment.source}` clears it"
            last += f"; no check comes automatically: once that is corrected, {clears}"
        yield f"a check found damage in {_places(assignment.policy, damage)}: {as_text(damage)}{last}"


def _places(policy: Any, damage: Sequence[Any]) -> str:
    """The repositories in which the damage is."""
    known = {each.pk: f"repository {each}" for each in (policy.repository, policy.copy_to) if each}
    return " and ".join(dict.fromkeys(known.get(each.repository, "a former repository") for each in damage))
