"""What a policy looks like in the API, together with its schedule, and what is sent about it."""

from datetime import datetime
from typing import Annotated, Any, Literal

from ninja import Field, Schema
from pydantic import AfterValidator, StringConstraints

from api.fields import DURATION, LARGEST_INTEGER, Body, JsonObject, Name, RowId, Title, Whole, printable
from jobs.priorities import MAX_PRIORITY
from jobs.retries import LONGEST

MOST_ROWS = 200
"""Ranges of a window, and excluded dates."""

Cron = Annotated[str, StringConstraints(min_length=1, max_length=100), AfterValidator(printable)]
Zone = Annotated[str, StringConstraints(min_length=1, max_length=64), AfterValidator(printable)]
Day = Annotated[str, StringConstraints(max_length=40), AfterValidator(printable)]
Priority = Annotated[int, Field(ge=-MAX_PRIORITY, le=MAX_PRIORITY)]
Positive = Annotated[int, Field(ge=1, le=LARGEST_INTEGER)]


class PolicyBody(Body):
    """A policy with its schedule. Durations are seconds, or as `15m`. Whether its window ever opens is checked, too."""

    name: Title
    cron: Cron = Field(description="When a period begins: five fields, as `0 9 * * 1-5`")
    zone: Zone = Field("UTC", description="IANA time zone, as Europe/Berlin")
    enabled: bool = True
    priority: Priority = Field(0, description="Higher is backed up first")
    retry_policy: RowId | None = Field(None, description="Null: Fibonacci, 60 s")
    throttle: RowId | None = None
    repository: RowId
    window: Annotated[list[JsonObject], Field(max_length=MOST_ROWS)] = Field(
        default_factory=list,
        description='When it may run, in its zone, as [{"days": "mon-fri", "start": "22:00", "end": "06:00"}]. '
        "Empty: always",
    )
    excluded_dates: Annotated[list[Day], Field(max_length=MOST_ROWS)] = Field(
        default_factory=list, description='Dates on which no range begins, as ["2026-12-24", "12-25"]'
    )
    at_close: Literal["finish", "stop"] = Field("finish", description="What becomes of a running backup")
    only_if_it_fits: bool = Field(False, description="Start only what its last duration lets end in the window")
    seeding_limit: Positive | None = Field(None, description="At most so many execution units for first backups")
    engine_options: JsonObject = Field(default_factory=dict, description='As {"transfers": 4, "bwlimit": "10M"}')
    keep_versions: Whole = 7
    max_running_for: Annotated[float, Field(ge=1, le=LONGEST), DURATION] = Field(
        86_400, description="What still runs then is stopped"
    )
    least_rate: Positive | None = Field(None, description="Bytes a second, over five minutes; null: no limit")
    connect_timeout: Annotated[float, Field(ge=0.1, le=LONGEST), DURATION] = 60
    recheck_after: Annotated[float, Field(ge=1, le=LONGEST), DURATION] = 900
    vanish_grace: Annotated[float, Field(ge=0, le=LONGEST), DURATION] = 120
    address_follows: bool = Field(False, description="Take over the address from which an SFTP source checks in")
    on_battery: bool = True
    on_metered: bool = True
    alert_after: Annotated[float, Field(ge=1, le=LONGEST), DURATION] | None = Field(
        None, description="Null: a whole period was missed"
    )
    wake_allowed: bool = False
    wake_every: Annotated[float, Field(ge=0, le=LONGEST), DURATION] = 14_400
    wake_wait: Annotated[float, Field(ge=0.1, le=LONGEST), DURATION] = 180


class EditUnderWay(Schema):
    """How many assignments follow the last edit of their policy so far. The others do in the background."""

    done: int
    of: int


class PolicyAnswer(Schema):
    """A policy. `schedule`: the id of its schedule. Its ETag has nothing of what machines move (`sources`,
    `next_trigger_at`, `edit_under_way`), nor the names of what it refers to."""

    id: int
    schedule: int
    name: str
    cron: str
    zone: str
    enabled: bool
    priority: int
    retry_policy: int | None
    retry_policy_name: str | None = Field(description="Of `retry_policy`; null: it has none")
    throttle: int | None
    throttle_name: str | None = Field(description="Of `throttle`; null: it has none")
    repository: int
    repository_name: str = Field(description="Of `repository`")
    window: Any
    excluded_dates: Any
    at_close: str
    only_if_it_fits: bool
    seeding_limit: int | None
    engine_options: Any
    keep_versions: int
    max_running_for: float
    least_rate: int | None
    connect_timeout: float
    recheck_after: float
    vanish_grace: float
    address_follows: bool
    on_battery: bool
    on_metered: bool
    alert_after: float | None
    wake_allowed: bool
    wake_every: float
    wake_wait: float
    sources: int = Field(description="How many sources are under it")
    next_trigger_at: datetime | None = Field(description="When its next period begins; null while it is disabled")
    edit_under_way: EditUnderWay | None = Field(description="Null: all its assignments follow its last edit")


MOVING = ("sources", "next_trigger_at", "edit_under_way", "throttle_name", "retry_policy_name", "repository_name")


class PolicyFilters(Schema):
    """Which policies."""

    name: Name | None = None
    enabled: bool | None = None
    repository: Annotated[int, Field(ge=1)] | None = None
    throttle: Annotated[int, Field(ge=1)] | None = None
