"""Who asks: an agent with a token, or a member of staff with a session."""

from typing import Any

from django.http import HttpRequest
from ninja.security import HttpBearer, SessionAuth

from sources import tokens
from sources.api.bodies import check_names_only
from sources.api.errors import ApiError
from sources.api.limits import FAILED_TOKENS, REQUESTS, network_of
from sources.tokens import Agent


class AgentAuth(HttpBearer):
    """A token in `Authorization: Bearer`. Without one, and with a wrong or revoked one, the answer is the same.

    Browsers do not send the header by themselves, so these operations need no CSRF token.
    """

    def __call__(self, request: HttpRequest) -> Agent:
        agent: Agent | None = super().__call__(request)
        if agent is None:
            FAILED_TOKENS.spend(network_of(request.META["REMOTE_ADDR"]))
            raise ApiError(401)
        check_names_only(agent.source, request)
        REQUESTS.spend(str(agent.source.pk))
        return agent

    def authenticate(self, request: HttpRequest, token: str) -> Agent | None:
        return tokens.authenticate(token)


class StaffAuth(SessionAuth):
    """A session of a member of staff. Whatever changes something needs the CSRF token, too."""

    def authenticate(self, request: HttpRequest, key: str | None) -> Any:
        if not request.user.is_authenticated:
            raise ApiError(401, hint="log in at /admin/")
        if not request.user.is_staff:
            raise ApiError(403, hint="this account is not staff; ask an administrator")
        return request.user


def agent_of(request: HttpRequest) -> Agent:
    """The agent that `AgentAuth` accepted."""
    agent: Agent = request.auth  # type: ignore[attr-defined]
    return agent
