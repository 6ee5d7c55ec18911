"""What is sent and answered. A choice of records refuses keys that it does not know: a key that is misspelt and left
unread would choose more records than were meant."""

from datetime import datetime
from typing import Annotated, Any, Literal

from ninja import Field, Schema
from pydantic import AfterValidator, ConfigDict, StringConstraints, model_validator

from jobs.backlog.arguments import LARGEST_ID

LARGEST_PAGE = 500
MOST_IDS = 1000
USUAL_PAGE = 50


class Error(Schema):
    """What is wrong, and what to do."""

    error: str
    hint: str


def printable(text: str) -> str:
    """Raises: ValueError for what no name holds: control characters, halves of surrogate pairs."""
    if not text.isprintable():
        raise ValueError("must hold printable characters only")
    return text


Name = Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(printable)]
RecordId = Annotated[int, Field(strict=True, ge=1, le=LARGEST_ID)]
StatusName = Literal["waiting", "ready", "running", "succeeded", "failed", "cancelled"]
GroupId = Annotated[str, StringConstraints(pattern="^[0-9a-f]{12}$")]


class RecordsQuery(Schema):
    """Which records, and from which id downwards. `error`: a part of the last error, in any case."""

    status: StatusName | None = None
    kind: Name | None = None
    queue: Name | None = None
    subject: Name | None = None
    error: Name | None = None
    cursor: int | None = Field(None, ge=1, le=LARGEST_ID, description="`next` of the answer before")
    limit: int = Field(USUAL_PAGE, ge=1, le=LARGEST_PAGE)


class DeadLettersQuery(Schema):
    """Of which kind and queue."""

    kind: Name | None = None
    queue: Name | None = None


class RetryRequest(Schema):
    """Which records: their `ids`, or what they are like. Without a `status`: what failed. `group`: of a dead letter.

    `after`: `next` of the answer before, when there were more than are retried at once. `dry_run`: only count them.
    """

    model_config = ConfigDict(extra="forbid")

    ids: list[RecordId] | None = Field(None, min_length=1, max_length=MOST_IDS)
    status: StatusName | None = None
    kind: Name | None = None
    queue: Name | None = None
    error: Name | None = None
    group: GroupId | None = None
    after: Annotated[int, Field(strict=True, ge=0, le=LARGEST_ID)] = 0
    dry_run: Annotated[bool, Field(strict=True)] = False

    @model_validator(mode="after")
    def _one_choice(self) -> "RetryRequest":
        alike = any((self.status, self.kind, self.queue, self.error, self.group))
        if bool(self.ids) == alike:
            raise ValueError("name the records either by `ids`, or by `status`, `kind`, `queue`, `error` or `group`")
        if self.group and (self.error or self.status not in (None, "failed")):
            raise ValueError("`group` is one of failed records that say the same: leave out `status` and `error`")
        return self


class RecordsAnswer(Schema):
    """Records by name of their facts, the latest first. `next`: the cursor of the next page; null: that is all."""

    records: list[dict[str, Any]]
    next: int | None


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


class DeadLetterAnswer(Schema):
    """Failed records that say the same. `says`: with numbers, ids, addresses and paths folded."""

    group: str
    says: str
    count: int
    kinds: list[str]
    queues: list[str]
    first_at: datetime
    last_at: datetime
    example_id: int
    example: str


class DeadLettersAnswer(Schema):
    """The largest group first. `read`: how many of the newest failed records were looked at; `more`: there are older
    ones."""

    groups: list[DeadLetterAnswer]
    read: int
    more: bool


class RetryPolicyAnswer(Schema):
    """A retry policy. All durations are in seconds; `first_delays` is empty where sweeps take the records."""

    name: str
    algorithm: str
    parameters: Any
    max_delay: int
    max_failures: int | None
    give_up_after: int | None
    first_delays: list[float]


class BreakerAnswer(Schema):
    """A circuit breaker. `on trial`: open, with one record let through. `waiting`: how many records wait for it.

    `trials`: in vain since it opened.
    """

    key: str
    title: str
    state: Literal["closed", "open", "on trial"]
    failures: int
    last_failure_at: datetime | None
    last_error: str
    opened_at: datetime | None
    probe_at: datetime | None
    trials: int
    waiting: int
