"""Operations for agents: exchange a code for a token, exchange a token for the next one, check in.

The token determines the source.
"""

from dataclasses import replace
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from ninja import Router, Status

from api.agent_auth import (
    ASKED_FOR,
    FAILED_CODES,
    FAILED_ENROLMENTS,
    NEW_ADDRESSES,
    ROTATIONS,
    AgentAuth,
    agent_of,
    not_accepted,
)
from api.agent_messages import (
    AgentTokenAnswer,
    CheckInRequest,
    EnrolAnswer,
    EnrolRequest,
    SnoozeAnswer,
    SnoozeRequest,
    StatusAnswer,
    status_of,
)
from api.errors import ApiError, Problem
from api.fields import MovedAnswer
from jobs.clock import database_clock
from jobs.conf import PROGRAM
from operations.limits import network_of
from sources import planning
from sources.agents import checkins, tokens
from sources.models import Source

router = Router(tags=["agent"], auth=AgentAuth())

USER, NONE_WANTED = "its user", "its user wants no backup"
CODE_REFUSED = "the code is not accepted"
CODE_HINT = f"codes work once and expire: `{PROGRAM} sources enrol SOURCE` on the server makes another"


@router.post(
    "/enrol", auth=None, response={201: EnrolAnswer, (401, 429): Problem}, operation_id="enrol",
    summary="Exchange a code for a token",
)  # fmt: skip
def enrol(request: HttpRequest, body: EnrolRequest) -> Status[dict[str, Any]]:
    """An unknown, used or expired code is refused with the same words."""
    sender = network_of(request.META["REMOTE_ADDR"])
    attempt = f"{tokens.first_group(body.code)} {sender}"
    FAILED_CODES.check(attempt)
    now = database_clock()
    try:
        source, token = tokens.redeem(body.code, now)
    except tokens.CredentialRefused as error:
        FAILED_CODES.spend(attempt)
        FAILED_ENROLMENTS.spend(sender)
        raise ApiError(401, CODE_REFUSED, CODE_HINT) from error
    checkins.enrolled(source, body.hostname or "", now)
    return Status(201, {"token": token, "source": source.name, "interval": settings.CHECK_IN_EVERY, "server_time": now})


@router.post("/agent/rotate", response=AgentTokenAnswer, operation_id="rotate_agent_token", summary="Renew the token")
def rotate(request: HttpRequest) -> dict[str, str]:
    """The present token stays valid until the new one is first used."""
    agent = agent_of(request)
    ROTATIONS.spend(str(agent.source.pk))
    try:
        return {"token": tokens.rotate(agent.token)}
    except tokens.CredentialRefused as error:
        raise not_accepted() from error


@router.post("/check-in", response=StatusAnswer, operation_id="check_in", summary="Report that the source is here")
def check_in(request: HttpRequest, body: CheckInRequest) -> dict[str, Any]:
    """Due backups become ready at their true place at once. The answer has the time of the next check-in."""
    agent, sender = agent_of(request), request.META["REMOTE_ADDR"]
    addresses = _within_limit(agent.source, checkins.reachable_at(body.addresses, sender))
    try:
        found = checkins.check_in(agent.source, replace(body.facts(), addresses=addresses), sender, agent.now)
    except checkins.SourceGone as error:
        raise not_accepted() from error
    return status_of(agent.source, agent.now, found.standings)


def _within_limit(source: Source, named: list[str]) -> tuple[str, ...]:
    """`named` without new addresses beyond their limit. The check-in counts anyway, with its sender's address."""
    new = [address for address in named if address not in source.addresses]
    beyond = new[NEW_ADDRESSES.grant(str(source.pk), len(new)) :] if new else []
    return tuple(address for address in named if address not in beyond)


@router.get("/agent/status", response=StatusAnswer, operation_id="get_agent_status", summary="The status of the source")
def status(request: HttpRequest) -> dict[str, Any]:
    """The answer of a check-in, without its effects."""
    agent = agent_of(request)
    return status_of(agent.source, agent.now)


@router.post("/agent/back-up-now", response=MovedAnswer, operation_id="back_up_now", summary="Back up now")
def back_up_now(request: HttpRequest) -> dict[str, int]:
    """Regardless of period and window. A source that an operator paused stays paused; a snooze is ended."""
    agent = agent_of(request)
    ASKED_FOR.spend(str(agent.source.pk))
    planning.resume([agent.source], agent.now, by=USER, by_user=True)
    return {"moved": planning.back_up_now(agent.source.assignments.all(), agent.now, asked_by=USER)}


@router.post("/agent/snooze", response=SnoozeAnswer, operation_id="snooze", summary="Snooze the source")
def snooze(request: HttpRequest, body: SnoozeRequest) -> dict[str, Any]:
    """A pause of the source for at most seven days. Running backups continue, and pauses by operators
    stay as they are.
    """
    agent = agent_of(request)
    until = body.ends_at(agent.now)
    planning.pause([agent.source], agent.now, until=until, reason=NONE_WANTED, by=USER, by_user=True)
    return {"snoozed_until": until}


@router.delete("/agent/snooze", response=SnoozeAnswer, operation_id="unsnooze", summary="End the snooze")
def unsnooze(request: HttpRequest) -> dict[str, None]:
    """Due backups are on the backlog at once. A pause by an operator stays."""
    agent = agent_of(request)
    planning.resume([agent.source], agent.now, by=USER, by_user=True)
    return {"snoozed_until": None}
