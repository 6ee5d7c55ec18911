"""What is sent and answered about records. A choice of records refuses keys that it does not know: a key that is
misspelt and left unread would choose more records than were meant."""

from datetime import date, datetime
from typing import Annotated, Any, Literal

from ninja import Field, Schema
from pydantic import StringConstraints, model_validator

from api.fields import Body, Instant, Name, RowId
from api.schemas import AttemptAnswer
from operations.backlog.arguments import LARGEST_ID

MOST_IDS = 1000

StatusName = Literal["waiting", "ready", "running", "succeeded", "failed", "cancelled"]
GroupId = Annotated[str, StringConstraints(pattern="^[0-9a-f]{12}$")]


class RecordFilters(Schema):
    """What they are like. `error`: a part of the last error, in any case. `schedule`: the id of what emitted them."""

    status: StatusName | None = None
    kind: Name | None = None
    queue: Name | None = None
    subject: Name | None = None
    error: Name | None = None
    schedule: RowId | None = None
    trigger_at: Instant | None = None


class RecordAnswer(Schema):
    """A backlog record: its columns, without the token of its lease."""

    id: int
    kind: str
    queue: str
    subject: str
    exclusive_key: str | None
    payload: Any
    status: StatusName
    waiting_for: str | None
    inserted_at: datetime
    run_after: datetime
    closes_at: datetime | None
    finished_at: datetime | None
    priority: int
    due_day: date | None
    rank_day: date | None
    tried_at: datetime | None
    expected_seconds: float | None
    failures: int
    first_failure_at: datetime | None
    last_failure_at: datetime | None
    last_error: str
    attempt: int
    started_at: datetime | None
    leased_by_id: int | None
    lease_expires_at: datetime | None
    cancel_requested_at: datetime | None
    schedule_id: int | None
    trigger_at: datetime | None
    retry_policy_id: int | None
    lane: int
    breaker_id: int | None


class RecordDetail(RecordAnswer):
    """With its latest attempts, the newest first, and `why`: each reason for which it does not run now."""

    attempts: list[AttemptAnswer]
    why: list[str]


class RetryRequest(Body):
    """Which records: their `ids`, or what they are like. Without a `status`: what failed. `group`: of a dead letter.

    `after`: `next` of the answer before, when there were more than are retried at once. `dry_run`: only count them.
    """

    ids: list[RowId] | None = Field(None, min_length=1, max_length=MOST_IDS)
    status: StatusName | None = None
    kind: Name | None = None
    queue: Name | None = None
    error: Name | None = None
    group: GroupId | None = None
    after: Annotated[int, Field(ge=0, le=LARGEST_ID)] = 0
    dry_run: bool = False

    @model_validator(mode="after")
    def _one_choice(self) -> "RetryRequest":
        alike = any((self.status, self.kind, self.queue, self.error, self.group))
        if bool(self.ids) == alike:
            raise ValueError("name the records either by `ids`, or by `status`, `kind`, `queue`, `error` or `group`")
        if self.group and (self.error or self.status not in (None, "failed")):
            raise ValueError("`group` is one of failed records that say the same: leave out `status` and `error`")
        return self


class RetryAnswer(Schema):
    """Record ids by what was found, ascending. `superseded`: id → that of the record that goes on instead.

    `next`: there are more; send it as `after`.
    """

    ready: list[int]
    running: list[int]
    succeeded: list[int]
    superseded: dict[int, int]
    missing: list[int]
    next: int | None = None


class WouldRetryAnswer(Schema):
    """How many records of each status would be retried at once, and whether there are more."""

    would_retry: dict[str, int]
    next: int | None = None


class CancelAnswer(Schema):
    """Record ids by what was found: off the backlog now, told to stop, ended before."""

    cancelled: list[int]
    stopping: list[int]
    finished: list[int]
