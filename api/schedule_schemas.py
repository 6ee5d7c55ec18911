"""What is sent and answered about schedules and their triggers."""

from datetime import datetime
from typing import Literal

from ninja import Field, Schema

from api.fields import Instant, Name, RowId
from schedules.declarations import Schedule, Word

TriggerState = Literal["queued", "under way", "finished", "skipped"]

MOST_PREVIEWED = 100


class ScheduleAnswer(Schedule):
    """`provider` empty: its batch is `event_count` events. Else the batch comes from what is named, as `assignments`.

    `next_trigger_at` null: paused, or not seen by an emitter yet. It is no part of the ETag.
    """

    id: int
    next_trigger_at: datetime | None


class ScheduleFilters(Schema):
    """By their fields, and by the names of what they refer to. `provider` empty: those whose batch is events."""

    name: Name | None = None
    kind: Name | None = None
    provider: Word | None = None
    enabled: bool | None = None
    throttle: Name | None = None
    endpoint: Name | None = None
    retry_policy: Name | None = None


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


class PlanMessage(Schema):
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
    messages: list[PlanMessage]


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
