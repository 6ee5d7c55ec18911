"""Which agent asks: its token says so."""

from django.http import HttpRequest
from ninja.security import HttpBearer

from api.enrolment_limits import FAILED_TOKENS, REQUESTS, network_of
from api.errors import ApiError
from api.source_bodies import check_names_only
from sources import tokens
from sources.tokens import Agent


def not_accepted() -> ApiError:
    """Status 401, in the same words for every reason."""
    return ApiError(401, hint="send a valid token as `Authorization: Bearer TOKEN`; `manage.py enrol SOURCE` makes one")


class AgentAuth(HttpBearer):
    """A token in `Authorization: Bearer`. Without one, and with a wrong or revoked one, the answer is the same.

    Browsers do not send the header by themselves, so these operations need no CSRF token.
    """

    def __call__(self, request: HttpRequest) -> Agent:
        agent: Agent | None = super().__call__(request)
        if agent is None:
            FAILED_TOKENS.spend(network_of(request.META["REMOTE_ADDR"]))
            raise not_accepted()
        check_names_only(agent.source, request)
        REQUESTS.spend(str(agent.source.pk))
        return agent

    def authenticate(self, request: HttpRequest, token: str) -> Agent | None:
        return tokens.authenticate(token)


def agent_of(request: HttpRequest) -> Agent:
    """The agent that `AgentAuth` accepted."""
    agent: Agent = request.auth  # type: ignore[attr-defined]
    return agent
