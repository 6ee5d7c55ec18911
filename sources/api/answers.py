"""How a source stands, as its agent is told."""

from datetime import datetime
from typing import Any

from cronsim import CronSimError
from django.conf import settings
from django.db.models import CharField, F, OuterRef, QuerySet, Subquery, Value
from django.db.models.functions import Cast, Concat

from jobs.models import BacklogRecord
from jobs.states import Status
from sources import planning
from sources.models import Assignment, Source

UNREADABLE = (ValueError, KeyError, CronSimError)
"""What a cron or zone raises that was written past the forms. An agent's check-in must not fail for it."""

WORST_FIRST = ("overdue", "never", "due", "protected")


def status_of(source: Source, now: datetime) -> dict[str, Any]:
    """A `StatusAnswer` about `source` at `now`. One query."""
    assignments = [_assignment(assignment, now) for assignment in _with_backlog(source)]
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


def _with_backlog(source: Source) -> QuerySet[Assignment]:
    """The assignments, each with the status of its one unfinished record, found by the index of that promise."""
    subject = Concat(Value("assignment:"), Cast(OuterRef("pk"), CharField()))
    unfinished = BacklogRecord.objects.unfinished().filter(kind=planning.KIND, subject=subject).values("status")
    assignments = Assignment.objects.filter(source=source).select_related("policy__schedule")
    return assignments.annotate(backlog=Subquery(unfinished[:1])).order_by(F("policy__schedule__name"))


def _assignment(assignment: Any, now: datetime) -> dict[str, Any]:
    return {
        "policy": assignment.policy.schedule.name,
        "state": _state(assignment, now),
        "last_backup_at": assignment.last_backup_at,
        "next_backup_at": assignment.next_backup_at,
        "backlog": None if assignment.backlog is None else Status(assignment.backlog).name.lower(),
    }


def _state(assignment: Assignment, now: datetime) -> str:
    try:
        return assignment.alert_state(now).value
    except UNREADABLE:
        if assignment.last_backup_at is None:
            return "never"
        return "due" if assignment.is_due(now) else "protected"
