"""What is sent and answered about events: records of the kinds that deliver, as their receivers know them."""

from datetime import datetime
from typing import Annotated, Any, Literal

from ninja import Field, Schema
from pydantic import BeforeValidator, model_validator

from api.fields import Body, Instant, Name, RowId
from api.record_schemas import MOST_IDS, StatusName
from delivery.declarations import KindOfEndpoint
from operations.backlog.arguments import LARGEST_ID

StateName = Literal["unfinished", "delivered", "failed", "cancelled"]
AnswerName = Literal["2xx", "3xx", "4xx", "5xx", "none"]

OF_STATE = "Where they are on their way. `unfinished`: to be delivered"
OF_ANSWER = "What the last attempt was answered. `none`: it was tried, and nobody answered"
OF_SCHEDULE = "Emitted by the schedule with this id"
OF_TRIGGER = "Of the batch with this launch time. Send `schedule`, too: without it every event is looked at"
OF_ENDPOINT = "That go to the endpoint with this id"


def _text(value: Any) -> Any:
    """A payload that a program has enqueued may hold anything under the names that emission uses."""
    return value if value is None or isinstance(value, str) else str(value)


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


Told = Annotated[str, BeforeValidator(_text)]
Whole = Annotated[int | None, BeforeValidator(_whole)]
Seconds = Annotated[float | None, BeforeValidator(_number)]


class EventFilters(Schema):
    """Which events; all that is sent has to hold."""

    state: StateName | None = Field(None, description=OF_STATE)
    answer: AnswerName | None = Field(None, description=OF_ANSWER)
    kind: KindOfEndpoint | None = Field(None, description="How they are delivered")
    schedule: RowId | None = Field(None, description=OF_SCHEDULE)
    trigger_at: Instant | None = Field(None, description=OF_TRIGGER)
    endpoint: RowId | None = Field(None, description=OF_ENDPOINT)
    event_id: Name | None = Field(None, description="The one with this id, as its receiver was told it")
    ended_since: Instant | None = Field(None, description="Delivered, failed or cancelled then or later")


class EventAnswer(Schema):
    """An event: a record that is delivered, with what its receiver answered last."""

    id: int = Field(description="Of its record: what its path ends with")
    event_id: Told = Field(description="What its receiver is told: the same for each attempt, so that it counts once")
    kind: KindOfEndpoint = Field(description="How it is delivered")
    state: StateName = Field(description=OF_STATE.replace("they are on their", "it is on its"))
    status: StatusName = Field(description="Of its record")
    waiting_for: str | None = Field(description="Why it waits; null: it does not")
    schedule: Told | None = Field(description="The name of its schedule as it was emitted; null: by hand")
    schedule_id: int | None = Field(description="Its schedule; null: by hand, or the schedule was deleted")
    trigger_at: datetime | None = Field(description="The launch time of its batch; null: by hand")
    launch_at: datetime | None = Field(description="When it was to start; null: nobody can tell any more")
    run_after: datetime = Field(description="Not before then is it tried; of one that has ended: was it tried")
    delivered_at: datetime | None = Field(description="When it was; null: it was not")
    finished_at: datetime | None = Field(description="When it was delivered, failed or was cancelled")
    lag: float | None = Field(description="Seconds from `launch_at` to the start of its last attempt")
    code: Whole = Field(description="What the last attempt was answered: the status of HTTP; null: nothing")
    seconds: Seconds = Field(description="How long the last attempt took")
    attempt: int = Field(description="The number of its last attempt; 0: not tried yet. What was released counts, too")
    failures: int = Field(description="In a row")
    error: str = Field(description="What the last failure says; empty: there was none, or it was delivered")
    endpoint: Whole = Field(description="The endpoint that it goes to; null: its payload has a URL of its own")
    endpoint_name: str | None = Field(description="The name of that endpoint; null: none, or it was deleted")
    url: str | None = Field(description="Of a payload with a URL of its own: scheme, host and port, never the path")


class EventAttempt(Schema):
    """One attempt at an event: what happened, and what the receiver answered."""

    number: int = Field(description="From 1 on; there may be gaps")
    started_at: datetime = Field(description="When it was claimed")
    ended_at: datetime = Field(description="When its outcome was known")
    outcome: Literal["succeeded", "failed", "unavailable", "handoff", "cancelled", "released", "rescued"] = Field(
        description="How it ended. Only `succeeded` is a delivery"
    )
    code: Whole = Field(description="The status of the answer; null: nothing was answered")
    seconds: Seconds = Field(description="From the beginning of the delivery to its answer, or to its failure")
    worker_id: int | None = Field(description="Who made it; null: that worker is forgotten")
    error: str = Field(description="Why it failed; empty: it did not")
    facts: dict[str, object] | None = Field(None, description="All that was found, as the message id of a queue")


class EventDetail(EventAnswer):
    """An event with each attempt, why it is not delivered now, and what is delivered."""

    attempts: list[EventAttempt] = Field(description="Its attempts, the first one first")
    why: list[str] = Field(description="Each reason for which it is not delivered now; empty: there is none")
    payload: Any = Field(
        description="What it was emitted with; `body` is what is delivered. Of a `url` only the origin"
    )


class EventRetryRequest(Body):
    """Which events: their `ids`, or what they are like. Without a `state`: what failed."""

    ids: list[RowId] | None = Field(None, min_length=1, max_length=MOST_IDS, description="Of their records")
    state: Literal["unfinished", "failed", "cancelled"] | None = Field(None, description=OF_STATE)
    answer: AnswerName | None = Field(None, description=OF_ANSWER)
    kind: KindOfEndpoint | None = Field(None, description="How they are delivered")
    schedule: RowId | None = Field(None, description=OF_SCHEDULE)
    trigger_at: Instant | None = Field(None, description=OF_TRIGGER)
    endpoint: RowId | None = Field(None, description=OF_ENDPOINT)
    after: Annotated[int, Field(ge=0, le=LARGEST_ID)] = Field(
        0, description="`next` of the answer before, when there were more than are retried at once"
    )
    dry_run: bool = Field(False, description="Only count them")

    @model_validator(mode="after")
    def _one_choice(self) -> "EventRetryRequest":
        if bool(self.ids) == bool(self.filters()):
            raise ValueError(
                "name the events either by `ids`, or by `state`, `answer`, `kind`, `schedule`, `trigger_at` or "
                "`endpoint`"
            )
        return self

    def filters(self) -> dict[str, Any]:
        """What they have to be like: the filters that were sent."""
        names = EventFilters.model_fields.keys() & EventRetryRequest.model_fields.keys()
        return {name: value for name in sorted(names) if (value := getattr(self, name)) is not None}
