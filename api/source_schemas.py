"""What a source looks like in the API, and what is sent about it."""

from datetime import datetime
from typing import Annotated, Any

from ninja import Field, Schema
from pydantic import model_validator

from api.fields import DURATION, Body, Instant, Name
from sources.declarations import KindOfSource, Source
from sources.domain.status import Status

LONGEST_SNOOZE_SECONDS = 366 * 86_400
"""A person may mean a year; who means longer pauses the source."""


class SourceAnswer(Source):
    """A source. From `status` on it is moved by machines and by actions: its ETag has none of that."""

    id: int
    inserted_at: datetime
    status: Status = Field(description="Over all its assignments, worst first")
    reason: str = Field(description="Why it is not protected, or does not run now, and when it is tried next")
    policies: list[str] = Field(description="Names of the policies that it is under")
    paused_at: datetime | None = Field(description="Since when a person wants no backups of it")
    snoozed_until: datetime | None = Field(description="No backups of it before; null or past: no snooze")
    checked_in_at: datetime | None = Field(description="When its agent, or a person, last said that it is here")
    hostname: str
    addresses: Any
    on_battery: bool | None
    metered: bool | None
    clock_skew: float | None
    last_woken_at: datetime | None
    wakes: int


MOVING = (
    "status", "reason", "policies", "paused_at", "snoozed_until", "checked_in_at", "hostname", "addresses",
    "on_battery", "metered", "clock_skew", "last_woken_at", "wakes",
)  # fmt: skip
"""No part of a source's ETag."""


class SourceFilters(Schema):
    """Which sources."""

    name: Name | None = None
    kind: KindOfSource | None = None
    status: Status | None = None
    paused: bool | None = None
    policy: Name | None = Field(None, description="Name of a policy that it is under")


class StaffSnoozeBody(Body):
    """No backups before `until`, or for so long, in seconds or as `7d`: one of the two, at most a year."""

    until: Instant | None = None
    seconds: Annotated[float, Field(gt=0, le=LONGEST_SNOOZE_SECONDS), DURATION] | None = Field(None, alias="for")

    @model_validator(mode="after")
    def _one_of_two(self) -> "StaffSnoozeBody":
        if (self.until is None) == (self.seconds is None):
            raise ValueError("send either `until` (an instant) or `for` (seconds)")
        return self


class CheckedInAnswer(Schema):
    """When it was written down that the source is here, and how many records of the backlog that moved."""

    checked_in_at: datetime
    moved: int


class CodeAnswer(Schema):
    """An enrolment code, shown this once. `command` is to be typed on the machine of the source."""

    source: str
    code: str
    expires_at: datetime
    command: str


class RevokedAnswer(Schema):
    """How many tokens were valid until now."""

    revoked: int
