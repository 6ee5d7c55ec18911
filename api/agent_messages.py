"""Messages of agents, and the answers to them. Unknown keys are ignored, so that newer agents may send more.

Messages about errors name the field and never repeat its value.
"""

from datetime import datetime, timedelta
from typing import Annotated, Any, ClassVar, Literal, Self

from django.conf import settings
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

from api.errors import not_valid
from api.fields import DURATION, Instant, printable, written_out
from external.network.contact import is_address
from jobs import states
from sources import planning
from sources.agents.checkins import MAX_ADDRESSES, Facts
from sources.domain.status import PRECEDENCE, ProtectionStatus
from sources.models import Source


def _ip_address(text: str) -> str:
    if not is_address(text):
        raise ValueError("must be an IP address")
    return text


Hostname = Annotated[str, StringConstraints(strip_whitespace=True, max_length=253), AfterValidator(printable)]
Version = Annotated[str, StringConstraints(max_length=50), AfterValidator(printable)]
ClockReading = Annotated[AwareDatetime, BeforeValidator(written_out)]
"""An instant by a clock that may be off by thousands of years: a check-in is not refused for it."""

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


class CheckInRequest(BaseModel):  # without the work that a Schema of django-ninja does for each field
    """The present state of a source, as its agent knows it. Fields that are left out or null are unknown."""

    hostname: Hostname | None = None
    addresses: list[IpAddress] = Field(default_factory=list, max_length=MAX_ADDRESSES)
    on_battery: StrictBool | None = None
    metered: StrictBool | None = None
    used_bytes: Annotated[int, Field(strict=True, ge=0, lt=2**63)] | None = None
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
            used_bytes=self.used_bytes,
            sent_at=self.sent_at,
            reason=self.reason or "",
            version=self.version or "",
        )


class AgentsAssignmentAnswer(Schema):
    """One policy of the source. `backlog`: the status of its unfinished record, null if there is none; `proved_at`:
    when a drill last proved that it can be restored.
    """

    policy: str
    status: ProtectionStatus
    last_backup_at: datetime | None
    proved_at: datetime | None
    next_backup_at: datetime | None
    backlog: Literal["waiting", "ready", "running"] | None


class StatusAnswer(Schema):
    """The state of the source. `status` is the worst of its assignments'."""

    source: str
    server_time: datetime
    interval: float
    status: ProtectionStatus
    assignments: list[AgentsAssignmentAnswer]
    snoozed_until: datetime | None
    paused: bool


class SnoozeRequest(Schema):
    """No backups before `until`, or during `for`, which is in seconds or text such as `7d`: one of the two, at most
    seven days.
    """

    longest: ClassVar[int] = 7 * 86_400
    too_far: ClassVar[tuple[str, str]] = ("7 days", "send `for` (seconds) if your clock is off")
    """The bound as text, and advice about an instant outside of it."""

    until: Instant | None = None
    seconds: Annotated[float, Field(gt=0, le=longest, allow_inf_nan=False, strict=True), DURATION] | None = Field(
        None, alias="for"
    )

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.until is None) == (self.seconds is None):
            raise ValueError("send either `until` (an instant) or `for` (seconds)")
        return self

    def ends_at(self, now: datetime) -> datetime:
        """Raises: ApiError (422) for an instant that is over, or too far away."""
        until = self.until or now + timedelta(seconds=self.seconds or 0)
        if not now < until <= now + timedelta(seconds=self.longest):
            longest, hint = self.too_far
            raise not_valid([("until", f"must be in the future, and at most {longest} away")], hint)
        return until


class SnoozeAnswer(Schema):
    """The instant until which no backup begins, null without a snooze."""

    snoozed_until: datetime | None


class AgentTokenAnswer(Schema):
    """A token, shown this once."""

    token: str


def status_of(source: Source, now: datetime, standings: list[planning.Standing] | None = None) -> dict[str, Any]:
    """A `StatusAnswer` about `source` at `now`. One query, unless its `standings` are known."""
    found = planning.standings_of(source.pk) if standings is None else standings
    assignments = [_assignment(standing, now) for standing in found]
    return {
        "source": source.name,
        "server_time": now,
        "interval": settings.CHECK_IN_EVERY,
        "status": _status(source, found, now),
        "assignments": assignments,
        "snoozed_until": source.paused_until if source.paused_by_user else None,
        "paused": source.paused_at is not None and not source.paused_by_user,
    }


def _status(source: Source, standings: list[planning.Standing], now: datetime) -> ProtectionStatus:
    """The status that `fleet.status.with_status` finds from the rows."""
    if source.retired_at or source.paused_at:
        return ProtectionStatus.RETIRED if source.retired_at else ProtectionStatus.PAUSED
    found = {standing.protection(now) for standing in standings if standing.enabled}
    return next((status for status in PRECEDENCE if status in found), ProtectionStatus.UNPROTECTED)


def _assignment(standing: planning.Standing, now: datetime) -> dict[str, Any]:
    return {
        "policy": standing.policy,
        "status": standing.protection(now).value,
        "last_backup_at": standing.last_backup_at,
        "proved_at": standing.proved_at,
        "next_backup_at": standing.next_backup_at,
        "backlog": None if standing.status is None else states.Status(standing.status).name.lower(),
    }
