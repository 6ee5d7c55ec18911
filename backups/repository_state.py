"""The state of a repository as the records that work on it find it: free room, its first backup, whether it can be
written to, and what a record does that finds it busy."""

from datetime import timedelta

from django.conf import settings
from django.db.models import Q
from django.db.models.functions import Now

from backups import repositories
from external.processes.runner import StopSignal
from jobs.clock import database_clock
from jobs.outcomes import Postponed
from jobs.states import WaitingFor
from sources.models import Repository
from storage.points.store import StorageFailed

ROOM_HOLDS_FOR = timedelta(minutes=1)

BUSY_FOR = timedelta(seconds=60)
"""A destination that another run still writes to is looked at again after that."""


def note_room(repository: Repository, room: tuple[int, int] | None) -> None:
    """Store how many bytes are free, and of how many: at most once a minute, since many of its backups end together."""
    if room:
        stale = Q(room_seen_at=None) | Q(room_seen_at__lt=Now() - ROOM_HOLDS_FOR)
        rows = Repository.objects.filter(stale, pk=repository.pk)
        rows.update(room_free=room[0], room_total=room[1], room_seen_at=Now())


def note_made(repository: Repository) -> None:
    """Store that a first backup is there: from then on an empty place is a disk that is away."""
    if repository.made_at is None:
        place = {"location": repository.location, "remote": repository.remote}  # an edit may have come between
        Repository.objects.filter(pk=repository.pk, made_at=None, **place).update(made_at=Now())


def not_writable(repository: Repository, stop: StopSignal) -> str | None:
    """The reason why nothing can be written to a repository now; None if something can."""
    try:
        location = repositories.location_of(repository)
    except StorageFailed as error:
        return str(error)
    return repositories.why(
        "not_writable", location, stop, reserve=settings.RESERVE_PERCENT, made=repository.made_at is not None
    )


def busy(why: str) -> Postponed:
    """The outcome of a record that finds a repository, or what it needs there, taken by another one."""
    return Postponed(database_clock() + BUSY_FOR, WaitingFor.RECHECK, f"{why}; looked at again at")
