"""Foreign points: which there are, and how an operator accepts one as ours (`storage.points.known`)."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from threading import Event
from typing import Any

from django.db import transaction
from django.db.models import Q

from backups import holdings, known_points, locations, repository_orders
from backups.upkeep import records
from external.formatting import moment, several
from jobs import decisions
from jobs.clock import database_clock
from sources import planning
from sources.models import Assignment, Backup, Repository
from storage import layout
from storage.points.known import AHEAD
from storage.points.store import StorageFailed

GRACE_SECONDS = 4.0


@dataclass(frozen=True)
class ForeignPoint:
    """A point of an assignment in a repository, with the facts that its manifest gives (`runs.facts_of`), however
    reliable they are.
    """

    assignment: Assignment
    repository: Repository
    facts: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.facts["name"])

    @property
    def at(self) -> datetime:
        """The instant at which it began, by its name."""
        return layout.instant_of(self.name)

    @property
    def not_of(self) -> str:
        """A sentence if its manifest is that of another point, otherwise empty."""
        return str(self.facts["not_of"])


def of(assignment: Assignment, only: str | None = None) -> tuple[list[ForeignPoint], list[str]]:
    """The foreign points in each of its repositories, the oldest first, by a look at all manifests; and why one could
    not be looked at. Points whose manifest cannot be read are left out. `only`: the name of the repository that is
    looked at.
    """
    found, failed = list[ForeignPoint](), list[str]()
    for repository in holdings.homes(assignment) if assignment.directory else ():
        if only not in (None, repository.name):
            continue
        ours = known_points.of(assignment, repository)
        how: dict[str, Any] = {"grace": GRACE_SECONDS, "on_progress": lambda progress: None}
        try:
            how["owner"] = locations.owner_of(repository)
            answer = repository_orders.work(
                "foreign_points", repository, Event(), **how, folder=assignment.directory, known=ours
            )
        except StorageFailed as error:
            failed.append(f"repository {repository}: {error}")
            continue
        found += [ForeignPoint(assignment, repository, each) for each in answer["points"]]
    return found, failed


def in_repository(repository: Repository) -> tuple[list[ForeignPoint], list[str]]:
    """The foreign points of all assignments that have points there, or write there; and why one could
    not be looked at.
    """
    there = Q(backups__repository=repository) | Q(copies__repository=repository) | Q(policy__repository=repository)
    found, failed = list[ForeignPoint](), list[str]()
    for assignment in Assignment.objects.filter(there).select_related("source", "policy").distinct().order_by("pk"):
        points, why = of(assignment, repository.name)
        found, failed = [*found, *points], [*failed, *why]
    return found, failed


def of_the_past(points: Iterable[ForeignPoint], now: datetime) -> tuple[list[ForeignPoint], list[ForeignPoint]]:
    """The points that may be accepted together; and those of the future, a time that none of ours can have: such a
    point would be the newest one for ever.
    """
    past, future = list[ForeignPoint](), list[ForeignPoint]()
    for each in points:
        (past if each.at <= now + AHEAD else future).append(each)
    return past, future


def described(points: Iterable[ForeignPoint]) -> str:
    """The number of points and of sources, the repositories and the first and last time, as a part of a sentence."""

    def by_repository(point: ForeignPoint) -> str:
        return point.repository.name

    parts = []
    for name, group in groupby(sorted(points, key=by_repository), by_repository):
        there = list(group)
        sources = {each.assignment.source for each in there}
        whose = f"{next(iter(sources))}" if len(sources) == 1 else several(len(sources), "source")
        first, last = (moment(choose(each.at for each in there)) for choose in (min, max))
        parts.append(f"{several(len(there), 'foreign point')} of {whose} in repository {name}, {first} to {last} UTC")
    return "; and ".join(parts)


@transaction.atomic
def accept(point: ForeignPoint, *, by: str) -> None:
    """Accept a point as ours in its present state: once its manifest changes after that, it is foreign again.

    Raises: ValueError if it is in the future: no run could be later, as the next points have to be; and if its manifest
    is that of another point.
    """
    assignment, repository, name = point.assignment, point.repository, point.name
    if point.not_of:
        raise ValueError(f"{point.not_of}: move it back, or delete it")
    if layout.instant_of(name) > database_clock() + AHEAD:
        raise ValueError(f"point {name} is in the future: restore it with --foreign, or delete its manifest")
    # locked first, as everywhere that an assignment and its dependent rows are written
    Assignment.objects.select_for_update(no_key=True).filter(pk=assignment.pk).first()
    known_points.replace(assignment.pk, repository.pk, {name: point.facts["digest"]}, accepted=True)
    copy = assignment.copies.filter(repository=repository).first()
    has_backups = Backup.objects.filter(assignment=assignment, repository=repository).exists()
    if has_backups or copy is None:
        records.record_points(assignment.pk, repository.pk, [point.facts])
    elif name not in copy.points:
        copy.points = sorted({*copy.points, name}, key=layout.order_of)
        copy.incomplete |= {} if point.facts["complete"] else {name: [records.LEFT_OUT]}
        copy.save(update_fields=["points", "incomplete"])
    text = (
        f"{by} accepts point {name} of {assignment} in {repository} as one of this installation's own: SHA-256 "
        f"{point.facts['digest']}"
    )
    line = decisions.DecisionLine("accepted", text, planning.CHECK, planning.subject_of(assignment.pk))
    decisions.log_all([line], database_clock())
