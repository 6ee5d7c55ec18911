"""Endpoints: the receivers of events. Secrets go in, and never come out again."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

from django.db.models import QuerySet
from django.http import HttpRequest
from ninja import Field, Schema, Status

from api.auth import writing
from api.declared_resources import DeclaredResource
from api.errors import ApiError
from api.fields import DURATION, Body, Name, RowAnswer
from api.resources import etag_of
from delivery import declarations, signing
from delivery.endpoints import SignedEndpoints
from delivery.models import Endpoint, SigningSecret
from jobs.clock import database_clock

LONGEST_KEPT = 30 * 86_400
SHOWN_ONCE = (
    "The secret that signs its callbacks, shown this once. Null for a queue, and when the answer is sent "
    "again: answers are stored without it. A lost secret is rotated"
)


class SigningSecretAnswer(RowAnswer, of=SigningSecret, names="id created_at retires_at"):
    """A secret that signs callbacks; the secret itself is not shown. `retires_at` null: it is in use until it is
    rotated.
    """


class EndpointAnswer(declarations.EndpointDeclaration):
    """`authorization_is_set`: true if there is one; no answer contains it."""

    id: int
    authorization_is_set: bool
    signing_secrets: list[SigningSecretAnswer]


class RotateRequest(Body):
    """`keep_for`: for how long, in seconds or as `12h`, callbacks are signed with the present secret, too."""

    keep_for: Annotated[int, Field(ge=0, le=LONGEST_KEPT), DURATION] = 86_400


class NewSecret(Schema):
    """A signing secret, shown this once."""

    secret: str


class EndpointsOfTheApi(DeclaredResource[Endpoint]):
    """Endpoints. Events under way are delivered to the URL with which they were emitted."""

    service, tag, answer = SignedEndpoints, "delivery", EndpointAnswer
    body = declarations.EndpointWithAuthorization
    shown_once = {"signing_secret": (str | None, Field(description=SHOWN_ONCE))}
    filters = {"name": Name, "kind": declarations.KindOfEndpoint}
    orderings = ("id", "name")
    edited_besides = ("signing_secrets",)

    def rows(self) -> QuerySet[Any]:
        """All endpoints, with their signing secrets."""
        return Endpoint.objects.prefetch_related("signing_secrets")

    def facts(self, rows: Sequence[Endpoint]) -> list[dict[str, Any]]:
        """The answers' fields, without sealed values."""
        now = database_clock()
        return [
            self.own_facts(row)
            | {"authorization_is_set": bool(row.sealed_authorization), "signing_secrets": _in_use(row, now)}
            for row in rows
        ]

    def etag(self, row: Endpoint, content: dict[str, Any]) -> str:
        """Another authorization is another ETag."""
        return etag_of({"edited": super().etag(row, content), "authorization": row.sealed_authorization})


def _in_use(endpoint: Endpoint, now: datetime) -> list[dict[str, Any]]:
    """Its signing secrets that have not retired, without themselves."""
    secrets = [each for each in endpoint.signing_secrets.all() if each.retires_at is None or each.retires_at > now]
    return [{"id": each.pk, "created_at": each.created_at, "retires_at": each.retires_at} for each in secrets]


USUAL_ROTATION = RotateRequest()

resource = EndpointsOfTheApi()
router = resource.router


@resource.verb(
    "rotate", writing("change", "delivery.endpoint"), "Make a new signing secret", answer={201: NewSecret},
    named="rotate endpoint secret", has=["conflict"], noted="Rotated its signing secret",
)  # fmt: skip
def rotate(request: HttpRequest, endpoint: Endpoint, body: RotateRequest = USUAL_ROTATION) -> Status[dict[str, str]]:
    """Shown this once. Callbacks are signed with both for `keep_for` seconds, so that receivers can change over."""
    try:
        return Status(201, {"secret": signing.rotate(endpoint, body.keep_for)})
    except ValueError as error:
        raise ApiError(409, str(error), "there is nothing to rotate") from error
