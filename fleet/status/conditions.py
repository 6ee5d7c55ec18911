"""The conditions of an assignment in each status, as they are asked of the database."""

from datetime import datetime
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet, TextField, Value
from django.db.models.expressions import RawSQL
from django.db.models.functions import Cast, Concat

from fleet.assignment_findings import OF_SUBJECT
from jobs import states
from jobs.models import BacklogRecord
from jobs.states import WaitingFor
from sources.domain.status import ProtectionStatus
from sources.models import Policy
from sources.planning.names import BACKUPS, KIND

DOUBTFUL = (
    Q(held_back_since__isnull=False)
    | ~Q(drill_error="")
    | (Q(check_round__isnull=False) & ~Q(check_round__damage=[]))
    | ~Q(policy__repository__away_why="")
)


def conditions(now: datetime, *, at_once: bool = False) -> dict[ProtectionStatus, tuple[Any, ...]]:
    """Status → conditions, at least one of which an assignment in it meets, whatever else it meets. `at_once`: the
    unfinished records are read once, for any number of assignments, and not looked up for each.
    """
    records, has = (_unfinished(), _is_among) if at_once else (_records_of_each(), Exists)
    waiting = records.filter(status=states.Status.WAITING)
    return {
        ProtectionStatus.FAILING: (Q(failures__gt=0),),
        ProtectionStatus.OVERDUE: (Q(overdue_since__isnull=False, last_backup_at__isnull=False),),
        ProtectionStatus.NEVER: (Q(last_backup_at=None),),
        ProtectionStatus.DOUBTFUL: (DOUBTFUL,),
        ProtectionStatus.RUNNING: (has(records.filter(status=states.Status.RUNNING, queue=BACKUPS)),),
        ProtectionStatus.ABSENT: (has(waiting.filter(waiting_for=WaitingFor.RECHECK)),),
        ProtectionStatus.WAITING: (has(waiting.exclude(waiting_for=WaitingFor.RECHECK)),),
        ProtectionStatus.DUE: (Q(next_backup_at__lte=now), has(records.filter(status=states.Status.READY))),
    }


def _records_of_each() -> QuerySet[BacklogRecord]:
    """The records of the assignment that a query is about."""
    subject = Concat(Value("assignment:"), Cast(OuterRef("pk"), TextField()), output_field=TextField())
    return BacklogRecord.objects.filter(kind=KIND, subject=subject)


def _unfinished() -> QuerySet[BacklogRecord]:
    """The records of all assignments, by the index of unfinished ones."""
    return BacklogRecord.objects.filter(kind=KIND, status__in=states.UNFINISHED)


def _is_among(records: QuerySet[BacklogRecord]) -> Q:
    return Q(pk__in=records.values_list(RawSQL(OF_SUBJECT, ())))  # noqa: S611 - ours


def enabled() -> QuerySet[Any]:
    """The ids of policies that are enabled."""
    return Policy.objects.filter(schedule__enabled=True).values("pk")
