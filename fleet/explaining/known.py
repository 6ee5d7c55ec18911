"""A source with all facts that explain it, each read once, however many explanations a page has."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any

from jobs.models import BacklogRecord
from operations.backlog.surroundings import Surroundings
from sources.availability import repository_breaker
from sources.models import Assignment, Source
from sources.planning.names import KIND, subject_of
from sources.protection import ledger


class KnownSource:
    """A source at `now` (aware), the present."""

    def __init__(self, source: Source, now: datetime) -> None:
        self.source, self.now = source, now

    @cached_property
    def assignments(self) -> list[Any]:
        """Its assignments by the name of their policies, with the rows that `assignments.explain` needs."""
        related = Assignment.objects.filter(source=self.source).select_related(
            "source", "policy__schedule", "policy__repository"
        )
        related = related.annotate(open_breaker=repository_breaker.OPEN_BREAKER)
        return list(related.order_by("policy__schedule__name"))

    @cached_property
    def records(self) -> dict[str, BacklogRecord]:
        """Subject → the record of each assignment (`records_of`)."""
        return records_of(self.assignments)

    @cached_property
    def around(self) -> Surroundings:
        """The surroundings of these records."""
        return Surroundings([*self.records.values()], self.now)

    @cached_property
    def idle(self) -> Mapping[int, Sequence[ledger.Idle]]:
        """Assignment id → the times in which no backup of it was wanted."""
        return ledger.idle_of(self.assignments)


def records_of(assignments: Sequence[Assignment]) -> dict[str, BacklogRecord]:
    """Subject → its unfinished record; for one that fails and has none, the dead letter that it left."""
    related = ("retry_policy", "origin", "leased_by", "breaker")
    of_backups = BacklogRecord.objects.filter(kind=KIND).select_related(*related)
    subjects = {subject_of(each.pk): each for each in assignments}
    found = {each.subject: each for each in of_backups.unfinished().filter(subject__in=subjects)}
    for subject, assignment in subjects.items():
        if assignment.failures and subject not in found:
            ended = of_backups.filter(subject=subject, finished_at__isnull=False).order_by("-finished_at")
            if last := ended.first():
                found[subject] = last
    return found
