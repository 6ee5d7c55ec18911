"""What is sent and answered. Unknown keys are left unread, so that newer agents may say more.

The messages name what is wrong and never repeat it.
"""

from datetime import datetime
from typing import Annotated, Literal

from ninja import Field, Schema
from pydantic import AfterValidator, AwareDatetime, StringConstraints, model_validator

from jobs.api.schemas import Error as Error
from jobs.api.schemas import printable
from sources.checkins import MAX_ADDRESSES, Facts, is_address
from sources.previews import LARGEST_COUNT

LONGEST_SNOOZE_SECONDS = 7 * 86_400


def _ip_address(text: str) -> str:
    if not is_address(text):
        raise ValueError("must be an IP address")
    return text


Hostname = Annotated[str, StringConstraints(strip_whitespace=True, max_length=253), AfterValidator(printable)]
Version = Annotated[str, StringConstraints(max_length=50), AfterValidator(printable)]
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


class CheckInRequest(Schema):
    """What an agent knows of its source's present state. Whatever it leaves out or sends as null is unknown."""

    hostname: Hostname | None = None
    addresses: list[IpAddress] = Field(default_factory=list, max_length=MAX_ADDRESSES)
    on_battery: bool | None = None
    metered: bool | None = None
    sent_at: AwareDatetime | None = None
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


class AssignmentAnswer(Schema):
    """One policy of the source. `backlog`: the status of its unfinished record, null when there is none."""

    policy: str
    state: Literal["never", "protected", "due", "overdue"]
    last_backup_at: datetime | None
    next_backup_at: datetime | None
    backlog: Literal["waiting", "ready", "running"] | None


class StatusAnswer(Schema):
    """How the source stands. `state` is the worst of its assignments', null when it has none."""

    source: str
    server_time: datetime
    interval: float
    state: Literal["never", "protected", "due", "overdue"] | None
    assignments: list[AssignmentAnswer]
    snoozed_until: datetime | None
    paused: bool


class MovedAnswer(Schema):
    """How many backups were put at the head of the backlog."""

    moved: int


class SnoozeRequest(Schema):
    """No backups before `until`, or for so many seconds: one of the two, at most seven days."""

    until: AwareDatetime | None = None
    seconds: float | None = Field(default=None, alias="for", gt=0, le=LONGEST_SNOOZE_SECONDS, allow_inf_nan=False)

    @model_validator(mode="after")
    def _one_of_two(self) -> "SnoozeRequest":
        if (self.until is None) == (self.seconds is None):
            raise ValueError("send either `until` (an instant) or `for` (seconds)")
        return self


class SnoozeAnswer(Schema):
    """Until when no backup begins; null: no snooze."""

    snoozed_until: datetime | None


class TokenAnswer(Schema):
    """A token, shown this once."""

    token: str


class PreviewQuery(Schema):
    """How many periods, and from which instant on: now, if it is left out."""

    count: int = Field(10, ge=1, le=LARGEST_COUNT)
    start: AwareDatetime | None = Field(None, alias="from")
