"""Records of the backlog: look at them, retry and cancel them."""

from collections.abc import Sequence
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest

from api.auth import Staff, looking, operating
from api.choosing import filters_of, patiently
from api.record_schemas import (
    CancelAnswer,
    RecordAnswer,
    RecordDetail,
    RecordFilters,
    RetryAnswer,
    RetryRequest,
    WouldRetryAnswer,
)
from api.resources import Resource
from api.retrying import cancel_row, first_ids, retry_many, retry_row
from jobs.clock import database_clock
from jobs.models import Attempt, BacklogRecord
from jobs.models.record import BacklogRecordQuerySet
from jobs.states import Status
from operations.backlog.dead_letters import ids_like
from operations.backlog.facts import attempt_facts, record_facts
from operations.backlog.reasons import reasons
from operations.backlog.selection import Filters

SHOWN_ATTEMPTS = 100


class Records(Resource[BacklogRecord]):
    """Records, read-only: what machines write."""

    model, name, plural, tag = BacklogRecord, "record", "records", "backlog"
    answer, detail, filters = RecordAnswer, RecordDetail, RecordFilters
    usual_ordering = "-id"

    def permits(self, verb: str) -> Staff:
        """As in the admin: who may change what becomes of records may see them."""
        return looking()

    def filtered(self, rows: QuerySet[Any], asked: dict[str, Any]) -> QuerySet[Any]:
        """By what they are like, and where they came from."""
        found = filters_of(RecordFilters(**asked)).records()
        if "trigger_at" in asked:
            found = found.filter(trigger_at=asked["trigger_at"])
        return found.filter(origin_id=asked["schedule"]) if "schedule" in asked else found

    def facts(self, rows: Sequence[BacklogRecord]) -> list[dict[str, Any]]:
        """The columns, without the lease token."""
        return [record_facts(row) for row in rows]

    def detailed(self, row: BacklogRecord) -> dict[str, Any]:
        """Its latest attempts, and why it does not run."""
        attempts = Attempt.objects.filter(record_id=row.pk).order_by("-number")[:SHOWN_ATTEMPTS]
        why = reasons(row, database_clock())
        return {"attempts": [attempt_facts(each) | {"record": row.pk} for each in attempts], "why": why}


resource = Records()
router = resource.router()


@router.post(
    "/records/retry",
    auth=operating(),
    response=RetryAnswer | WouldRetryAnswer,
    operation_id="retry_records",
    summary="Retry records now",
)
def retry(request: HttpRequest, body: RetryRequest) -> dict[str, Any]:
    """What waits is ready at once, whatever for. What failed or was cancelled starts afresh."""
    chosen = _chosen(body)
    with patiently():
        ids = _ids(body, chosen)
    return retry_many(request, chosen, ids, named=bool(body.ids), dry_run=body.dry_run)


@router.post(
    "/records/{int:record_id}/retry",
    auth=operating(),
    response=RetryAnswer,
    operation_id="retry_record",
    summary="Retry one record now",
)
def retry_one(request: HttpRequest, record_id: int) -> dict[str, Any]:
    """As for many."""
    return retry_row(request, resource.get(record_id).pk)


@router.post(
    "/records/{int:record_id}/cancel",
    auth=operating(),
    response=CancelAnswer,
    operation_id="cancel_record",
    summary="Take one record off the backlog",
)
def cancel_one(request: HttpRequest, record_id: int) -> dict[str, Any]:
    """What runs is told to stop, and ends as cancelled unless it succeeds first."""
    return cancel_row(request, resource.get(record_id).pk)


def _chosen(body: RetryRequest) -> BacklogRecordQuerySet:
    if body.ids:
        return Filters().records()
    return filters_of(body).records((Status.FAILED,))


def _ids(body: RetryRequest, chosen: BacklogRecordQuerySet) -> list[int]:
    """Ids to retry, ascending, from `after` on; one more than are retried at once when there are so many."""
    if body.ids:
        return sorted({each for each in body.ids if each > body.after})
    if body.group:
        found = ids_like(body.group, body.kind, body.queue)
        return [each for each in found if each > body.after]
    return first_ids(chosen, body.after)
