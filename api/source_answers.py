"""How a source stands, as its agent reads it."""

from datetime import datetime
from typing import Any

from django.conf import settings

from jobs.states import Status
from sources import planning
from sources.models import Source

WORST_FIRST = ("overdue", "never", "due", "protected")


def status_of(source: Source, now: datetime, standings: list[planning.Standing] | None = None) -> dict[str, Any]:
    """A `StatusAnswer` about `source` at `now`. One query, unless its `standings` are known."""
    found = planning.standings_of(source.pk) if standings is None else standings
    assignments = [_assignment(standing, now) for standing in found]
    states = {assignment["state"] for assignment in assignments}
    return {
        "source": source.name,
        "server_time": now,
        "interval": settings.CHECK_IN_EVERY,
        "state": next((state for state in WORST_FIRST if state in states), None),
        "assignments": assignments,
        "snoozed_until": source.snoozed_until if source.snoozed_until and source.snoozed_until > now else None,
        "paused": source.paused_at is not None,
    }


def _assignment(standing: planning.Standing, now: datetime) -> dict[str, Any]:
    return {
        "policy": standing.policy,
        "state": standing.state(now).value,
        "last_backup_at": standing.last_backup_at,
        "next_backup_at": standing.next_backup_at,
        "backlog": None if standing.status is None else Status(standing.status).name.lower(),
    }
