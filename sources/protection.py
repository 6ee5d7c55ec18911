"""The status of a source and the alert state of an assignment in one word, as columns: one definition for the lists,
the filters and the API."""

from datetime import datetime
from typing import Any

from django.db.models import Case, CharField, Count, Q, QuerySet, Value, When
from django.utils import timezone

from sources.domain.alerts import AlertState


def with_alert_state(assignments: QuerySet[Any], now: datetime) -> QuerySet[Any]:
    """Annotate `state`: the alert state of each assignment, by the `overdue_since` that is stored."""
    annotated: QuerySet[Any] = assignments.annotate(
        state=Case(
            When(last_backup_at=None, then=Value(AlertState.NEVER.value)),
            When(overdue_since__isnull=False, then=Value(AlertState.OVERDUE.value)),
            When(next_backup_at__gt=now, then=Value(AlertState.PROTECTED.value)),
            default=Value(AlertState.DUE.value),
            output_field=CharField(),
        )
    )
    return annotated


def with_status(sources: QuerySet[Any], now: datetime) -> QuerySet[Any]:
    """Annotate `status` over all assignments of each source, worst first. Needs `with_protection()`.

    What is wrong stays in sight while its user snoozes it; a snooze only explains why it is due.
    """
    counted = sources.annotate(
        assigned=Count("assignments"),
        unprotected=Count("assignments", filter=Q(assignments__last_backup_at=None)),
        overdue=Count("assignments", filter=Q(assignments__overdue_since__isnull=False)),
    )
    annotated: QuerySet[Any] = counted.annotate(
        status=Case(
            When(paused_at__isnull=False, then=Value("paused")),
            When(assigned=0, then=Value("no policy")),
            When(failures__gt=0, then=Value("failing")),
            When(unprotected__gt=0, then=Value("never")),
            When(overdue__gt=0, then=Value("overdue")),
            When(snoozed_until__gt=now, then=Value("snoozed")),
            When(next_backup_at__lte=now, then=Value("due")),
            default=Value("protected"),
            output_field=CharField(),
        )
    )
    return annotated


def present() -> datetime:
    """The instant that a page speaks of."""
    return timezone.now()
