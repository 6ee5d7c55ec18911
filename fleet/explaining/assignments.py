"""Every reason why the backup of a source under a policy does not run: those of the source and its policy first, then
those of its record on the backlog (`operations/backlog/reasons.py`), finally those of its repository.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.template.defaultfilters import filesizeformat

from external.durations import span
from external.formatting import first_line, moment, several
from jobs import breakers
from jobs.conf import PROGRAM
from jobs.models import BacklogRecord, Breaker
from jobs.states import FINISHED, UNFINISHED, Status
from operations import hold
from operations.backlog import reasons
from operations.backlog.reason import Code, Explanation, Reason
from operations.backlog.surroundings import Surroundings
from sources.models import Assignment, Policy, Repository, Source
from sources.planning.names import BACKUPS
from sources.planning.openings import STARTS_ALL_THE_SAME_AFTER

ENOUGH_ROOM = 1.1
"""The multiple of the room that a backup lacked with which it is tried without a warning."""


def explain(assignment: Any, record: BacklogRecord | None, around: Surroundings) -> Explanation:
    """`assignment`: with its source, policy, schedule and repository, and its `open_breaker`. `record`: its unfinished
    one, or the dead letter if it fails; one of the records of `around`.
    """
    source, policy, now = assignment.source, assignment.policy, around.now
    found = [*_of_source(source), *_of_policy(policy)]
    runnable = False
    if record is not None and record.status in UNFINISHED:
        of_record = reasons.explain(record, now, around)
        runnable = of_record.runnable
        found += map(_asked(source, record, now), of_record.reasons)
    else:
        found += _of_what_is_not_there(assignment, record, around)
    known = {each.code for each in found}
    found += (each for each in _of_repository(assignment, now) if each.code not in known)
    return Explanation(now, runnable, tuple(found))


def _of_source(source: Source) -> Iterator[Reason]:
    if source.retired_at:
        text = f"it was retired at {moment(source.retired_at)} UTC: its backups stay until their retention ends"
        yield Reason(Code.RETIRED, text, facts={"since": source.retired_at})
    elif source.paused_at:
        why = f" ({source.paused_why})" if source.paused_why else ""
        text = f"it has been paused since {moment(source.paused_at)} UTC{why}{_end(source.paused_until)}"
        facts = {"since": source.paused_at, "why": source.paused_why}
        yield Reason(Code.PAUSED, text, source.paused_until, facts)


def _of_policy(policy: Policy) -> Iterator[Reason]:
    if not policy.schedule.enabled:
        why = f" ({policy.paused_why})" if policy.paused_why else ""
        text = f"policy {policy} is disabled{why}{_end(policy.paused_until)}"
        yield Reason(Code.DISABLED, text, policy.paused_until, {"policy": str(policy), "why": policy.paused_why})
    if problem := policy.problem:
        text = f"policy {policy} backs up nothing until it is corrected: {problem}"
        yield Reason(Code.UNREADABLE, text, facts={"policy": str(policy), "problem": problem})


def _end(until: datetime | None) -> str:
    return f", until {moment(until)} UTC" if until else ", until a user resumes it"


def _asked(source: Source, record: BacklogRecord, now: datetime) -> Any:
    """A function that adds facts about the source to the reasons of its record."""

    def add(reason: Reason) -> Reason:
        if reason.code == Code.RUNNING and record.queue != BACKUPS:
            return replace(reason, text=f"it is being asked whether it is there: {reason.text}")
        if reason.code == Code.WOKEN and source.last_woken_at:
            ago = span(max(0.0, (now - source.last_woken_at).total_seconds()))
            text = f"it was sent a magic packet at {moment(source.last_woken_at)} UTC, {ago} ago; {reason.text}"
            return replace(reason, text=text, facts={"woken_at": source.last_woken_at})
        return reason

    return add


def _of_what_is_not_there(assignment: Assignment, last: BacklogRecord | None, around: Surroundings) -> Iterator[Reason]:
    """Reasons of an assignment without a record on the backlog: it is not due, or has not been put there. `last`: a
    record that ended.
    """
    policy, due_at, now = assignment.policy, assignment.next_backup_at, around.now
    if held := around.on_hold:
        yield Reason(Code.ON_HOLD, hold.clause(held), facts={"since": held.since, "by": held.by})
    if due_at is not None and due_at > now:
        text = f"its next backup is due at {moment(due_at)} UTC, in {span((due_at - now).total_seconds())}"
        if assignment.last_backup_at:
            text = f"{text}; its last one began at {moment(assignment.last_backup_at)} UTC"
        yield Reason(Code.NOT_DUE, text, due_at, {"last_backup_at": assignment.last_backup_at})
    elif last is not None and last.status in FINISHED and last.status == Status.FAILED:
        yield from reasons.explain(last, now, around).reasons
    elif policy.schedule.enabled and not (
        assignment.source.retired_at or assignment.source.paused_at or policy.problem
    ):
        yield Reason(Code.NOT_PLANNED, "it is due, and is put on the backlog within a minute", now)
    if not policy.problem:
        yield from _window(assignment, max(now, due_at or now))


def _window(assignment: Assignment, at: datetime) -> Iterator[Reason]:
    """The reason that the window is closed at the instant at which it is due."""
    opens_at, closes_at = assignment.policy.opening(at)
    if opens_at > at:
        text = f"the window of {assignment.policy} is closed then, until {moment(opens_at)} UTC"
        yield Reason(Code.WINDOW, text, opens_at, {"opens_at": opens_at, "closes_at": closes_at})
    if assignment.skips:
        text = (
            f"it has been put off {several(assignment.skips, 'time')} in a row, since its last duration did not fit; "
            f"after {STARTS_ALL_THE_SAME_AFTER} it starts all the same"
        )
        yield Reason(Code.WINDOW, text, facts={"skips": assignment.skips})


def _of_repository(assignment: Any, now: datetime) -> Iterator[Reason]:
    repository: Repository = assignment.policy.repository
    breaker = Breaker.objects.filter(pk=assignment.open_breaker).first() if assignment.open_breaker else None
    if breaker:
        coming = f"; the next trial comes at {moment(breaker.probe_at)} UTC" if breaker.probe_at else ""
        facts = {"breaker": breaker.key, "since": breaker.opened_at, "error": first_line(breaker.last_error)}
        yield Reason(Code.BREAKER, f"{breakers.describe(breaker)}{coming}", breaker.probe_at, facts)
    if repository.away_why:
        since = f" (since {moment(repository.away_since)} UTC)" if repository.away_since else ""
        text = f"repository {repository} is not where it was{since}: {repository.away_why}"
        yield Reason(Code.AWAY, text, facts={"repository": repository.name, "since": repository.away_since})
    lacked, free = assignment.room_lacked, repository.room_free
    if lacked is not None and (free is None or free < lacked * ENOUGH_ROOM):
        now_free = f", and has {_size(free)} now" if free is not None else ""
        text = f"repository {repository} had {_size(lacked)} free when its last backup needed more{now_free}"
        do = f"`{PROGRAM} repositories` shows its room"
        yield Reason(
            Code.NO_ROOM, f"{text}: {do}", facts={"repository": repository.name, "lacked": lacked, "free": free}
        )


def _size(number: int) -> str:
    return filesizeformat(number).replace("\xa0", " ")
