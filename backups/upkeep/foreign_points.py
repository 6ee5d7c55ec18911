"""Foreign points: which there are, and how a person takes one for ours (`storage.points.known`)."""

from dataclasses import dataclass
from threading import Event
from typing import Any

from django.db import transaction

from backups import known_points, repositories
from backups.upkeep import records
from jobs import decisions
from jobs.clock import database_clock
from sources import planning
from sources.models import Assignment, Backup, Repository
from storage import layout
from storage.points.store import StorageFailed

GRACE_SECONDS = 4.0


@dataclass(frozen=True)
class ForeignPoint:
    """A point of an assignment in a repository, and what its manifest says of itself (`runs.facts_of`), whatever that
    is worth."""

    assignment: Assignment
    repository: Repository
    facts: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.facts["name"])


def of(assignment: Assignment) -> tuple[list[ForeignPoint], list[str]]:
    """Those in each of its repositories, the oldest first, by a look at all manifests; and why one could not be looked
    at. Those whose manifest cannot be read are left out."""
    found, failed = list[ForeignPoint](), list[str]()
    for repository in repositories.homes(assignment) if assignment.directory else ():
        ours = known_points.of(assignment, repository)
        how: dict[str, Any] = {"grace": GRACE_SECONDS, "on_progress": lambda progress: None}
        try:
            answer = repositories.work(
                "foreign_points", repository, Event(), **how, folder=assignment.directory, known=ours
            )
        except StorageFailed as error:
            failed.append(f"repository {repository}: {error}")
            continue
        found += [ForeignPoint(assignment, repository, each) for each in answer["points"]]
    return found, failed


@transaction.atomic
def accept(point: ForeignPoint, *, by: str) -> None:
    """From now on it is ours as it is: what its manifest has become since is foreign again."""
    assignment, repository, name = point.assignment, point.repository, point.name
    # locked first, as wherever an assignment and what hangs on it are written
    Assignment.objects.select_for_update(no_key=True).filter(pk=assignment.pk).first()
    known_points.replace(assignment.pk, repository.pk, {name: point.facts["digest"]})
    copy = assignment.copies.filter(repository=repository).first()
    has_backups = Backup.objects.filter(assignment=assignment, repository=repository).exists()
    if has_backups or copy is None:
        records.record_points(assignment.pk, repository.pk, [point.facts])
    elif name not in copy.points:
        copy.points = sorted({*copy.points, name}, key=layout.order_of)
        copy.save(update_fields=["points"])
    text = f"{by} takes point {name} of {assignment} in {repository} for ours: SHA-256 {point.facts['digest']}"
    line = decisions.Line("accepted", text, planning.CHECK, planning.subject_of(assignment.pk))
    decisions.doing_all([line], database_clock())
