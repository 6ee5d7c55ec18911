"""Events: what was delivered, when and with which answer, and what is still to be delivered.

An event is a record of a kind that delivers. It is retried and cancelled as records are.
"""

from collections.abc import Sequence
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest

from api.auth import Staff, looking, operating
from api.choosing import patiently
from api.event_schemas import EventAnswer, EventDetail, EventFilters, EventRetryRequest
from api.record_schemas import CancelAnswer, RetryAnswer, WouldRetryAnswer
from api.resources import Resource
from api.retrying import cancel_row, first_ids, retry_many, retry_row
from delivery.models import Event
from jobs.clock import database_clock
from operations.backlog.reasons import reasons
from operations.event_list import (
    Answer,
    State,
    answered,
    attempt_facts,
    attempts_of,
    endpoint_names,
    facts_of,
    in_state,
    launch_instants,
    shown_payload,
    with_answers,
    with_event_id,
)


class Events(Resource[Event]):
    """Events, read-only: emitters and workers write them."""

    model, name, plural, tag = Event, "event", "events", "delivery"
    answer, detail, filters = EventAnswer, EventDetail, EventFilters
    orderings, usual_ordering = ("id", "finished_at", "trigger_at"), "-id"
    with_value = ("finished_at", "trigger_at")
    parameter = "record_id"  # not event_id: that is what its receiver is told
    ask_for_less = "ask for less: name a state or a schedule, and order what has ended by `-finished_at`"

    def permits(self, verb: str) -> Staff:
        """As records, which they are."""
        return looking()

    def rows(self) -> QuerySet[Any]:
        """With what their last attempts were answered."""
        return with_answers(Event.objects.all())

    def filtered(self, rows: QuerySet[Any], asked: dict[str, Any]) -> QuerySet[Any]:
        """By state, answer, where they came from, where they go to, and when they ended."""
        if "state" in asked:
            rows = in_state(rows, State(asked["state"]))
        if "answer" in asked:
            rows = answered(rows, Answer(asked["answer"]))
        if "schedule" in asked:  # the index that serves it holds only what a trigger emitted
            rows = rows.filter(origin_id=asked["schedule"], trigger_at__isnull=False)
        if "ended_since" in asked:
            rows = rows.filter(finished_at__gte=asked["ended_since"])
        columns = {"kind": "kind", "trigger_at": "trigger_at", "endpoint": "payload__endpoint"}
        rows = rows.filter(**{column: asked[name] for name, column in columns.items() if name in asked})
        return with_event_id(rows, asked["event_id"]) if "event_id" in asked else rows

    def facts(self, rows: Sequence[Event]) -> list[dict[str, Any]]:
        """With when they were to start and what their endpoints are called: a query each for all of them."""
        launches, names = launch_instants(rows), endpoint_names(rows)
        return [facts_of(row, launches[row.pk], names) | {"attempt": row.attempt} for row in rows]

    def detailed(self, row: Event) -> dict[str, Any]:
        """Its attempts, why it is not delivered now, and what is delivered."""
        return {
            "attempts": [attempt_facts(each) for each in attempts_of(row)],
            "why": reasons(row, database_clock()),
            "payload": shown_payload(row),
        }


resource = Events()
router = resource.router()


@router.post(
    "/events/retry",
    auth=operating(),
    response=RetryAnswer | WouldRetryAnswer,
    operation_id="retry_events",
    summary="Retry events now",
)
def retry(request: HttpRequest, body: EventRetryRequest) -> dict[str, Any]:
    """What waits is ready at once, whatever for. What failed or was cancelled starts afresh, with the same event id.
    What was delivered is not delivered again. Ids of records that are no events are `missing`."""
    asked = body.filters()
    with patiently(resource.ask_for_less):
        if body.ids:
            chosen: QuerySet[Any] = Event.objects.all()
            ids = sorted({each for each in body.ids if each > body.after})
        else:
            chosen = resource.filtered(resource.rows(), {"state": State.FAILED} | asked)
            ids = first_ids(chosen, body.after)
    return retry_many(request, chosen, ids, named=bool(body.ids), dry_run=body.dry_run)


@router.post(
    "/events/{int:record_id}/retry",
    auth=operating(),
    response=RetryAnswer,
    operation_id="retry_event",
    summary="Retry one event now",
)
def retry_one(request: HttpRequest, record_id: int) -> dict[str, Any]:
    """As for many."""
    return retry_row(request, resource.get(record_id).pk)


@router.post(
    "/events/{int:record_id}/cancel",
    auth=operating(),
    response=CancelAnswer,
    operation_id="cancel_event",
    summary="Take one event off the backlog",
)
def cancel_one(request: HttpRequest, record_id: int) -> dict[str, Any]:
    """What is being delivered is told to stop, and ends as cancelled unless it succeeds first."""
    return cancel_row(request, resource.get(record_id).pk)
