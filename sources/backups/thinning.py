"""Removes points of an assignment from one repository, and notes at once that they are gone: what comes after it, as
restic's prune, may fail for days, and is tried again."""

from typing import Any

from django.db import transaction

from jobs.clock import database_clock
from sources.backups import repositories, snapshots, upkeep
from sources.domain.retention import Kept
from sources.models import Assignment, Backup, Format, Repository
from sources.storage import layout
from sources.storage.store import StorageFailed


def thin(work: upkeep.Work, repository: Repository, decided: list[Kept]) -> dict[str, Any] | None:
    """Remove what does not stay of the points that an assignment has in a repository, with their rows. Returns what
    came of it; None: all stay. Raises: StorageFailed, Stopped, Busy."""
    goes = [each.point.name for each in decided if not each.reasons]
    stays = [each.point.name for each in decided if each.reasons]
    if not goes:
        return None
    if work.assignment.source.retired and not stays:
        answer = repositories.remove_folder(repository, work, **_at(work))
        snapshots.note_pruned(repository, database_clock())
    else:
        answer = repositories.work("remove_points", repository, work, **_at(work), points=goes, stay=stays)
    _note_gone(work.assignment, repository, set(goes).difference(answer["present"]))
    return answer


def prune(work: upkeep.Work, repository: Repository) -> int:
    """Free what no point of a restic repository holds, if that is due. Returns the bytes of it. Raises: StorageFailed,
    Stopped, Busy."""
    if repository.format != Format.RESTIC or not snapshots.prunes_now(repository, work.record.started_at):
        return 0
    try:
        answer = repositories.work("prune", repository, work, **_at(work))
    except StorageFailed as error:
        raise StorageFailed(f"what removed points held takes room still: {error}") from error
    snapshots.note_pruned(repository, database_clock())
    return int(answer["freed"])


def _at(work: upkeep.Work) -> dict[str, Any]:
    return {"grace": work.grace, "on_progress": work.on_progress, "folder": work.assignment.directory}


@transaction.atomic
def _note_gone(assignment: Assignment, repository: Repository, gone: set[str]) -> None:
    """No settle is waited for, which may come after hours, or never: these names do not come again."""
    # locked first, as wherever an assignment and what hangs on it are written
    Assignment.objects.select_for_update(no_key=True).filter(pk=assignment.pk).first()
    rows = assignment.backups.filter(repository=repository).order_by().values_list("pk", "snapshot")
    if pks := [pk for pk, place in rows if layout.point_of(place) in gone]:
        Backup.objects.filter(pk__in=pks).delete()
        upkeep.count_what_is_left(assignment, assignment.backups.all())
    for copy in assignment.copies.filter(repository=repository):
        copy.points = [each for each in copy.points if each not in gone]
        copy.save(update_fields=["points"])
