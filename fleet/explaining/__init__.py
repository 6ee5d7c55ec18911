"""Reasons why the backups of a source do not run now, under each of its policies.

assignments.py  the reasons before and after those of the record: the source, the policy, the repository
groups.py       all sources at once, by the first reason of each
known.py        a source with all facts that explain it, each read once
history.py      the reasons at a past instant, and how long each reason held
restores.py     which restores wait, and why
when.py         when a backup is expected to start, and why there is no estimate
"""

import random
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from declarations.unknown import no_such
from external.formatting import moment
from fleet.explaining.assignments import explain
from fleet.explaining.history import explain_at
from fleet.explaining.known import KnownSource, records_of
from fleet.explaining.when import RNG, ExpectedStart, QueueSnapshot, snapshot
from jobs.models import BacklogRecord
from jobs.states import UNFINISHED
from operations.backlog.reason import Code, Explanation, Reason
from operations.backlog.reasons import hindrances
from operations.backlog.surroundings import Surroundings
from schedules.time_limits import LONGEST_SECONDS, TimeCheck, within
from sources.models import Assignment, Source
from sources.planning.names import REMOVAL, subject_of, subject_of_source


@dataclass(frozen=True)
class SourceExplanation:
    """A source under a policy, and every reason why its backup does not run. Without a policy: the reasons of the
    source.
    """

    policy: str | None
    explanation: Explanation
    record: int | None = None

    @property
    def as_facts(self) -> dict[str, Any]:
        """The reasons by name."""
        return {"policy": self.policy, "record": self.record} | self.explanation.as_facts


def explain_source(
    source: Source,
    now: datetime,
    *,
    policy: str | None = None,
    at: datetime | None = None,
    known: KnownSource | None = None,
) -> list[SourceExplanation]:
    """Explain a source, one entry for each policy by name; `policy`: that one alone; `at`: as it was then, not now.
    `known`: the source as it was read already.

    Raises: ValueError for a policy that it is not under, and an instant for which no history is kept.
    """
    if at is None and (found := _removal(source, now)):
        return [SourceExplanation(None, Explanation(now, False, found))]
    known = known or KnownSource(source, now)
    assignments = known.assignments
    if policy is not None:
        names = [str(each.policy) for each in assignments]
        assignments = [each for each in assignments if str(each.policy) == policy]
        if not assignments:
            raise ValueError(no_such("policy of this source", policy, names))
    if not assignments:
        reason = Reason(Code.UNPROTECTED, "it is in no policy, so it is never backed up")
        return [SourceExplanation(None, Explanation(now, False, (reason,)))]
    if at is not None:
        return [SourceExplanation(str(each.policy), explain_at(each, at, now)) for each in assignments]
    under = ((each, known.records.get(_subject(each))) for each in assignments)
    return [
        SourceExplanation(str(each.policy), explain(each, record, known.around), record.pk if record else None)
        for each, record in under
    ]


def expected_starts(source: Source, now: datetime, rng: random.Random = RNG) -> list[tuple[str, ExpectedStart]]:
    """Policy → when its backup is expected to start, for each that the source is under; or why there is no estimate."""
    related = Assignment.objects.filter(source=source).select_related("policy__schedule")
    assignments = list(related.order_by("policy__schedule__name"))
    records = records_of(assignments)
    seen, check_time = snapshot(now), within(LONGEST_SECONDS, "when it starts, since so many wait")
    record_of = {each.pk: records.get(_subject(each)) for each in assignments}
    return [(str(each.policy), _expected(each, record_of[each.pk], seen, rng, check_time)) for each in assignments]


def _expected(
    assignment: Assignment,
    record: BacklogRecord | None,
    seen: QueueSnapshot,
    rng: random.Random,
    check_time: TimeCheck,
) -> ExpectedStart:
    if record is not None and record.status in UNFINISHED:
        return seen.expect(record, rng, check_time)
    due_at = assignment.next_backup_at
    text = (
        f"it is not due before {moment(due_at)} UTC"
        if due_at and due_at > seen.state.now
        else "it is not on the backlog"
    )
    return ExpectedStart(None, because=text)


def _removal(source: Source, now: datetime) -> tuple[Reason, ...]:
    """The reason that it is being deleted, and those for which that waits. Empty if it is not being deleted."""
    related = BacklogRecord.objects.select_related("retry_policy")
    record = related.filter(kind=REMOVAL, subject=subject_of_source(source.pk)).unfinished().first()
    if record is None:
        return ()
    found = Reason(Code.REMOVED, f"it is being deleted, by record {record.pk}", facts={"record": record.pk})
    return (found, *hindrances(record, Surroundings([record], now)))


def _subject(assignment: Assignment) -> str:
    return subject_of(assignment.pk)
