"""Records of the backlog: look at them, retry and cancel them."""

from dataclasses import asdict
from typing import Any

from django.db.models import Count
from django.http import HttpRequest
from ninja import Query, Router

from jobs import backlog
from jobs.api.auth import Looking, Operating
from jobs.api.choosing import filters_of, patiently
from jobs.api.errors import ApiError
from jobs.api.schemas import (
    CancelAnswer,
    Error,
    RecordsAnswer,
    RecordsQuery,
    RetryAnswer,
    RetryRequest,
    WouldRetryAnswer,
)
from jobs.backlog.dead_letters import ids_like
from jobs.backlog.facts import attempt_facts, record_facts
from jobs.backlog.reasons import reasons
from jobs.backlog.rows import BATCH
from jobs.backlog.selection import Filters, locked_batches
from jobs.clock import database_clock
from jobs.models import Attempt, BacklogRecord
from jobs.querysets import BacklogRecordQuerySet
from jobs.states import Status
from jobs.web import audit

router = Router(tags=["backlog"], auth=Looking())

REFUSALS = {(401, 403, 422, 503): Error}

SHOWN_ATTEMPTS = 100

MOST_AT_ONCE = 10_000
"""Records that one request retries: some seconds. The answer says where to go on."""


@router.get("/records", response={200: RecordsAnswer, **REFUSALS}, summary="Records, the latest first")
def records(request: HttpRequest, query: Query[RecordsQuery]) -> dict[str, Any]:
    """As `manage.py backlog list --json`. `next` is the `cursor` of the next page."""
    found = filters_of(query).records()
    if query.cursor is not None:
        found = found.filter(pk__lt=query.cursor)
    with patiently():
        rows = list(found.order_by("-pk")[: query.limit + 1])
    shown = rows[: query.limit]
    return {"records": [record_facts(row) for row in shown], "next": shown[-1].pk if len(rows) > len(shown) else None}


@router.get("/records/{int:record_id}", response={200: dict[str, Any], (404,): Error, **REFUSALS}, summary="One record")
def record(request: HttpRequest, record_id: int) -> dict[str, Any]:
    """With its latest attempts, the newest first, and `why`: each reason for which it does not run now."""
    found = _existing(record_id)
    attempts = Attempt.objects.filter(record_id=record_id).order_by("-number")[:SHOWN_ATTEMPTS]
    why = reasons(found, database_clock())
    return record_facts(found) | {"attempts": [attempt_facts(each) for each in attempts], "why": why}


@router.post(
    "/records/retry",
    auth=Operating(),
    response={200: RetryAnswer | WouldRetryAnswer, **REFUSALS},
    summary="Retry records now",
)
def retry(request: HttpRequest, body: RetryRequest) -> dict[str, Any]:
    """What waits is ready at once, whatever for. What failed or was cancelled starts afresh."""
    chosen = _chosen(body)
    with patiently():
        ids = _ids(body, chosen)
    following = ids[MOST_AT_ONCE - 1] if len(ids) > MOST_AT_ONCE else None
    ids = ids[:MOST_AT_ONCE]
    if body.dry_run:
        counts = chosen.filter(pk__in=ids).order_by().values_list("status").annotate(Count("pk"))
        return {"would_retry": {Status(status).label: count for status, count in counts}, "next": following}
    missing = set(body.ids or ())
    result: dict[str, Any] = asdict(backlog.retry([]))
    for batch in locked_batches(chosen, BATCH, ids):
        missing -= set(batch)
        for name, part in asdict(backlog.retry(batch)).items():
            result[name] = result[name] | part if isinstance(part, dict) else result[name] + part
    result["missing"] = sorted(missing)
    audit.note(request, "Retry now", _told(result))
    return result | {"next": following}


@router.post(
    "/records/{int:record_id}/retry",
    auth=Operating(),
    response={200: RetryAnswer, (404,): Error, **REFUSALS},
    summary="Retry one record now",
)
def retry_one(request: HttpRequest, record_id: int) -> dict[str, Any]:
    """As for many."""
    _existing(record_id)
    result = asdict(backlog.retry([record_id]))
    audit.note(request, "Retry now", _told(result), record_id)
    return result


@router.post(
    "/records/{int:record_id}/cancel",
    auth=Operating(),
    response={200: CancelAnswer, (404,): Error, **REFUSALS},
    summary="Take one record off the backlog",
)
def cancel_one(request: HttpRequest, record_id: int) -> dict[str, Any]:
    """What runs is told to stop, and ends as cancelled unless it succeeds first."""
    _existing(record_id)
    result = asdict(backlog.cancel([record_id]))
    audit.note(request, "Cancel", _told(result), record_id)
    return result


def _existing(record_id: int) -> BacklogRecord:
    """Raises: ApiError (404)."""
    found = BacklogRecord.objects.filter(pk=record_id).first()
    if found is None:
        raise ApiError(404, "there is no such record", "GET /api/records lists some")
    return found


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
    after = chosen.filter(pk__gt=body.after).order_by("pk")
    return list(after.values_list("pk", flat=True)[: MOST_AT_ONCE + 1])


def _told(result: dict[str, Any]) -> str:
    return ", ".join(f"{len(found):,} {name}" for name, found in result.items() if found) or "there was nothing"
