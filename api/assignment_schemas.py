"""What is sent and answered. Unknown keys are left unread, so that newer agents may say more.

The messages name what is wrong and never repeat it.
"""

from datetime import datetime
from typing import Annotated, Any, Literal

from ninja import Field, Schema
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    StrictBool,
    StringConstraints,
    model_validator,
)

from api.fields import DURATION, Instant, printable, written_out
from sources.agents.checkins import MAX_ADDRESSES, Facts
from sources.domain.status import Status
from sources.network.contact import is_address
from sources.previews import LARGEST_COUNT

LONGEST_SNOOZE_SECONDS = 7 * 86_400


def _ip_address(text: str) -> str:
    if not is_address(text):
        raise ValueError("must be an IP address")
    return text


Hostname = Annotated[str, StringConstraints(strip_whitespace=True, max_length=253), AfterValidator(printable)]
Version = Annotated[str, StringConstraints(max_length=50), AfterValidator(printable)]
ClockReading = Annotated[AwareDatetime, BeforeValidator(written_out)]
"""By a clock that may be off by thousands of years: a check-in is not refused for it."""

IpAddress = Annotated[str, StringConstraints(max_length=100), AfterValidator(_ip_address)]


class EnrolRequest(Schema):
    """A one-time code."""

    code: str = Field(max_length=64)
    hostname: Hostname | None = None


class EnrolAnswer(Schema):
    """The token is shown this once. Announce the source every `interval` seconds."""

    token: str
    source: str
    interval: float
    server_time: datetime


class CheckInRequest(BaseModel):  # without what a Schema of django-ninja does for each field
    """What an agent knows of its source's present state. Whatever it leaves out or sends as null is unknown."""

    hostname: Hostname | None = None
    addresses: list[IpAddress] = Field(default_factory=list, max_length=MAX_ADDRESSES)
    on_battery: StrictBool | None = None
    metered: StrictBool | None = None
    sent_at: ClockReading | None = None
    reason: Literal["start", "network", "timer", "user"] | None = None
    version: Version | None = None

    def facts(self) -> Facts:
        """The same as a value."""
        return Facts(
            hostname=self.hostname or None,
            addresses=tuple(self.addresses),
            on_battery=self.on_battery,
            metered=self.metered,
            sent_at=self.sent_at,
            reason=self.reason or "",
            version=self.version or "",
        )


class AgentsAssignmentAnswer(Schema):
    """One policy of the source. `backlog`: the status of its unfinished record, null when there is none; `proved_at`:
    when a drill last proved that it can be restored."""

    policy: str
    status: Status
    last_backup_at: datetime | None
    proved_at: datetime | None
    next_backup_at: datetime | None
    backlog: Literal["waiting", "ready", "running"] | None


class StatusAnswer(Schema):
    """How the source stands. `status` is the worst of its assignments'."""

    source: str
    server_time: datetime
    interval: float
    status: Status
    assignments: list[AgentsAssignmentAnswer]
    snoozed_until: datetime | None
    paused: bool


class MovedAnswer(Schema):
    """How many backups were put at the head of the backlog."""

    moved: int


class SnoozeRequest(Schema):
    """No backups before `until`, or for so long, in seconds or as `7d`: one of the two, at most seven days."""

    until: Instant | None = None
    seconds: (
        Annotated[float, Field(gt=0, le=LONGEST_SNOOZE_SECONDS, allow_inf_nan=False, strict=True), DURATION] | None
    ) = Field(None, alias="for")

    @model_validator(mode="after")
    def _one_of_two(self) -> "SnoozeRequest":
        if (self.until is None) == (self.seconds is None):
            raise ValueError("send either `until` (an instant) or `for` (seconds)")
        return self


class SnoozeAnswer(Schema):
    """Until when no backup begins; null: no snooze."""

    snoozed_until: datetime | None


class AgentTokenAnswer(Schema):
    """A token, shown this once."""

    token: str


class PolicyPreviewQuery(Schema):
    """How many periods, and from which instant on: now, if it is left out."""

    count: int = Field(10, ge=1, le=LARGEST_COUNT)
    start: Instant | None = Field(None, alias="from")


class OpeningAnswer(Schema):
    """A stretch in which the window is open, cut at the ends of the period; `*_local`: in the policy's zone."""

    opens_at: datetime
    closes_at: datetime
    opens_at_local: datetime
    closes_at_local: datetime
    seconds: float


class PeriodAnswer(Schema):
    """A period. `warning`: why it has no opening, else empty."""

    begins_at: datetime
    ends_at: datetime
    begins_at_local: datetime
    ends_at_local: datetime
    seconds: float
    openings: list[OpeningAnswer]
    warning: str


class HolidayAnswer(Schema):
    """A public holiday, on which no range of a window begins."""

    date: str
    name: str


class PolicyPreviewAnswer(Schema):
    """The coming periods of a policy with their openings."""

    policy: str
    enabled: bool
    cron: str
    zone: str
    window: Any
    excluded_dates: Any
    holidays: list[HolidayAnswer] = Field(description="The next ones among the excluded dates: ten at most")
    not_kept: dict[str, list[str]] = Field(description="Of its sources, by their kind: what no backup keeps of them")
    periods: list[PeriodAnswer]
