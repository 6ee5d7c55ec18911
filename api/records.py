"""Records of the backlog, events and dead letters among them: look at them, retry and cancel them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from django.db.models import Count, QuerySet
from django.http import HttpRequest
from ninja import Query

from api.auth import looking, operating
from api.errors import not_valid
from api.fields import Instant
from api.large_tables import LargeTable
from api.pages import WHOLE, Walk, patiently
from api.record_schemas import (
    CancelAnswer,
    DeadLettersAnswer,
    DeadLettersQuery,
    RecordAnswer,
    RecordChoice,
    RecordDetail,
    RetryAnswer,
    RetryRequest,
    WouldRetryAnswer,
)
from declarations.surfaces.web import audit
from jobs import backlog
from jobs.backlog.rows import BATCH
from jobs.clock import database_clock
from jobs.models import Attempt, BacklogRecord
from jobs.states import FINISHED, Status
from operations.backlog.dead_letters import dead_letters, facts_of
from operations.backlog.facts import attempt_facts, record_facts
from operations.backlog.known_names import NOT_FOUND, check_names
from operations.backlog.reason import texts
from operations.backlog.reasons import explain
from operations.backlog.selection import STATUSES, filtered, locked_batches, with_answers
from operations.backlog.verbs import Verb, carried_out, describe
from operations.backlog.walking import is_large, is_of_few

TOO_MANY = (
    "there are too many records to sort by launch time; name a schedule, a status other than `succeeded`, an answer "
    "other than `2xx`, an error, a group, the id of an event or a later `ended_since`"
)
SHOWN_ATTEMPTS = 1000
"""All that are kept of a record that is tried for ever."""
MOST_AT_ONCE = 10_000
"""Records that one request retries: some seconds. The answer has the place to continue from."""


class Records(LargeTable[BacklogRecord]):
    """Records, read-only, since machines write them."""

    model, called, tag, answer, detail = BacklogRecord, "record", "backlog", RecordAnswer, RecordDetail
    choice = RecordChoice
    filters = {"ended_since": (Instant, "Succeeded, failed or cancelled then or later")}
    orderings, usual_ordering = ("id", "finished_at", "trigger_at"), "-id"
    with_value = ("finished_at", "trigger_at")
    by_end, since, too_many = "finished_at", "ended_since", TOO_MANY
    ask_for_less = (
        "ask for less: name a status, a schedule, a kind or a queue, and leave out `error`; order finished "
        "records by `-finished_at`"
    )

    def rows(self) -> QuerySet[Any]:
        """All records, with the answers to their last attempts."""
        return with_answers(BacklogRecord.objects.all())

    def filtered(self, rows: QuerySet[Any], asked: Mapping[str, Any]) -> QuerySet[Any]:
        """The rows by their fields, origin and outcome. In a large table any kind or queue may be known."""
        _check_known(asked.get("kind"), asked.get("queue"), of_large=False)
        return filtered(rows, asked)

    def is_of_few(self, asked: Mapping[str, Any], field: str) -> bool:
        return is_of_few(asked, field)

    def bounded(self, rows: QuerySet[Any], asked: Mapping[str, Any], ordering: str) -> tuple[QuerySet[Any], Walk]:
        """None by the end of records that have not ended."""
        statuses = STATUSES.get(asked.get("status", ""), FINISHED)
        if ordering.lstrip("-") == "finished_at" and not {*statuses} & {*FINISHED}:
            return rows.none(), WHOLE
        return super().bounded(rows, asked, ordering)

    def facts(self, rows: Sequence[BacklogRecord]) -> list[dict[str, Any]]:
        """The columns, without the lease token; for events the results of their deliveries."""
        return record_facts(rows)

    def detailed(self, row: BacklogRecord) -> dict[str, Any]:
        """Its latest attempts, and why it does not run."""
        attempts = Attempt.objects.filter(record_id=row.pk).order_by("-number")[:SHOWN_ATTEMPTS]
        found = explain(row, database_clock())
        why = {"why": texts(found.reasons), "explanation": found.as_facts}
        return {"attempts": list(map(attempt_facts, attempts)), **why}


resource = Records()
router = resource.router


@router.post(
    "/records/retry", auth=operating(), response=RetryAnswer | WouldRetryAnswer, operation_id="retry_records",
    summary="Retry records now",
)  # fmt: skip
def retry(request: HttpRequest, body: RetryRequest) -> dict[str, Any]:
    """Make waiting records ready at once, whatever they wait for. Failed and cancelled ones start again; an event keeps
    its id.
    """
    rows: QuerySet[Any] = BacklogRecord.objects.all()
    with patiently(resource.ask_for_less):
        if not body.ids:
            _check_known(body.kind, body.queue)
            rows = filtered(rows, {"status": "failed"} | body.asked())
        ids = _following(rows, body)
    following = ids[MOST_AT_ONCE - 1] if len(ids) > MOST_AT_ONCE else None
    ids = ids[:MOST_AT_ONCE]
    if body.dry_run:
        counts = rows.filter(pk__in=ids).order_by().values_list("status").annotate(Count("pk"))
        return {"would_retry": {Status(status).label: count for status, count in counts}, "next": following}
    result = carried_out(backlog.retry, locked_batches(rows, BATCH, ids))
    if body.ids:
        result["missing"] = sorted(set(ids).difference(*result.values()))
    audit.note("Retry now", describe(result) or "there was nothing")
    return result | {"next": following}


@resource.verb("retry", operating(), "Retry one record now", answer=RetryAnswer)
def retry_one(request: HttpRequest, record: BacklogRecord) -> dict[str, Any]:
    """The same for one record."""
    return _one(request, "Retry now", backlog.retry, record)


@resource.verb("cancel", operating(), "Take one record off the backlog", answer=CancelAnswer)
def cancel_one(request: HttpRequest, record: BacklogRecord) -> dict[str, Any]:
    """A running record is asked to stop, and ends as cancelled unless it succeeds first."""
    return _one(request, "Cancel", backlog.cancel, record)


def _one(request: HttpRequest, name: str, verb: Verb, record: BacklogRecord) -> dict[str, Any]:
    result = asdict(verb([record.pk]))
    audit.note(name, describe(result), record.pk)
    return result


@router.get(
    "/dead-letters", auth=looking(), response=DeadLettersAnswer, operation_id="list_dead_letters",
    summary="Failed records, grouped by their error",
)  # fmt: skip
def list_dead_letters(request: HttpRequest, query: Query[DeadLettersQuery]) -> dict[str, Any]:
    """The answer of `manage.py backlog errors --json`. `POST /api/records/retry` takes a `group`."""
    with patiently():
        _check_known(query.kind, query.queue)
        return facts_of(dead_letters(query.kind, query.queue))


def _following(rows: QuerySet[Any], body: RetryRequest) -> list[int]:
    """Ids to retry, ascending, from `after` on; one more than are retried at once when there are so many."""
    if body.ids:
        return sorted({each for each in body.ids if each > body.after})
    following = rows.filter(pk__gt=body.after).order_by("pk")
    return list(following.values_list("pk", flat=True)[: MOST_AT_ONCE + 1])


def _check_known(kind: str | None, queue: str | None, *, of_large: bool = True) -> None:
    """Raises: ApiError (422) for a kind or queue that is not known; `of_large`: as for `check_names`."""
    for name, asked in (("kind", (kind, None)), ("queue", (None, queue))):
        try:
            check_names(*asked, of_large=of_large)
        except ValueError as error:
            problem = NOT_FOUND if is_large() else "is not known"
            raise not_valid([(name, problem)], "GET /api/records names those of each record") from error
