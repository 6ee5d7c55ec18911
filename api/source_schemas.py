"""What a source looks like in the API, and what is sent about it."""

from datetime import datetime
from typing import Annotated, Any, Literal

from ninja import Field, Schema
from pydantic import AfterValidator, StringConstraints, model_validator

from api.fields import DURATION, Body, Instant, JsonObject, Name, Title, storable_text

LONGEST_SNOOZE_SECONDS = 366 * 86_400
"""A person may mean a year; who means longer pauses the source."""

KindName = Literal["sftp", "s3", "webdav", "local", "postgresql"]
StatusOfSource = Literal["protected", "due", "failing", "never", "overdue", "snoozed", "paused", "no policy"]

Address = Annotated[str, StringConstraints(max_length=300), AfterValidator(storable_text)]
Path = Annotated[str, StringConstraints(max_length=500), AfterValidator(storable_text)]
HostKey = Annotated[str, StringConstraints(max_length=10_000), AfterValidator(storable_text)]
MacAddress = Annotated[str, StringConstraints(max_length=17), AfterValidator(storable_text)]
BroadcastAddress = Annotated[str, StringConstraints(max_length=100), AfterValidator(storable_text)]
Port = Annotated[int, Field(ge=1, le=65_535)]


class SourceBody(Body):
    """A source. Which of the fields its kind needs is checked as in the admin."""

    name: Title
    kind: KindName
    address: Address = Field("", description="Host name, IP address, URL or socket directory")
    port: Port | None = Field(None, description="Null: the usual port of its kind")
    path: Path = Field("", description="Directory, bucket or database")
    options: JsonObject = Field(default_factory=dict, description='As {"user": "backup"}')
    secret: Path = Field(
        "",
        description="Where its password is found, never the password: env:NAME or file:/path. To set it needs a "
        "permission of its own; a change of kind, address, port, host key or options without that clears it",
    )
    host_key: HostKey = Field("", description="The SSH host key that must answer, as `ssh-keyscan` prints it")
    mac_address: MacAddress = Field("", description="For Wake-on-LAN, as 02:00:00:aa:bb:cc")
    wake_address: BroadcastAddress = Field("255.255.255.255", description="Where a magic packet is sent to")
    wake_port: Port = 9
    wake_allowed: bool | None = Field(None, description="Whether to wake it. Null: as its policy says")


class SourceAnswer(Schema):
    """A source. From `status` on it is moved by machines and by actions: its ETag has none of that."""

    id: int
    name: str
    kind: str
    address: str
    port: int | None
    path: str
    options: Any
    secret: str
    host_key: str
    mac_address: str
    wake_address: str
    wake_port: int
    wake_allowed: bool | None
    inserted_at: datetime
    status: StatusOfSource = Field(description="Over all its assignments, worst first")
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
    "status", "policies", "paused_at", "snoozed_until", "checked_in_at", "hostname", "addresses", "on_battery",
    "metered", "clock_skew", "last_woken_at", "wakes",
)  # fmt: skip
"""No part of a source's ETag."""


class SourceFilters(Schema):
    """Which sources."""

    name: Name | None = None
    kind: KindName | None = None
    status: StatusOfSource | None = None
    paused: bool | None = None
    policy: Annotated[int, Field(ge=1)] | None = Field(None, description="Id of a policy that it is under")


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
