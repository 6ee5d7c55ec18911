"""A code for a token, and a token for the next one."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest
from ninja import Router, Status

from api.agent_auth import FAILED_CODES, FAILED_ENROLMENTS, ROTATIONS, AgentAuth, agent_of, not_accepted
from api.assignment_schemas import AgentTokenAnswer, EnrolAnswer, EnrolRequest
from api.errors import ApiError
from api.schemas import Problem
from jobs.clock import database_clock
from jobs.conf import PROGRAM
from operations.limits import network_of
from sources.agents import checkins, tokens

router = Router(tags=["agent"])

CODE_REFUSED = "the code is not accepted"
CODE_HINT = f"codes work once and expire: `{PROGRAM} enrol SOURCE` on the server makes another"


@router.post(
    "/enrol",
    auth=None,
    response={201: EnrolAnswer, (401, 429): Problem},
    operation_id="enrol",
    summary="Exchange a code for a token",
)
def enrol(request: HttpRequest, body: EnrolRequest) -> Status[dict[str, Any]]:
    """An unknown, used or expired code is refused with the same words."""
    sender = network_of(request.META["REMOTE_ADDR"])
    attempt = f"{tokens.first_group(body.code)} {sender}"
    FAILED_CODES.check(attempt)
    now = database_clock()
    try:
        source, token = tokens.redeem(body.code, now)
    except tokens.Refused as error:
        FAILED_CODES.spend(attempt)
        FAILED_ENROLMENTS.spend(sender)
        raise ApiError(401, CODE_REFUSED, CODE_HINT) from error
    checkins.enrolled(source, body.hostname or "", now)
    return Status(201, {"token": token, "source": source.name, "interval": settings.CHECK_IN_EVERY, "server_time": now})


@router.post(
    "/agent/rotate",
    auth=AgentAuth(),
    response=AgentTokenAnswer,
    operation_id="rotate_agent_token",
    summary="Renew the token",
)
def rotate(request: HttpRequest) -> dict[str, str]:
    """The present token stays valid until the new one is first used."""
    agent = agent_of(request)
    ROTATIONS.spend(str(agent.source.pk))
    try:
        return {"token": tokens.rotate(agent.token)}
    except tokens.Refused as error:
        raise not_accepted() from error
