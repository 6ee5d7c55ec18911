"""What is sent and answered about endpoints. Secrets go in, and never come out again."""

from datetime import datetime
from typing import Annotated

from ninja import Field, Schema

from api.fields import DURATION, Body, Name
from delivery.declarations import Endpoint, KindOfEndpoint

LONGEST_KEPT = 30 * 86_400


class SigningSecretAnswer(Schema):
    """A secret that callbacks are signed with, without itself. `retires_at` null: it is in use until it is rotated."""

    id: int
    created_at: datetime
    retires_at: datetime | None


class EndpointAnswer(Endpoint):
    """`authorization_is_set`: whether there is one; what it is, nothing tells."""

    id: int
    authorization_is_set: bool
    signing_secrets: list[SigningSecretAnswer]


class NewEndpointAnswer(EndpointAnswer):
    """`signing_secret`: what its callbacks are signed with, shown this once; null for a queue, and in the answer to a
    request that is sent again with its `Idempotency-Key`: it is stored in no answer."""

    signing_secret: str | None


class EndpointFilters(Schema):
    """By name and kind."""

    name: Name | None = None
    kind: KindOfEndpoint | None = None


class RotateRequest(Body):
    """`keep_for`: for how long, in seconds or as `12h`, callbacks are signed with the present secret, too."""

    keep_for: Annotated[int, Field(ge=0, le=LONGEST_KEPT), DURATION] = 86_400


class NewSecret(Schema):
    """A signing secret, shown this once."""

    secret: str
