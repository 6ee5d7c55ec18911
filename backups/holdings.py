"""Repositories that hold points of an assignment, and these points, by our rows. Nothing here looks into one."""

from django.db.models import CharField, Func, QuerySet, Value
from django.db.models.functions import Left, Length

from sources.models import Assignment, Backup, Repository
from storage import layout

A_SECOND = len("20261121T065755Z")


def holding(assignment: Assignment) -> list[Repository]:
    """Repositories with backups of an assignment, that of its policy first."""
    found = Repository.objects.filter(backups__assignment=assignment).distinct()
    return sorted(found, key=lambda each: (each.pk != assignment.policy.repository_id, each.pk))


def with_copies(assignment: Assignment) -> list[Repository]:
    """Repositories with copies of its points, as far as is known, that of its policy first."""
    rows = assignment.copies.exclude(points=[]).select_related("repository")
    found = (each.repository for each in rows)
    return sorted(found, key=lambda each: (each.pk != assignment.policy.copy_to_id, each.pk))


def homes(assignment: Assignment) -> list[Repository]:
    """Repositories with points of an assignment: those with backups, its policy's, those with copies."""
    found = (*holding(assignment), assignment.policy.repository, *with_copies(assignment))
    return list(dict.fromkeys(found))


def recorded(assignment: Assignment, repository: Repository) -> list[str]:
    """The points of an assignment in a repository, copies too."""
    rows = assignment.backups.filter(repository=repository).order_by()
    names = [name for place in rows.values_list("snapshot", flat=True) if (name := layout.point_of(place))]
    copies = assignment.copies.filter(repository=repository).values_list("points", flat=True)
    return [*names, *(name for points in copies for name in points if name not in names)]


def newest_in(repository: Repository, assignment: Assignment) -> str:
    """The newest point of an assignment in a repository; empty if it has none."""
    return max(recorded(assignment, repository), key=layout.order_of, default="")


def newest_first(backups: QuerySet[Backup]) -> QuerySet[Backup]:
    """Backups, the one with the newest point first, by the names of points (`layout.order_of`). Their times do not
    order them: once a clock was ahead, the backup of that run has a later time than those after it.
    """
    name = Func("snapshot", Value("/"), Value(1), function="split_part", output_field=CharField())
    return backups.order_by(Left(name, A_SECOND).desc(), Length(name).desc(), name.desc())
