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
    EndpointBody,
    EndpointFilters,
    NewEndpointAnswer,
    NewSecret,
    RotateRequest,
)
from api.errors import ApiError, not_valid
from api.resources import Resource
from delivery import endpoints
from delivery.endpoint_checks import asks_for_authorization_again, check
from delivery.endpoints import obstacle_to_removing, set_authorization
from delivery.models import Endpoint, EndpointKind
from jobs.clock import database_clock

MADE_HERE = "jobs.new_signing_secret"
"""Where a request carries the secret that it made, until it is answered."""


class Endpoints(Resource[Endpoint]):
    """Endpoints. What is under way is delivered to the URL that it was emitted with."""

    model, name, plural, tag = Endpoint, "endpoint", "endpoints", "delivery"
    body, answer, filters = EndpointBody, EndpointAnswer, EndpointFilters
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

    def fill(self, row: Endpoint, values: dict[str, Any]) -> set[str]:
        """The authorization is sealed. That it was sent is a change: what it was is not compared.

        Raises: ApiError (422) for another kind, and for another host that would get the present authorization.
        """
        if row.pk and values.get("kind", row.kind) != row.kind:
            raise not_valid(
                [("kind", "of one that exists stays: its schedules are of that kind; make another endpoint")]
            )
        old_url = row.url
        changed = super().fill(row, {name: value for name, value in values.items() if name != "authorization"})
        if "authorization" in values:
            return changed | self._authorize(row, values["authorization"] or "")
        if row.pk and (problem := asks_for_authorization_again(row, old_url)):
            raise not_valid([("authorization", problem)])
        return changed

    def _authorize(self, row: Endpoint, text: str) -> set[str]:
        """Raises: ApiError (422), which does not quote it."""
        if not text and not row.sealed_authorization:
            return set()
        if text and row.kind != EndpointKind.HTTP_CALLBACK:
            raise not_valid([("authorization", "is not for a queue: its credentials are found where the worker runs")])
        set_authorization(row, text)
        return {"sealed_authorization"}

    def check(self, row: Endpoint) -> None:
        """Also that something may be delivered there."""
        check(row)

    def saved(self, request: HttpRequest, row: Endpoint, changed: set[str] | None) -> None:
        """A new one that is called back gets its first signing secret, which `create` tells."""
        if changed is None and row.kind == EndpointKind.HTTP_CALLBACK:
            request.META[MADE_HERE] = endpoints.rotate(row)

    def uses_of(self, row: Endpoint) -> list[str]:
        """The schedules that deliver there."""
        obstacle = obstacle_to_removing(row)
        return [f"{obstacle}."] if obstacle else []


def _in_use(endpoint: Endpoint, now: datetime) -> list[dict[str, Any]]:
    """Its signing secrets that have not retired, without themselves."""
    secrets = [each for each in endpoint.signing_secrets.all() if each.retires_at is None or each.retires_at > now]
    return [{"id": each.pk, "created_at": each.created_at, "retires_at": each.retires_at} for each in secrets]


USUAL_ROTATION = RotateRequest()

resource = Endpoints()
router = resource.router()


@router.post(
    "/endpoints", auth=writing("add", "delivery.endpoint"), response={201: NewEndpointAnswer},
    operation_id="create_endpoint", summary="Create an endpoint",
    openapi_extra={"x-has": ["etag", "location", "idempotency", "conflict"]},
)  # fmt: skip
def create(request: HttpRequest, body: EndpointBody) -> HttpResponse:
    """`signing_secret` is shown this once. Sent again with the same key the answer has null instead: who has lost the
    secret rotates it."""
    answer = steps.create(resource, request, body)  # stores it, without the secret
    content = json.loads(answer.content) | {"signing_secret": request.META.pop(MADE_HERE, None)}
    headers = {name: value for name, value in answer.items() if name not in ("Content-Type", "Content-Length")}
    return JsonResponse(content, status=answer.status_code, headers=headers)


@router.post(
    "/endpoints/{int:endpoint_id}/rotate", auth=writing("change", "delivery.endpoint"), response={201: NewSecret},
    operation_id="rotate_endpoint_secret", summary="Make a new signing secret", openapi_extra={"x-has": ["conflict"]},
)  # fmt: skip
def rotate(request: HttpRequest, endpoint_id: int, body: RotateRequest = USUAL_ROTATION) -> Status[dict[str, str]]:
    """Shown this once. Callbacks are signed with both for `keep_for` seconds, so that receivers can change over."""
    endpoint = resource.get(endpoint_id)
    try:
        secret = endpoints.rotate(endpoint, body.keep_for)
    except ValueError as error:
        raise ApiError(409, str(error), "there is nothing to rotate") from error
    history.noted(request, endpoint, "Rotated its signing secret")
    return Status(201, {"secret": secret})
