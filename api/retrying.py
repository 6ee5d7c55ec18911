"""Retry and cancel records, and events, which are records: one or many, with a line in the history."""

from dataclasses import asdict
from typing import Any

from django.db.models import Count, QuerySet
from django.http import HttpRequest

from jobs import backlog
from jobs.backlog.rows import BATCH
from jobs.states import Status
from operations.backlog.selection import locked_batches
from operations.web import audit

MOST_AT_ONCE = 10_000
"""Records that one request retries: some seconds. The answer says where to go on."""


def first_ids(chosen: QuerySet[Any], after: int) -> list[int]:
    """Ids from `after` on, ascending; one more than are retried at once when there are so many."""
    following = chosen.filter(pk__gt=after).order_by("pk")
    return list(following.values_list("pk", flat=True)[: MOST_AT_ONCE + 1])


def retry_many(
    request: HttpRequest, chosen: QuerySet[Any], ids: list[int], *, named: bool, dry_run: bool
) -> dict[str, Any]:
    """Retry those of `ids`, ascending, that are among `chosen` still. Returns what became of each: a `RetryAnswer`, or
    with `dry_run` a `WouldRetryAnswer`. `named`: by their ids, so that it is told which of them there are not."""
    following = ids[MOST_AT_ONCE - 1] if len(ids) > MOST_AT_ONCE else None
    ids = ids[:MOST_AT_ONCE]
    if dry_run:
        counts = chosen.filter(pk__in=ids).order_by().values_list("status").annotate(Count("pk"))
        return {"would_retry": {Status(status).label: count for status, count in counts}, "next": following}
    missing = set(ids) if named else set()
    result: dict[str, Any] = asdict(backlog.retry([]))
    for batch in locked_batches(chosen, BATCH, ids):
        missing -= set(batch)
        for name, part in asdict(backlog.retry(batch)).items():
            result[name] = result[name] | part if isinstance(part, dict) else result[name] + part
    result["missing"] = sorted(missing)
    audit.note(request, "Retry now", _describe(result))
    return result | {"next": following}


def retry_row(request: HttpRequest, record_id: int) -> dict[str, Any]:
    """Retry one. Returns a `RetryAnswer`."""
    result = asdict(backlog.retry([record_id]))
    audit.note(request, "Retry now", _describe(result), record_id)
    return result


def cancel_row(request: HttpRequest, record_id: int) -> dict[str, Any]:
    """Cancel one. Returns a `CancelAnswer`."""
    result = asdict(backlog.cancel([record_id]))
    audit.note(request, "Cancel", _describe(result), record_id)
    return result


def _describe(result: dict[str, Any]) -> str:
    return ", ".join(f"{len(found):,} {name}" for name, found in result.items() if found) or "there was nothing"
