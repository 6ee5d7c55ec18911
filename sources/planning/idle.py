"""Backup records that do not run: locked in id order, taken off the backlog."""

from datetime import datetime

from django.db.models import QuerySet

from jobs import exclusivity
from jobs.models import BacklogRecord
from jobs.states import Status


def locked(records: QuerySet[BacklogRecord]) -> QuerySet[BacklogRecord]:
    """Those of `records` that do not run, locked in id order until the transaction ends."""
    idle = records.filter(status__in=[Status.READY, Status.WAITING])
    return BacklogRecord.objects.filter(
        pk__in=list(idle.order_by("pk").select_for_update().values_list("pk", flat=True))
    )


def cancel(records: QuerySet[BacklogRecord], reason: str, now: datetime) -> None:
    """Take those of `records` that do not run off the backlog, and out of their trigger, so that it can emit again."""
    idle = locked(records)
    exclusivity.open_gates(idle.filter(status=Status.READY).values_list("exclusive_key", flat=True), now)
    idle.update(
        status=Status.CANCELLED,
        waiting_for=None,
        breaker=None,
        exclusive_key=None,
        finished_at=now,
        trigger_at=None,
        last_error=reason,
    )
