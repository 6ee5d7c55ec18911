"""Repositories: how much room is left, and when it is used up at the pace of the last thirty days."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from dashboard.models import DayTotal
from sources.models import Repository

LEAST_DAYS = 7
"""Of history: from less no day is named on which a repository is full."""
FURTHEST = timedelta(days=3650)


@dataclass(frozen=True)
class Room:
    """A repository. `free` and `total`: bytes; None: not known. `full_on`: at the pace of the last thirty days; None:
    not known, or not within ten years. `pace`: bytes a day; None: too little history."""

    id: int
    name: str
    where: str
    free: int | None
    total: int | None
    pace: float | None
    full_on: date | None

    @property
    def used_share(self) -> int | None:
        """Percent."""
        return None if self.free is None or not self.total else 100 - 100 * self.free // self.total


def repositories(days: Sequence[DayTotal], today: date) -> list[Room]:
    """All of them, by name."""
    return [_room(each, days, today) for each in Repository.objects.order_by("name")]


def _room(repository: Repository, days: Sequence[DayTotal], today: date) -> Room:
    pace = _pace(repository, days, today)
    return Room(
        id=repository.pk,
        name=repository.name,
        where=repository.location
        if not repository.remote
        else f"{repository.remote.get('type')}: {repository.location}",
        free=repository.room_free,
        total=repository.room_total,
        pace=pace,
        full_on=_full_on(repository.room_free, pace, today),
    )


def _pace(repository: Repository, days: Sequence[DayTotal], today: date) -> float | None:
    """Bytes a day since its first backup among these days, today left out: it is not over."""
    name = str(repository.pk)
    over = [day for day in days if day.date < today]
    first = next((day.date for day in over if day.added.get(name)), None)
    if first is None or (today - first).days < LEAST_DAYS:
        return None
    added: int = sum(day.added.get(name, 0) for day in over)
    return added / (today - first).days


def _full_on(free: int | None, pace: float | None, today: date) -> date | None:
    if free is None or not pace:
        return None
    ahead = free / pace
    return today + timedelta(days=int(ahead)) if ahead < FURTHEST.days else None
