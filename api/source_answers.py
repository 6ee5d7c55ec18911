"""How a source stands, as its agent reads it."""

from datetime import datetime
from typing import Any

from django.conf import settings

from jobs import states
from sources import planning
from sources.domain.status import PRECEDENCE, Status
from sources.models import Source


def status_of(source: Source, now: datetime, standings: list[planning.Standing] | None = None) -> dict[str, Any]:
    """A `StatusAnswer` about `source` at `now`. One query, unless its `standings` are known."""
    found = planning.standings_of(source.pk) if standings is None else standings
    assignments = [_assignment(standing, now) for standing in found]
    return {
        "source": source.name,
        "server_time": now,
        "interval": settings.CHECK_IN_EVERY,
        "status": _status(source, found, now),
        "assignments": assignments,
        "snoozed_until": source.snoozed_until if source.snoozed_until and source.snoozed_until > now else None,
        "paused": source.paused_at is not None,
    }


def _status(source: Source, standings: list[planning.Standing], now: datetime) -> Status:
    """As `sources.status.with_status` finds it of the rows."""
    if source.retired_at or source.paused_at:
        return Status.RETIRED if source.retired_at else Status.PAUSED
    found = {standing.protection(now) for standing in standings if standing.enabled}
    return next((status for status in PRECEDENCE if status in found), Status.UNPROTECTED)


def _assignment(standing: planning.Standing, now: datetime) -> dict[str, Any]:
    return {
        "policy": standing.policy,
        "status": standing.protection(now).value,
        "last_backup_at": standing.last_backup_at,
        "proved_at": standing.proved_at,
        "next_backup_at": standing.next_backup_at,
        "backlog": None if standing.status is None else states.Status(standing.status).name.lower(),
    }
