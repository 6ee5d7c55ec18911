"""The API: its description, who asks, and the routers of all resources, in the order of the document."""

from typing import Any, Literal

from django.http import HttpRequest
from ninja import Router, Schema

from api import (
    agents,
    alerts,
    assignments,
    audit,
    backups,
    breakers,
    endpoints,
    policies,
    queues,
    records,
    repositories,
    restores,
    retry_policies,
    schedules,
    sources,
    stored_secrets,
    throttles,
    triggers,
    what_if,
    workers,
)  # fmt: skip
from api.application import Api
from api.auth import Staff, token_of
from api.fields import RowAnswer
from api.models import ApiToken
from jobs.conf import PROGRAM

api = Api(
    title="Proactive backup scheduler",
    version="1",
    description="Users are identified by their session, programs by a token as `Authorization: Bearer bst_…` (scopes "
    f"read, write, operate; `{PROGRAM} secrets issue`), agents by that of their source (`bsa_…`). An error is a "
    "problem document (RFC 9457) with a `hint`. Lists are pages: send `next` as `after`. Updates take `If-Match`, "
    "creates an `Idempotency-Key`. All instants are UTC, all durations seconds; a sent one may be a text such as "
    "`90s`, `15m`, `2h` or `7d`. A request with more than 256 KiB of address and headers gets 431 from the web "
    "server, as plain text; a proxy before it may refuse shorter ones with 414.",
    urls_namespace="api",
)
PROTECTED = (agents, sources, policies, assignments, repositories, backups, restores, stored_secrets, what_if)
BACKLOG = (
    schedules, triggers, throttles, endpoints, retry_policies, records, queues, breakers, workers, alerts, audit,
)  # fmt: skip
me = Router(tags=["who asks"])


class TokenAnswer(RowAnswer, of=ApiToken, names="id name created_at expires_at"):
    """A token of the API, without its text."""

    scopes: list[Literal["read", "write", "operate"]]


class MeAnswer(Schema):
    """The caller. `token` is null for a session. `permissions`: those of the user, within the token's scopes."""

    user: str
    superuser: bool
    permissions: list[str]
    token: TokenAnswer | None


@me.get("/me", auth=Staff(None), response=MeAnswer, operation_id="get_me", summary="The user of the request")
def get_me(request: HttpRequest) -> dict[str, Any]:
    """The caller, by a token of any scope or by session."""
    user: Any = request.user
    permissions = sorted(user.get_all_permissions())
    found = {"user": user.get_username(), "superuser": user.is_superuser, "permissions": permissions}
    return found | {"token": token_of(request)}


for router in (*(module.router for module in (*PROTECTED, *BACKLOG)), me):
    api.add_router("", router)
