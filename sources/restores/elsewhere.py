"""Where else a point lies, for who could not have it from one repository: a sentence, shown wherever the failure is.

A repository is named only if it says at that moment that it has this very point, and if no check has found damage there
that may touch it.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from shlex import quote
from typing import Any

from django.db.utils import Error

from jobs.conf import PROGRAM
from sources.backups import repositories
from sources.models import Assignment, CheckRound, Repository
from sources.processes.programs import ProgramMissing
from sources.storage import layout
from sources.storage.location import RESTIC
from sources.storage.places import TargetFailed
from sources.storage.store import StorageFailed

Points = Callable[[Repository, str], list[str]]
"""Asks a repository for the points in a folder, as `process.points`."""


@contextmanager
def named(repository: Repository, folder: str, point: str, points: Points) -> Iterator[None]:
    """A failure of `repository` in the block names the others; as `way_out`. Raises: StorageFailed."""
    try:
        yield
    except TargetFailed:
        raise
    except StorageFailed as error:
        raise StorageFailed(added(str(error), way_out(repository, folder, point, points))) from error


def added(text: str, sentence: str) -> str:
    """A text, and a sentence behind it; the text if that is empty."""
    return f"{text}{'' if text.endswith(('.', '?')) else '.'} {sentence}" if sentence else text


def way_out(repository: Repository | None, folder: str, point: str, points: Points) -> str:
    """Which other repositories than this one have a point of the assignment of that folder, and how to restore from
    there; empty: none that is known of."""
    with suppress(Error):  # the failure itself is to be said, also while the database is away
        rows = Assignment.objects.select_related("source", "policy__schedule", "policy__repository")
        assignment = rows.filter(directory=folder).first()
        if assignment and (others := list(_others(assignment, repository, point, points))):
            return _in_words(assignment, point, others)
    return ""


def _others(assignment: Assignment, repository: Repository | None, point: str, points: Points) -> Iterator[Repository]:
    checked = CheckRound.objects.filter(pk=assignment.pk).first()
    for other in repositories.homes(assignment):
        if other == repository or point not in repositories.recorded(assignment, other):
            continue
        found = [each for each in (checked.damage if checked else []) if each.get("repository") == other.pk]
        if not _touches(found, point):
            with suppress(StorageFailed, ProgramMissing, ValueError, OSError):
                if point in points(other, assignment.directory):
                    yield other


def _touches(damage: Iterable[dict[str, Any]], point: str) -> bool:
    """Whether any of it may be of that point: what a later point holds, it may share; restic names no point."""
    for each in damage:
        is_own = each["place"].partition("/")[0] in (layout.MANIFESTS, layout.POINTS)
        if each["place"] == RESTIC or each["point"] == point:
            return True
        if not is_own and layout.order_of(each["point"]) > layout.order_of(point):
            return True
    return False


def _in_words(assignment: Assignment, point: str, others: list[Repository]) -> str:
    source, policy = assignment.source, assignment.policy.schedule.name
    is_alone = source.assignments.exclude(directory="").count() == 1
    which = "" if is_alone else f" --policy {quote(policy)}"
    names = " and ".join(each.name for each in others)
    command = f"{PROGRAM} restore {quote(source.name)}{which} --at {point} --from {quote(others[0].name)} --to FOLDER"
    return (
        f"Point {point} is in repository {names}, where no check has found damage: restore it from there, by "
        f"`{command}`, or choose {others[0].name} at From on the page of its backups"
    )
