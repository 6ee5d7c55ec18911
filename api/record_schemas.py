"""Requests and answers about records, dead letters among them. A choice of records refuses unknown keys: ignoring a
misspelt key would choose more records than were meant.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

from ninja import Field, Schema
from pydantic import StringConstraints, model_validator

from api.fields import Body, Instant, Name, RowAnswer, RowId
from jobs.backlog import CancelResult, RetryResult
from jobs.models import Attempt, BacklogRecord
from operations.backlog.arguments import LARGEST_ID
from operations.backlog.dead_letters import DeadLetter
from operations.backlog.reason import Code

MOST_IDS = 1000

StatusName = Literal["waiting", "ready", "running", "succeeded", "failed", "cancelled"]
GroupId = Annotated[str, StringConstraints(pattern="^[0-9a-f]{12}$")]

A_PART_OF_AN_ERROR = (
    "A part of the last error, in any case; looked for among the latest 100,000 records and all that have not succeeded"
)


class RecordChoice(Schema):
    """A choice of records; every given field must match."""

    status: StatusName | Literal["unfinished"] | None = Field(
        None, description="`unfinished`: waiting, ready or running"
    )
    kind: Name | None = None
    queue: Name | None = None
    subject: Name | None = Field(None, description="The id of an event, as its receiver knows it")
    error: Name | None = Field(None, description=A_PART_OF_AN_ERROR)
    group: GroupId | None = Field(None, description="Failed with the same error: a group of `GET /api/dead-letters`")
    events: bool | None = Field(None, description="True if it is delivered to an endpoint")
    schedule: RowId | None = Field(None, description="Emitted by the schedule with this id")
    trigger_at: Instant | None = Field(
        None,
        description="Records of the batch with this launch time. Send `schedule`, too: without it every record is read",
    )
    endpoint: RowId | None = Field(None, description="Goes to the endpoint with this id")
    answer: Literal["2xx", "3xx", "4xx", "5xx", "none"] | None = Field(
        None, description="The answer to the last attempt. `none` if it was tried and nothing answered"
    )


class AttemptAnswer(RowAnswer, of=Attempt, names="record number queue worker_id started_at ended_at error"):
    """One run of a record. `facts`: findings of its handler, such as the status of an answer; null if there are none.
    With `silences` it stands for that many runs that found the source absent, the first from `started_at`, the last to
    `ended_at`.
    """

    outcome: Literal["succeeded", "failed", "unavailable", "handoff", "cancelled", "released", "rescued"]
    facts: dict[str, object] | None = None


class DeliveryAnswer(Schema):
    """The further fields of an event."""

    schedule: str | None = Field(
        description="The name of its schedule when it was emitted; null if it was enqueued by hand"
    )
    launch_at: datetime | None = Field(description="When it was due to start; null if that is no longer known")
    lag: float | None = Field(description="Seconds from `launch_at` to the start of its last attempt")
    code: int | None = Field(description="The HTTP status that answered the last attempt; null if nothing did")
    seconds: float | None = Field(description="The duration of the last attempt")
    endpoint: int | None = Field(description="The endpoint that it goes to; null if its payload has the URL")
    endpoint_name: str | None = Field(description="The name of that endpoint; null: none, or it was deleted")


class RecordAnswer(
    RowAnswer,
    of=BacklogRecord,
    names="id kind queue subject exclusive_key inserted_at run_after closes_at finished_at priority due_day rank_day "
    "tried_at expected_seconds failures first_failure_at last_failure_at last_error attempt started_at leased_by_id "
    "lease_expires_at cancel_requested_at trigger_at retry_policy_id lane breaker_id",
):
    """A backlog record: its columns, without the token of its lease. `delivery`: the delivery of an event; null for
    other records. A `url` in the payload of an event is shortened to its scheme, host and port."""

    payload: Any
    status: StatusName
    waiting_for: str | None
    schedule_id: int | None
    delivery: DeliveryAnswer | None


class ReasonAnswer(Schema):
    """A reason why something does not run now. `until`: when it ends by time alone; null: not known."""

    code: Code
    text: str
    until: datetime | None
    facts: dict[str, Any] = Field(description="Its numbers and names")


class ExplanationAnswer(Schema):
    """Each reason why a record does not run at an instant, in the order in which they would have to end."""

    at: datetime
    runnable: bool = Field(description="True if a claim at that instant could take it")
    reasons: list[ReasonAnswer]


class RecordDetail(RecordAnswer):
    """A record with its latest attempts, the newest first, and the reasons why it does not run now: sentences in
    `why`."""

    attempts: list[AttemptAnswer]
    why: list[str]
    explanation: ExplanationAnswer


class RetryRequest(RecordChoice, Body):
    """The records to retry: their `ids`, or fields that they match. Without a `status`, failed records.

    `after`: `next` of the previous answer, if there were more than are retried at once. `dry_run`: only count them.
    """

    ids: list[RowId] | None = Field(None, min_length=1, max_length=MOST_IDS)
    after: Annotated[int, Field(ge=0, le=LARGEST_ID)] = 0
    dry_run: bool = False

    @model_validator(mode="after")
    def _one_choice(self) -> "RetryRequest":
        if bool(self.ids) == bool(self.asked()):
            raise ValueError("name the records either by `ids`, or by a filter such as `status` or `error`")
        return self

    def asked(self) -> dict[str, Any]:
        """The fields that they must match."""
        return {name: value for name in RecordChoice.model_fields if (value := getattr(self, name)) is not None}


@dataclass(frozen=True)
class RetryAnswer(RetryResult):
    """Record ids by result, ascending. `superseded`: id → that of the record that continues instead.

    `next`: send it as `after` for more.
    """

    next: int | None = None


class WouldRetryAnswer(Schema):
    """The number of records of each status that would be retried at once, and whether there are more."""

    would_retry: dict[str, int]
    next: int | None = None


class CancelAnswer(RowAnswer, of=CancelResult, names="cancelled stopping finished"):
    """Record ids by result: off the backlog now, asked to stop, ended before."""


class DeadLettersQuery(Schema):
    """The kind and queue of the records."""

    kind: Name | None = None
    queue: Name | None = None


class DeadLetterAnswer(RowAnswer, of=DeadLetter, names="group says first_at last_at example_id example"):
    """Failed records with the same error. `says`: that error, with numbers, ids, addresses and paths folded."""

    count: int
    kinds: list[str]
    queues: list[str]


class DeadLettersAnswer(Schema):
    """The largest group first. `read`: how many of the newest failed records were looked at; `more`: there are older
    ones."""

    groups: list[DeadLetterAnswer]
    read: int
    more: bool
