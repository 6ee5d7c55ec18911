"""Repositories: how much room is left, and when it is used up at the pace of the last thirty days."""

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any

from dashboard.models import DayTotal
from sources.models import Repository

LEAST_DAYS = 7
"""Of history: from less no day is named on which a repository is full."""
FURTHEST = timedelta(days=3650)


def repositories(days: Sequence[DayTotal], today: date) -> list[dict[str, Any]]:
    """All of them, by name. `free` and `total`: bytes; None: not known; `used_share`: percent. `full_on`: at the pace
    of the last thirty days; None: not known, or not within ten years. `pace`: bytes a day; None: too little history."""
    return [_room(each, days, today) for each in Repository.objects.order_by("name")]


def _room(repository: Repository, days: Sequence[DayTotal], today: date) -> dict[str, Any]:
    pace, free, total = _pace(repository, days, today), repository.room_free, repository.room_total
    kind = repository.remote.get("type")
    return {
        "id": repository.pk, "name": repository.name, "free": free, "total": total, "pace": pace,
        "where": f"{kind}: {repository.location}" if kind else repository.location,
        "used_share": None if free is None or not total else 100 - 100 * free // total,
        "full_on": _full_on(free, pace, today),
    }  # fmt: skip


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
