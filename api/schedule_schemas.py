"""What is sent and answered about schedules and their triggers."""

from datetime import datetime
from typing import Annotated, Any, Literal

from ninja import Field, Schema
from pydantic import AfterValidator, AliasChoices, AliasGenerator, ConfigDict, StringConstraints

from api.fields import DURATION, Body, Instant, Json, Name, RowId, Title, printable
from jobs.priorities import MAX_PRIORITY
from schedules.models.schedule import LARGEST_BATCH, LONGEST_CATCH_UP, LONGEST_WINDOW

CronText = Annotated[str, StringConstraints(min_length=1, max_length=100), AfterValidator(printable)]
CronPart = Annotated[str, StringConstraints(max_length=50), AfterValidator(printable)] | Annotated[int, Field(ge=0)]
Zone = Annotated[str, StringConstraints(min_length=1, max_length=64), AfterValidator(printable)]
KindName = Annotated[str, StringConstraints(min_length=1, max_length=50), AfterValidator(printable)]
TriggerState = Literal["queued", "under way", "finished", "skipped"]

MOST_PREVIEWED = 100


def published(name: str) -> str:
    """The name of a field of a schedule as the batch scheduler publishes it: `DayOfMonth`."""
    return "".join(word.capitalize() for word in name.split("_"))


def _with_published_names(schema: dict[str, Any]) -> None:
    schema["properties"] |= {published(name): field for name, field in schema["properties"].items()}


class CronFields(Body):
    """When, by fields. What is left out is any. A minute that is left out beside hours is on the hour. Each is also
    taken by its published name: `Minute`, `Hour`, `DayOfMonth`, `Month`, `DayOfWeek`."""

    model_config = ConfigDict(
        alias_generator=AliasGenerator(validation_alias=lambda name: AliasChoices(name, published(name))),
        json_schema_extra=_with_published_names,
    )

    minute: CronPart | None = None
    hour: CronPart | None = None
    day_of_month: CronPart | None = None
    month: CronPart | None = None
    day_of_week: CronPart | None = None


class ScheduleBody(Body):
    """`cron`: five fields as one text, or as an object. `zone`: IANA. Durations are seconds, or as `15m`.

    `catch_up_for` null: after downtime only the last missed trigger is made up for. In the texts of `payload_template`
    $schedule, $trigger_at, $event_id, $number, $count, $run_after and $zone are replaced.
    """

    name: Title
    cron: CronText | CronFields
    zone: Zone = "UTC"
    kind: KindName = "http_callback"
    event_count: Annotated[int, Field(ge=1, le=LARGEST_BATCH)] = 1
    endpoint: RowId | None = None
    payload_template: Json = Field(default_factory=dict)
    window_for: Annotated[int, Field(ge=0, le=LONGEST_WINDOW), DURATION] = 0
    stagger: Literal["none", "even"] = "none"
    late: Literal["deliver", "drop"] = "deliver"
    overlap: Literal["allow", "queue", "skip"] = "allow"
    catch_up_for: Annotated[int, Field(ge=0, le=LONGEST_CATCH_UP), DURATION] | None = None
    enabled: bool = True
    priority: Annotated[int, Field(ge=-MAX_PRIORITY, le=MAX_PRIORITY)] = 0
    throttle: RowId | None = None
    retry_policy: RowId | None = None


class ScheduleAnswer(Schema):
    """`provider` empty: its batch is `event_count` events. Else the batch comes from what is named, as `assignments`.

    `next_trigger_at` null: paused, or not seen by an emitter yet. It and the names of what it refers to are no part of
    the ETag.
    """

    id: int
    name: str
    cron: str
    zone: str
    kind: str
    provider: str
    event_count: int | None
    endpoint: int | None
    endpoint_name: str | None = Field(description="Of `endpoint`; null: it has none")
    payload_template: Any
    window_for: int
    stagger: Literal["none", "even"]
    late: Literal["deliver", "drop"]
    overlap: Literal["allow", "queue", "skip"]
    catch_up_for: int | None
    enabled: bool
    priority: int
    throttle: int | None
    throttle_name: str | None = Field(description="Of `throttle`; null: it has none")
    retry_policy: int | None
    retry_policy_name: str | None = Field(description="Of `retry_policy`; null: it has none")
    next_trigger_at: datetime | None


class ScheduleFilters(Schema):
    """By their fields. `provider` empty: those whose batch is events."""

    name: Name | None = None
    kind: Name | None = None
    provider: Annotated[str, StringConstraints(max_length=50), AfterValidator(printable)] | None = None
    enabled: bool | None = None
    throttle: RowId | None = None
    endpoint: RowId | None = None
    retry_policy: RowId | None = None


class PreviewQuery(Schema):
    """How many triggers, and after which instant: now, if it is left out."""

    count: int = Field(10, ge=1, le=MOST_PREVIEWED)
    start: Instant | None = Field(None, alias="from")


class PreviewedTrigger(Schema):
    """`first_at` and `last_at`: when its first and its last event may start. `closes_at` null: no window."""

    trigger_at: datetime
    trigger_at_local: str
    events: int
    first_at: datetime
    last_at: datetime
    closes_at: datetime | None


class PreviewAnswer(Schema):
    """The next triggers of a schedule, as if it were enabled."""

    triggers: list[PreviewedTrigger]


class Said(Schema):
    """A sentence about a plan. `level`: good, warning, bad, or empty."""

    level: str
    text: str


class PlanVerdict(Schema):
    """`needed_pace`: events a second; `batch_takes`, `longest`: seconds; `busy`: share of the time asked for."""

    needed_pace: float
    batch_takes: float
    batches: int
    batches_too_late: int
    first_too_late: datetime | None
    longest: float | None
    busy: float


class PlanCurve(Schema):
    """Events a minute over the days: the busiest minute, the mean, and the busiest minute of each hour."""

    peak: float
    busiest_minute: datetime | None
    mean: float
    busiest_minute_of_each_hour: list[float]


class PlanAnswer(Schema):
    """The load of the next seven days, beside what shares its throttle, and whether batches complete in their window.

    `pace`: events a second that get through. `verdict` null: its throttle is paused.
    """

    schedule: str
    start: datetime
    next_triggers: list[datetime]
    events: int
    shares_its_throttle_with: list[str]
    seconds_each: float
    seconds_each_is_assumed: bool
    pace: float
    verdict: PlanVerdict | None
    load: PlanCurve
    said: list[Said]


class TriggerAnswer(Schema):
    """One firing of a schedule. `events`: how many records it emitted. `asked_by` empty: the clock."""

    id: int
    schedule: int
    trigger_at: datetime
    state: TriggerState
    events: int
    seen_at: datetime
    emitted_at: datetime | None
    closes_at: datetime | None
    finished_at: datetime | None
    skipped_for: str
    asked_by: str


class BatchProgress(Schema):
    """How many records of a batch are where."""

    waiting: int
    ready: int
    running: int
    succeeded: int
    failed: int
    cancelled: int


class TriggerDetail(TriggerAnswer):
    """With how far its batch is."""

    progress: BatchProgress


class TriggerFilters(Schema):
    """Of which schedule, in which state, and from when to before when."""

    schedule: RowId | None = None
    state: TriggerState | None = None
    since: Instant | None = None
    before: Instant | None = None


class CancelledBatch(Schema):
    """How many records were taken off the backlog, or told to stop."""

    cancelled: int
