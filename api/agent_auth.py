"""Authentication of agents by their tokens, and rate limits for agents and for senders without a token."""

import json

from django.http import HttpRequest
from ninja.security import HttpBearer

from api.errors import ApiError
from jobs.conf import PROGRAM
from operations.limits import Limit, LimitOfOneProcess, network_of
from sources.agents import tokens
from sources.agents.tokens import Agent
from sources.models import Source

FAILED_TOKENS = Limit("token", 20, 60)
"""The limit per network of the sender. A valid token is accepted anyway: behind a proxy all agents have one
address."""

FAILED_CODES = Limit("code", 20, 60)
"""The limit per first group of the code and network of the sender. Beyond it no such code is looked at; others are,
since behind a proxy all agents have one address."""

FAILED_ENROLMENTS = Limit("enrolment", 200, 60)
"""The limit per network of the sender, for all codes. A valid code is accepted anyway."""

REQUESTS = LimitOfOneProcess("agent", 60, 60)
"""The limit of check-ins per source."""

ROTATIONS = Limit("rotate", 10, 3600)
"""The limit per source, since each is a row that stays."""

ASKED_FOR = Limit("now", 10, 3600)
"""The limit of requested backups per source: each goes ahead of the whole fleet."""

NEW_ADDRESSES = Limit("address", 60, 3600)
"""The limit per source of addresses that its last check-in did not name. Workers contact those that a source may have
moved to, so a stolen token could have them look for hosts. A laptop has some four in each network that it comes to."""


MOST_KNOWN = 200_000
_sources: dict[str, str] = {}


def source_known_by(token: str) -> str | None:
    """The id of the source for which a token was accepted in this process, so that its requests are counted before the
    database is used. None if there was none lately.
    """
    return _sources.get(tokens.digest_of(token))


def not_accepted() -> ApiError:
    """Status 401, in the same words for every reason."""
    return ApiError(
        401, hint=f"send a token as `Authorization: Bearer TOKEN`; `{PROGRAM} sources enrol SOURCE` makes one"
    )


class AgentAuth(HttpBearer):
    """A token in `Authorization: Bearer`. Without one, and with a wrong or revoked one, the answer is the same.

    Browsers do not send the header by themselves, so these operations need no CSRF token.
    """

    def __call__(self, request: HttpRequest) -> Agent:
        agent: Agent | None = super().__call__(request)
        if agent is None:
            FAILED_TOKENS.spend(network_of(request.META["REMOTE_ADDR"]))
            raise not_accepted()
        _check_names_only(agent.source, request)
        _sources[agent.token.digest] = str(agent.source.pk)
        if len(_sources) > MOST_KNOWN:
            _sources.clear()
        REQUESTS.spend(str(agent.source.pk))
        return agent

    def authenticate(self, request: HttpRequest, token: str) -> Agent | None:
        return tokens.authenticate(token)


def agent_of(request: HttpRequest) -> Agent:
    """The agent that `AgentAuth` accepted."""
    agent: Agent = request.auth  # type: ignore[attr-defined]
    return agent


def _check_names_only(source: Source, request: HttpRequest) -> None:
    """The token decides which source is spoken of; a body may repeat its name. Raises: ApiError (403) for another one.

    Whether that other source exists is not looked up.
    """
    try:
        body = json.loads(request.body) if request.body else None
    except (ValueError, RecursionError):
        return  # the operation refuses it with its own message, if it reads it
    if isinstance(body, dict) and body.get("source") not in (None, source.name):
        raise ApiError(403, "this token speaks for another source", "leave out `source`: the token decides it")
