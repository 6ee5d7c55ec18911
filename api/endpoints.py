"""Endpoints: where events are delivered. Secrets go in, and never come out again."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, JsonResponse
from ninja import Status

from api import history, steps
from api.auth import writing
from api.endpoint_schemas import (
    EndpointAnswer,
    EndpointFilters,
    NewEndpointAnswer,
    NewSecret,
    RotateRequest,
)
from api.errors import ApiError
from api.resources import Resource
from delivery import signing
from delivery.declarations import EndpointWithAuthorization
from delivery.endpoints import Endpoints
from delivery.models import Endpoint, EndpointKind
from jobs.clock import database_clock

MADE_HERE = "jobs.new_signing_secret"
"""Where a request carries the secret that it made, until it is answered."""


class EndpointsOfTheApi(Resource[Endpoint]):
    """Endpoints. What is under way is delivered to the URL that it was emitted with."""

    service, body, tag = Endpoints, EndpointWithAuthorization, "delivery"
    answer, filters = EndpointAnswer, EndpointFilters
    orderings = ("id", "name")
    creates = False  # see create

    def rows(self) -> QuerySet[Any]:
        """With their signing secrets."""
        return Endpoint.objects.prefetch_related("signing_secrets")

    def facts(self, rows: Sequence[Endpoint]) -> list[dict[str, Any]]:
        """Without what is sealed."""
        now = database_clock()
        return [
            self.own_facts(row)
            | {"authorization_is_set": bool(row.sealed_authorization), "signing_secrets": _in_use(row, now)}
            for row in rows
        ]

    def untold(self, row: Endpoint) -> str:
        """Another authorization is another ETag."""
        return row.sealed_authorization

    def saved(self, request: HttpRequest, row: Endpoint, changed: set[str] | None, warnings: list[str]) -> None:
        """A new one that is called back gets its first signing secret, which `create` tells."""
        if changed is None and row.kind == EndpointKind.HTTP_CALLBACK:
            request.META[MADE_HERE] = signing.rotate(row)


def _in_use(endpoint: Endpoint, now: datetime) -> list[dict[str, Any]]:
    """Its signing secrets that have not retired, without themselves."""
    secrets = [each for each in endpoint.signing_secrets.all() if each.retires_at is None or each.retires_at > now]
    return [{"id": each.pk, "created_at": each.created_at, "retires_at": each.retires_at} for each in secrets]


USUAL_ROTATION = RotateRequest()

resource = EndpointsOfTheApi()
router = resource.router()


@router.post(
    "/endpoints", auth=writing("add", "delivery.endpoint"), response={201: NewEndpointAnswer},
    operation_id="create_endpoint", summary="Create an endpoint",
    openapi_extra={"x-has": ["etag", "location", "idempotency", "conflict"]},
)  # fmt: skip
def create(request: HttpRequest, body: EndpointWithAuthorization) -> HttpResponse:
    """`signing_secret` is shown this once. Sent again with the same key the answer has null instead: who has lost the
    secret rotates it."""
    answer = steps.create(resource, request, body)  # stores it, without the secret
    content = json.loads(answer.content) | {"signing_secret": request.META.pop(MADE_HERE, None)}
    headers = {name: value for name, value in answer.items() if name not in ("Content-Type", "Content-Length")}
    return JsonResponse(content, status=answer.status_code, headers=headers)


@resource.verb(
    router, "rotate", writing("change", "delivery.endpoint"), "Make a new signing secret",
    answer={201: NewSecret}, named="rotate_endpoint_secret", has=["conflict"],
)  # fmt: skip
def rotate(request: HttpRequest, endpoint_id: int, body: RotateRequest = USUAL_ROTATION) -> Status[dict[str, str]]:
    """Shown this once. Callbacks are signed with both for `keep_for` seconds, so that receivers can change over."""
    endpoint = resource.get(endpoint_id)
    try:
        secret = signing.rotate(endpoint, body.keep_for)
    except ValueError as error:
        raise ApiError(409, str(error), "there is nothing to rotate") from error
    history.noted(request, endpoint, "Rotated its signing secret")
    return Status(201, {"secret": secret})
