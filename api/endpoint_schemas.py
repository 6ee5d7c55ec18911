"""What is sent and answered about endpoints. Secrets go in, and never come out again."""

from datetime import datetime
from typing import Annotated, Literal

from ninja import Field, Schema
from pydantic import AfterValidator, StringConstraints

from api.fields import DURATION, Body, Name, Title, printable
from delivery.models.endpoint import LONGEST_URL

MOST_HEADERS = 50
LONGEST_KEPT = 30 * 86_400

Url = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_URL), AfterValidator(printable)]
HeaderName = Annotated[str, StringConstraints(pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}$")]
HeaderValue = Annotated[str, StringConstraints(pattern=r"^[ -~]{0,1000}$")]
Secret = Annotated[str, StringConstraints(pattern=r"^[!-~]([ -~]{0,3998}[!-~])?$")]
EndpointKindName = Literal["http_callback", "sqs_message"]


class EndpointBody(Body):
    """`authorization`: the header that callbacks send, as `Bearer …`. It is sealed and never shown; left out, it stays;
    null: none. Timeouts are seconds, or as `15s`. `region`, `message_group`: of a queue."""

    name: Title
    kind: EndpointKindName = "http_callback"
    url: Url
    headers: Annotated[dict[HeaderName, HeaderValue], Field(max_length=MOST_HEADERS)] = Field(default_factory=dict)
    authorization: Secret | None = None
    connect_timeout: Annotated[float, Field(ge=0.1, le=300), DURATION] = 5
    timeout: Annotated[float, Field(ge=0.1, le=3600), DURATION] = 30
    follow_redirects: bool = False
    region: Annotated[str, StringConstraints(max_length=50), AfterValidator(printable)] = ""
    message_group: Annotated[str, StringConstraints(max_length=128), AfterValidator(printable)] = ""


class SigningSecretAnswer(Schema):
    """A secret that callbacks are signed with, without itself. `retires_at` null: it is in use until it is rotated."""

    id: int
    created_at: datetime
    retires_at: datetime | None


class EndpointAnswer(Schema):
    """`authorization_is_set`: whether there is one; what it is, nothing tells."""

    id: int
    name: str
    kind: EndpointKindName
    url: str
    headers: dict[str, str]
    authorization_is_set: bool
    connect_timeout: float
    timeout: float
    follow_redirects: bool
    region: str
    message_group: str
    signing_secrets: list[SigningSecretAnswer]


class NewEndpointAnswer(EndpointAnswer):
    """`signing_secret`: what its callbacks are signed with, shown this once; null for a queue, and in the answer to a
    request that is sent again with its `Idempotency-Key`: it is stored in no answer."""

    signing_secret: str | None


class EndpointFilters(Schema):
    """By name and kind."""

    name: Name | None = None
    kind: EndpointKindName | None = None


class RotateRequest(Body):
    """`keep_for`: for how long, in seconds or as `12h`, callbacks are signed with the present secret, too."""

    keep_for: Annotated[int, Field(ge=0, le=LONGEST_KEPT), DURATION] = 86_400


class NewSecret(Schema):
    """A signing secret, shown this once."""

    secret: str
